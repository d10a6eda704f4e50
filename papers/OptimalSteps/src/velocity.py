"""Velocity fields: (x (B, D), time as a float) -> dx/dt (B, D). Time 1 is noise, time 0 is data."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Velocity = Callable[[Tensor, float], Tensor]


def mixture_velocity(means: Tensor, scale: float) -> Velocity:
    """The exact field of x_t = (1 - t) data + t noise for a mixture of Gaussians.

    Args:
        means: (K, D): centers of K components of equal weight.
        scale: standard deviation of each component, positive.
    """

    def velocity(x: Tensor, t: float) -> Tensor:
        variance = ((1 - t) * scale) ** 2 + t**2
        gaps = x[:, None] - (1 - t) * means  # (B, K, D)
        weights = (-gaps.square().sum(dim=2, keepdim=True) / (2 * variance)).softmax(dim=1)
        slope = (t - (1 - t) * scale**2) / variance
        return (weights * (slope * gaps - means)).sum(dim=1)

    return velocity
