"""Codes on a flat torus made of plane waves, for which the conformal isometry can be computed."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def fan(count: int, frequency: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """``count`` wave vectors (J, 2) of equal length, spread over half a turn from angle 0 on.

    Three of them make a hexagonal pattern, two a square one.
    """
    angles = torch.arange(count, dtype=dtype) * (math.pi / count)
    return frequency * torch.stack([angles.cos(), angles.sin()], dim=-1)


def wave_codes(waves: Tensor, places: Tensor) -> Tensor:
    """Unit vectors (..., 2 J): cosines, then sines, of the phases of J waves at places (..., 2)."""
    phases = places @ waves.T  # (..., J)
    return torch.cat([phases.cos(), phases.sin()], dim=-1) / math.sqrt(waves.shape[0])


def conformal_factor(waves: Tensor) -> float:
    """The scaling factor s for which |v(x + dx) - v(x)| = s |dx| to lowest order.

    Raises:
        ValueError: the torus is not conformal: its metric depends on the direction by more than
            1e-6 of half its trace (entry by entry), or there is no metric since all waves are zero.
    """
    metric = waves.T @ waves / waves.shape[0]  # (2, 2)
    square = metric.trace() / 2
    if square <= 0 or (metric - square * torch.eye(2, dtype=waves.dtype)).abs().max() > 1e-6 * square:
        raise ValueError("the torus is not a conformal embedding")
    return float(square.sqrt())


def isometry_deviation(waves: Tensor, radius: float, angles: int) -> tuple[float, float]:
    """How distances of codes deviate from s |dx| on a circle of displacements.

    Args:
        waves: (J, 2), of a conformal torus.
        radius: |dx|.
        angles: how many equally spaced directions of dx are looked at, from angle 0 on.

    Returns:
        The mean over directions of the squared deviation, which is the conformal loss at this
        radius, and the population variance over directions of the distance.
    """
    # <paper2code name="deviation over directions">
    factor = conformal_factor(waves)
    theta = torch.arange(angles, dtype=waves.dtype) * (2 * math.pi / angles)
    phases = radius * torch.stack([theta.cos(), theta.sin()], dim=-1) @ waves.T  # (N, J)
    distance = (2 - 2 * phases.cos().mean(dim=-1)).sqrt()  # (N,)
    deviation = (distance - factor * radius).square().mean()
    return float(deviation), float(distance.var(correction=0))
    # </paper2code name="deviation over directions">
