"""Play an iterated matrix game, with given uniform numbers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Trajectory(NamedTuple):
    """A batch of B games of T rounds.

    Attributes:
        views: (B, 2, T + 1), int64: what each player sees before each round and after the last.
        actions: (B, 2, T), int64.
        rewards: (B, 2, T), in the dtype of the payoffs.
        log_probs: (B, 2, T): of the actions taken; gradients flow to the logits.
    """

    views: Tensor
    actions: Tensor
    rewards: Tensor
    log_probs: Tensor


def play(first: Tensor, second: Tensor, payoffs: Tensor, uniforms: Tensor) -> Trajectory:
    """Let two players with memory one play against each other.

    Args:
        first: logits (V, A) of the first player, in its own view.
        second: logits (V, A) of the second player, in its own view.
        payoffs: (2, A, A): player, action of the first, action of the second.
        uniforms: (B, T, 2): numbers in [0, 1): game, round, player. T is at least 1.
    """
    # <paper2code name="rounds of an iterated game">
    batch, rounds, _ = uniforms.shape
    _, actions = first.shape
    tables = [first.log_softmax(dim=1), second.log_softmax(dim=1)]
    view = torch.zeros(2, batch, dtype=torch.long)
    views, taken, rewards, log_probs = [view], [], [], []
    for t in range(rounds):
        choices, scores = [], []
        for player, table in enumerate(tables):
            rows = table[view[player]]  # (B, A)
            # <paper2code name="draw of an action">
            passed = rows.exp().cumsum(dim=1) <= uniforms[:, t, player, None]
            choice = passed.sum(dim=1).clamp(max=actions - 1)
            # </paper2code name="draw of an action">
            choices.append(choice)
            scores.append(rows.gather(1, choice[:, None])[:, 0])
        a, b = choices
        view = torch.stack([1 + actions * a + b, 1 + actions * b + a])
        views.append(view)
        taken.append(torch.stack([a, b]))
        rewards.append(payoffs[:, a, b])
        log_probs.append(torch.stack(scores))
    found = [torch.stack(x, dim=-1).transpose(0, 1) for x in (views, taken, rewards, log_probs)]
    return Trajectory(*found)
    # </paper2code name="rounds of an iterated game">
