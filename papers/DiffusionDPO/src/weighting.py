"""How much a timestep counts in the loss."""

from __future__ import annotations

import torch
from torch import Tensor

from schedule import Schedule


def timestep_weights(
    schedule: Schedule, timesteps: Tensor, kind: str = "constant", gamma: float = 5.0
) -> Tensor:
    """The weight omega of each timestep.

    Args:
        schedule: the forward process.
        timesteps: (B,), int64.
        kind: "constant", "likelihood" or "min-snr".
        gamma: where "min-snr" cuts off.

    Returns:
        (B,), double precision.

    Raises:
        ValueError: the kind is unknown, or a timestep is not in 0 .. T-1.
    """
    # <paper2code name="weight of a timestep">
    if (timesteps < 0).any() or (timesteps >= schedule.steps).any():
        raise ValueError(f"timesteps must be in 0 .. {schedule.steps - 1}")
    if kind == "constant":
        return torch.ones(len(timesteps), dtype=torch.float64)
    if kind == "likelihood":
        # <paper2code name="weight in the variational bound">
        later = timesteps.clamp(min=1)
        return (schedule.snr(later - 1) / schedule.snr(later) - 1) / 2
        # </paper2code name="weight in the variational bound">
    if kind == "min-snr":
        snr = schedule.snr(timesteps)
        return snr.clamp(max=gamma) / snr
    raise ValueError(f"unknown kind of weight: {kind}")
    # </paper2code name="weight of a timestep">
