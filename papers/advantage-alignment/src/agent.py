"""A player with tables for an actor and a critic."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from games import number_of_views


class Table(nn.Module):
    """One trainable row of numbers per view."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))

    def forward(self, views: Tensor) -> Tensor:
        return self.weight[views]  # (..., width)


class Agent(nn.Module):
    """Actor and critic learn; the target is a slow copy of the critic and takes no gradients."""

    def __init__(self, actions: int = 2) -> None:
        super().__init__()
        views = number_of_views(actions)
        self.actor = Table(views, actions)
        self.critic = Table(views, 1)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)

    def logits(self, views: Tensor) -> Tensor:
        """(...) views to (..., A) logits."""
        return self.actor(views)

    def values(self, views: Tensor) -> Tensor:
        """(...) views to (...) values of the critic."""
        return self.critic(views)[..., 0]

    def target_values(self, views: Tensor) -> Tensor:
        """(...) views to (...) values of the slow critic."""
        return self.target(views)[..., 0]
