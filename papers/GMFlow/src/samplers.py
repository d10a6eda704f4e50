"""Solvers: both ask the network once per step, and use all of the mixture that it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from conversion import denoising_at, reverse_transition, velocity_to_data
from mixture import GaussianMixture, mixture_mean, sample
from schedule import sigma

Model = Callable[[Tensor, Tensor], GaussianMixture]  # (x_t, t) to the mixture of velocities


def time_grid(steps: int, shift: float = 1.0) -> list[float]:
    """``steps + 1`` falling times from 1 to 0; a shift above 1 stays longer with the noise."""
    even = [1 - i / steps for i in range(steps + 1)]
    return [shift * t / (1 + (shift - 1) * t) for t in even]


@torch.no_grad()
def gm_sde_sample(
    model: Model, x: Tensor, times: Sequence[float], uniforms: Tensor, noise: Tensor
) -> Tensor:
    """Stochastic sampler: every step draws from the reverse transition distribution.

    Args:
        x: (B, C, H, W), the sample at times[0].
        uniforms: (steps, B, H, W).
        noise: (steps, B, C, H, W).
    """
    batch = x.shape[0]
    for i, (before, after) in enumerate(zip(times, times[1:])):
        t, s = x.new_full((batch,), before), x.new_full((batch,), after)
        data = velocity_to_data(model(x, t), x, t)
        x = sample(reverse_transition(data, x, t, s), uniforms[i], noise[i])
    return x


@torch.no_grad()
def gm_ode_sample(model: Model, x: Tensor, times: Sequence[float], substeps: int) -> Tensor:
    """Deterministic sampler: Euler sub-steps along the analytic velocity field of each prediction.

    Args:
        x: (B, C, H, W), the sample at times[0].
        times: strictly falling, in [0, 1].
        substeps: of equal length, in every step.

    Raises:
        ValueError: fewer than two times, times that do not fall or lie outside of [0, 1], or
            fewer than one sub-step.
    """
    # <paper2code name="GM-ODE sampler">
    steps = list(zip(times, times[1:]))
    if not steps or not 1 >= times[0] or not times[-1] >= 0:
        raise ValueError("there must be at least two times, all of them in [0, 1]")
    if not all(after < before for before, after in steps):
        raise ValueError("times must fall strictly")
    if substeps < 1:
        raise ValueError(f"{substeps} sub-steps")
    batch = x.shape[0]
    for before, after in steps:
        anchor, t = x, x.new_full((batch,), before)
        data = velocity_to_data(model(anchor, t), anchor, t)
        for i in range(substeps):
            tau = x.new_full((batch,), before + (after - before) * i / substeps)
            mean = mixture_mean(denoising_at(data, anchor, t, x, tau))
            # <paper2code name="step along the analytic velocity">
            velocity = (x - mean) / sigma(tau).reshape(-1, 1, 1, 1)
            x = x + (after - before) / substeps * velocity
            # </paper2code name="step along the analytic velocity">
    return x
    # </paper2code name="GM-ODE sampler">
