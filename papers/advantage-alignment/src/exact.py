"""What advantage alignment does in expectation, in an iterated matrix game with memory one.

Both tables of logits are (views, actions), each in the view of its own player (see games.py).
Everything that is returned is in the view of the first player.
"""

from __future__ import annotations

import torch
from torch import Tensor

from games import through_the_other_eyes


def exact_advantages(first: Tensor, second: Tensor, payoffs: Tensor, gamma: float) -> Tensor:
    """Advantages of joint actions for both players.

    Args:
        first: logits (V, A) of the first player.
        second: logits (V, A) of the second player, in its own view.
        payoffs: (2, A, A): player, action of the first, action of the second.
        gamma: discount.

    Returns:
        (2, V, A, A): player, view of the first player, action of the first, action of the second.

    Raises:
        ValueError: ``gamma`` is not in [0, 1).
    """
    # <paper2code name="exact advantages of joint actions">
    if not 0.0 <= gamma < 1.0:
        raise ValueError(f"gamma must be in [0, 1), not {gamma}")
    views, actions = first.shape
    other = through_the_other_eyes(second, actions)
    joint = torch.einsum("va,vb->vab", first.softmax(dim=1), other.softmax(dim=1))
    # <paper2code name="values of all views">
    transition = torch.cat([joint.new_zeros(views, 1), joint.flatten(1)], dim=1)  # (V, V)
    reward = torch.einsum("vab,iab->vi", joint, payoffs)
    identity = joint.new_ones(views).diag()
    values = torch.linalg.solve(identity - gamma * transition, reward).T  # (2, V)
    # </paper2code name="values of all views">
    after = values[:, 1:].reshape(2, 1, actions, actions)
    return payoffs[:, None] + gamma * after - values[:, :, None, None]
    # </paper2code name="exact advantages of joint actions">


def expected_direction(
    first: Tensor, second: Tensor, advantages: Tensor, gamma: float, beta: float, horizon: int
) -> Tensor:
    """The expected policy gradient of advantage alignment for the first player.

    Args:
        first: logits (V, A) of the first player.
        second: logits (V, A) of the second player, in its own view.
        advantages: (2, V, A, A), as from ``exact_advantages``; constants.
        gamma: discount.
        beta: strength of the alignment.
        horizon: number of steps of an episode.

    Returns:
        (V, A): the direction for the logits of the first player.

    Raises:
        ValueError: ``horizon`` is less than 1.
    """
    # <paper2code name="expected alignment gradient">
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, not {horizon}")
    views, actions = first.shape
    ours = first.softmax(dim=1)
    theirs = through_the_other_eyes(second, actions).softmax(dim=1)
    joint = torch.einsum("va,vb->vab", ours, theirs)
    own, other = torch.einsum("ivab,vb->iva", advantages, theirs)
    start = first.new_zeros(1)
    reach = first.new_zeros(views)  # (V,): probability to be there
    reach[0] = 1.0
    gained = torch.zeros_like(reach)  # (V,): expectation of the past where we are there
    direction = torch.zeros_like(first)
    for t in range(horizon):
        weights = reach[:, None] * own + beta * gamma * gained[:, None] * other
        push = gamma**t * ours * weights
        direction = direction + push - ours * push.sum(dim=1, keepdim=True)
        # <paper2code name="expected past carried forward">
        earned = gained[:, None, None] + reach[:, None, None] * advantages[0]
        gained = torch.cat([start, gamma * (joint * earned).sum(dim=0).flatten()])
        # </paper2code name="expected past carried forward">
        reach = torch.cat([start, (joint * reach[:, None, None]).sum(dim=0).flatten()])
    return direction
    # </paper2code name="expected alignment gradient">
