"""Grids of times that fall from 1 (noise) to 0 (data), in double precision."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def shifted_grid(steps: int, shift: float = 1.0) -> Tensor:
    """Evenly spaced times, shifted toward the noise.

    Returns:
        (steps + 1,), from exactly 1 to exactly 0.

    Raises:
        ValueError: fewer than one step, or a shift that is not positive and finite.
    """
    # <paper2code name="shifted uniform grid">
    if steps < 1 or not 0 < shift < math.inf:
        raise ValueError(f"no grid of {steps} steps with a shift of {shift}")
    even = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    noisy = shift * even
    return noisy / (noisy + (1 - even))
    # </paper2code name="shifted uniform grid">
