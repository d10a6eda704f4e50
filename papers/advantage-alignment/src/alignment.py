"""Advantage alignment: how the advantages of several players are put together."""

from __future__ import annotations

import torch
from torch import Tensor


def discounted_past(
    advantages: Tensor, dones: Tensor, gamma: float, average: bool = False
) -> Tensor:
    """What a player has gained so far: the discounted sum of its earlier advantages.

    Args:
        advantages: (..., T).
        dones: (..., T), bool; leading dimensions broadcast to those of ``advantages``.
        gamma: discount.
        average: divide by the number of steps that were summed.

    Returns:
        (..., T): at each step the sum over the earlier steps of the same episode.
    """
    # <paper2code name="discounted past advantages">
    past = torch.zeros_like(advantages)
    count = torch.zeros_like(advantages)
    for t in range(1, advantages.shape[-1]):
        same = ~dones[..., t - 1]
        past[..., t] = gamma * same * (past[..., t - 1] + advantages[..., t - 1])
        count[..., t] = same * (count[..., t - 1] + 1)
    return past / count.clamp(min=1) if average else past
    # </paper2code name="discounted past advantages">


def aligned_advantages(
    advantages: Tensor,
    dones: Tensor,
    gamma: float,
    beta: float,
    average: bool = False,
) -> Tensor:
    """The advantages A* that each of N players uses in place of its own.

    Args:
        advantages: (B, N, T).
        dones: (B, T), bool; episodes end for all players at once.
        gamma: discount.
        beta: strength of the alignment; 0 gives back the advantages.
        average: use averages of the past in place of sums.

    Returns:
        (B, N, T).

    Raises:
        ValueError: there are fewer than two players, or ``beta`` is negative or not finite.
    """
    # <paper2code name="aligned advantages">
    if advantages.shape[1] < 2 or not 0.0 <= beta < float("inf"):
        raise ValueError("alignment needs two players and a finite beta >= 0")
    past = discounted_past(advantages, dones[:, None], gamma, average)
    others = advantages.sum(dim=1, keepdim=True) - advantages
    return advantages + beta * gamma * past * others
    # </paper2code name="aligned advantages">


def quadrant_shares(own: Tensor, other: Tensor, dones: Tensor, gamma: float) -> Tensor:
    """How often each combination of signs occurs: own past (rows), the other's advantage (columns).

    Args:
        own: (B, T), advantages of a player.
        other: (B, T), advantages of another player.
        dones: (B, T), bool.
        gamma: discount.

    Returns:
        (2, 2), in the dtype of ``own``; index 0 is negative, 1 is positive.
    """
    # <paper2code name="shares of the sign quadrants">
    past = discounted_past(own, dones, gamma)
    rows, columns = (past < 0, past > 0), (other < 0, other > 0)
    table = own.new_tensor([[(row & column).sum() for column in columns] for row in rows])
    return table / table.sum().clamp(min=1)
    # </paper2code name="shares of the sign quadrants">
