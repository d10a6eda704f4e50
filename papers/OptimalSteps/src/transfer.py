"""A schedule that was found once, used with another number of steps or another noise process."""

from __future__ import annotations

import torch
from torch import Tensor


def resampled(times: Tensor, steps: int) -> Tensor:
    """A schedule of M steps as one of ``steps`` steps, by linear interpolation.

    Args:
        times: (M + 1,), falling.
        steps: how many there shall be.

    Returns:
        (steps + 1,), double precision, with the same two ends exactly.

    Raises:
        ValueError: fewer than one step, or fewer than two times.
    """
    # <paper2code name="schedule with another number of steps">
    if steps < 1 or len(times) < 2:
        raise ValueError("a schedule has at least one step")
    knots = torch.arange(len(times))
    places = torch.arange(steps + 1, dtype=torch.float64) * (len(times) - 1) / steps
    # Each new time is a sum of hat functions, one around each of the old ones.
    hats = (1 - (places[:, None] - knots).abs()).clamp(min=0)  # (steps + 1, M + 1)
    return hats @ times.double()
    # </paper2code name="schedule with another number of steps">


def flow_time(alpha: Tensor, sigma: Tensor) -> Tensor:
    """The time at which x_t = (1 - t) data + t noise is as noisy as alpha data + sigma noise."""
    # <paper2code name="time of equal signal-to-noise ratio">
    return sigma / (alpha + sigma)
    # </paper2code name="time of equal signal-to-noise ratio">
