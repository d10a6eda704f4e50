"""Euler-Maruyama sampling of latents, with guidance on an interval of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from normalization import LatentNorm

Model = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]


def score(x: Tensor, velocity: Tensor, t: float) -> Tensor:
    """The score of noisy latents at time t > 0, from their velocity."""
    # <paper2code name="score from the velocity">
    return -(x + (1 - t) * velocity) / t
    # </paper2code name="score from the velocity">


def guided_velocity(
    model: Model, x: Tensor, t: float, labels: Tensor, null_label: int, scale: float, interval: tuple[float, float]
) -> Tensor:
    """Classifier-free guidance for times in the closed interval; elsewhere, or for scale 1, the model is asked once.

    Where there is guidance it is asked once for both, at 2B rows: with labels, then without.
    """
    # <paper2code name="guidance on an interval">
    low, high = interval
    if scale == 1 or not low <= t <= high:
        return model(x, x.new_full((len(x),), t), labels)[0]
    both = torch.cat([labels, torch.full_like(labels, null_label)])
    velocity = model(x.repeat(2, 1, 1, 1), x.new_full((len(both),), t), both)[0]
    conditional, unconditional = velocity.chunk(2)
    return unconditional + scale * (conditional - unconditional)
    # </paper2code name="guidance on an interval">


@torch.no_grad()
def sample_latents(
    model: Model,
    norm: LatentNorm,
    x: Tensor,
    labels: Tensor,
    null_label: int,
    times: Sequence[float],
    noise: Tensor,
    scale: float = 1.0,
    interval: tuple[float, float] = (0.0, 1.0),
) -> Tensor:
    """From noise to latents that the VAE can decode.

    Args:
        x: (B, L, h, w), standard normal: the latents at times[0].
        times: strictly falling, in (0, 1]; the last step goes from times[-1] to 0 without noise.
        noise: (len(times) - 1, B, L, h, w), standard normal.

    Raises:
        ValueError: no times, times that do not fall or lie outside of (0, 1], or not the right number of noises.
    """
    # <paper2code name="Euler-Maruyama sampler">
    steps = list(zip(times, times[1:]))
    if not times or not 1 >= times[0] or not times[-1] > 0:
        raise ValueError("there must be times, all of them in (0, 1]")
    if not all(after < before for before, after in steps):
        raise ValueError("times must fall strictly")
    if len(noise) != len(steps):
        raise ValueError(f"{len(noise)} noises for {len(steps)} steps")
    for (t, after), kick in zip(steps, noise):
        velocity = guided_velocity(model, x, t, labels, null_label, scale, interval)
        # <paper2code name="drift of the reverse equation">
        width = 2 * t
        drift = velocity - 0.5 * width * score(x, velocity, t)
        # </paper2code name="drift of the reverse equation">
        x = x + (after - t) * drift + (width * (t - after)) ** 0.5 * kick
    t = times[-1]
    velocity = guided_velocity(model, x, t, labels, null_label, scale, interval)
    x = x - t * (velocity - t * score(x, velocity, t))
    return norm.denormalize(x)
    # </paper2code name="Euler-Maruyama sampler">
