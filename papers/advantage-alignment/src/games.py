"""Iterated matrix games with memory one.

With A actions for each of two players there are 1 + A * A views. View 0 is the start; view
1 + A * own + other means that in the last round this player did ``own`` and the other ``other``.
Each player has its own view of the same history.
"""

from __future__ import annotations

import torch
from torch import Tensor

COOPERATE, DEFECT = 0, 1

# (player, action of the first, action of the second)
PRISONERS_DILEMMA = torch.tensor([[[-1.0, -3.0], [0.0, -2.0]], [[-1.0, 0.0], [-3.0, -2.0]]])
STAG_HUNT = torch.tensor([[[4.0, 1.0], [3.0, 2.0]], [[4.0, 3.0], [1.0, 2.0]]])


def number_of_views(actions: int) -> int:
    """How many views a player can have."""
    return 1 + actions * actions


def through_the_other_eyes(table: Tensor, actions: int) -> Tensor:
    """Reorder the rows of a table (views, ...): row v becomes what the other player has where we see v."""
    order = torch.arange(actions * actions).reshape(actions, actions).T.flatten() + 1
    return table[torch.cat([torch.zeros(1, dtype=torch.long), order])]


def tit_for_tat(sure: float = 20.0) -> Tensor:
    """Logits (5, 2) of a player who begins with cooperation, then does what the other did."""
    return torch.tensor([[sure, 0.0], [sure, 0.0], [0.0, sure], [sure, 0.0], [0.0, sure]])


def always(action: int, actions: int = 2, sure: float = 20.0) -> Tensor:
    """Logits (views, actions) of a player who does the same whatever happens."""
    logits = torch.zeros(number_of_views(actions), actions)
    logits[:, action] = sure
    return logits
