"""One update of proximal advantage alignment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from agent import Agent
from alignment import aligned_advantages
from losses import clipped_surrogate
from returns import generalized_advantages
from rollout import Trajectory


@dataclass(frozen=True)
class Settings:
    """Constants of an update.

    Attributes:
        lam: of generalized advantage estimation.
        beta: strength of the alignment.
        epsilon: of the clipped surrogate.
        epochs: optimiser steps per update.
        value_weight, entropy_weight: of the parts of the loss.
        largest_norm: to which gradients are clipped.
        target_rate: how far the slow critic moves per update.
    """

    gamma: float = 0.9
    lam: float = 0.95
    beta: float = 1.0
    epsilon: float = 0.2
    epochs: int = 2
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    largest_norm: float = 1.0
    target_rate: float = 0.05
    average: bool = False


def update(
    agent: Agent,
    opponent: Agent,
    trajectory: Trajectory,
    optimizer: torch.optim.Optimizer,
    settings: Settings,
) -> dict[str, float]:
    """Improve ``agent``, which was the first player of ``trajectory``; leave ``opponent`` alone.

    Args:
        optimizer: of the actor and the critic of ``agent``.

    Returns:
        "policy", "value" and "entropy" (before weighting) of the last epoch, as plain numbers.
    """
    # <paper2code name="update of proximal advantage alignment">
    s = settings
    views, taken = trajectory.views[:, 0], trajectory.actions[:, 0]
    dones = torch.zeros_like(taken, dtype=torch.bool)
    # <paper2code name="advantages and value targets">
    values = torch.stack(
        [agent.target_values(views), opponent.target_values(trajectory.views[:, 1])], dim=1
    )
    both = dones[:, None].expand_as(trajectory.rewards)
    raw = generalized_advantages(trajectory.rewards, values, both, s.gamma, s.lam)
    targets = (raw[:, 0] + values[:, 0, :-1]).detach()
    scaled = raw / (raw.square().mean(dim=(0, 2), keepdim=True).sqrt() + 1e-8)
    aligned = aligned_advantages(scaled, dones, s.gamma, s.beta, s.average)[:, 0]
    # </paper2code name="advantages and value targets">
    everywhere = torch.ones_like(dones)
    learned = [*agent.actor.parameters(), *agent.critic.parameters()]
    for _ in range(s.epochs):
        table = agent.logits(views[:, :-1]).log_softmax(dim=-1)
        chosen = table.gather(-1, taken[..., None])[..., 0]
        policy = clipped_surrogate(
            chosen, trajectory.log_probs[:, 0], aligned, everywhere, s.epsilon
        )
        value = (agent.values(views[:, :-1]) - targets).square().mean()
        entropy = -(table.exp() * table).sum(dim=-1).mean()
        optimizer.zero_grad()
        (policy + s.value_weight * value - s.entropy_weight * entropy).backward()
        nn.utils.clip_grad_norm_(learned, s.largest_norm)
        optimizer.step()
    # <paper2code name="slow critic follows">
    with torch.no_grad():
        for slow, fast in zip(agent.target.parameters(), agent.critic.parameters()):
            slow.lerp_(fast, s.target_rate)
    # </paper2code name="slow critic follows">
    return {"policy": policy.item(), "value": value.item(), "entropy": entropy.item()}
    # </paper2code name="update of proximal advantage alignment">
