"""Mask annealing: masked attention fades out during training, so that inference needs none."""

from __future__ import annotations

import torch
from torch import Tensor


def annealed_probabilities(
    step: int, total_steps: int, num_blocks: int, power: float = 0.9
) -> Tensor:
    """How probable masked attention is in each joint block at a step of the training.

    Returns:
        (num_blocks,), float64.

    Raises:
        ValueError: there are no steps or no blocks, or the step is negative.
    """
    # <paper2code name="staggered mask annealing">
    if total_steps < 1 or num_blocks < 1 or step < 0:
        raise ValueError(f"step {step} of {total_steps} with {num_blocks} blocks")
    unit = total_steps / (num_blocks + 1)
    starts = unit * torch.arange(num_blocks, dtype=torch.float64)
    progress = ((step - starts) / (2 * unit)).clamp(0, 1)
    return (1 - progress) ** power
    # </paper2code name="staggered mask annealing">
