"""The linear interpolant between latents (t = 0) and noise (t = 1), and its velocity loss."""

from __future__ import annotations

from torch import Tensor


def interpolate(x: Tensor, noise: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """The noisy latents at times t (B,), and the velocity that the model should predict."""
    # <paper2code name="interpolant and its velocity">
    t = t.reshape(-1, 1, 1, 1)
    return (1 - t) * x + t * noise, noise - x
    # </paper2code name="interpolant and its velocity">


def velocity_loss(output: tuple[Tensor, list[Tensor]], velocity: Tensor) -> Tensor:
    """(B,): mean squared error of the first part of the transformer's output."""
    predicted, _ = output
    return (predicted - velocity).square().flatten(1).mean(dim=1)
