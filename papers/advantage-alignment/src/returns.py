"""Advantages from rewards and a critic."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def generalized_advantages(
    rewards: Tensor, values: Tensor, dones: Tensor, gamma: float, lam: float
) -> Tensor:
    """Generalized advantage estimation over the last dimension.

    Args:
        rewards: (..., T).
        values: (..., T + 1): the critic before each step, and after the last one.
        dones: (..., T), bool: an episode ended with this step.
        gamma: discount.
        lam: how far beyond one step to look.

    Returns:
        (..., T), in the dtype of ``rewards``.

    Raises:
        ValueError: the shapes do not fit exactly, or ``gamma`` or ``lam`` is not in [0, 1].
    """
    # <paper2code name="generalized advantage estimation">
    if not (0.0 <= gamma <= 1.0 and 0.0 <= lam <= 1.0):
        raise ValueError(f"gamma and lambda must be in [0, 1], not {gamma} and {lam}")
    *leading, steps = rewards.shape
    if dones.shape != rewards.shape or values.shape != (*leading, steps + 1):
        raise ValueError("dones must be (..., T) and values (..., T + 1)")
    alive = (~dones).to(rewards.dtype)
    # <paper2code name="temporal-difference errors">
    errors = rewards + gamma * alive * values[..., 1:] - values[..., :-1]
    # </paper2code name="temporal-difference errors">
    advantages = torch.empty_like(rewards)
    following = rewards.new_zeros(leading)
    for t in reversed(range(steps)):
        following = errors[..., t] + gamma * lam * alive[..., t] * following
        advantages[..., t] = following
    return advantages
    # </paper2code name="generalized advantage estimation">
