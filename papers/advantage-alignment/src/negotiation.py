"""The negotiation game: how items are split when players ask for more than there is."""

from __future__ import annotations

from torch import Tensor

LIMIT = 5.0  # the largest proposal


def settle(proposals: Tensor, values: Tensor, quantities: Tensor) -> tuple[Tensor, Tensor]:
    """Split every item and pay the players.

    Args:
        proposals: (B, N, I): how much of each of I items each of N players asks for.
        values: (B, N, I): what one piece is worth to each player; not negative.
        quantities: (B, I): how many pieces there are; not negative.

    Returns:
        Rewards (B, N), and the efficiency (B,) of the split.

    Raises:
        ValueError: a proposal is not in [0, LIMIT].
    """
    # <paper2code name="split of the items">
    if not ((proposals >= 0) & (proposals <= LIMIT)).all():
        raise ValueError(f"proposals must be between 0 and {LIMIT}")
    asked = proposals.sum(dim=1, keepdim=True)  # (B, 1, I)
    shares = proposals / asked.clamp(min=LIMIT)
    rewards = (shares * values * quantities[:, None]).sum(dim=2)
    best = (values.amax(dim=1) * quantities).sum(dim=1)
    efficiency = rewards.sum(dim=1) / best
    return rewards, efficiency.masked_fill(best == 0, 1.0)
    # </paper2code name="split of the items">
