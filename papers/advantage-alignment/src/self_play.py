"""Two players learn the iterated prisoner's dilemma, with or without alignment.

``train`` learns from sampled games, ``ascend`` follows the expected gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agent import Agent
from exact import exact_advantages, expected_direction
from games import PRISONERS_DILEMMA
from rollout import play
from trainer import Settings, update


def train(beta: float, updates: int = 100, batch: int = 64, rounds: int = 16, seed: int = 0) -> float:
    """Train both players and return the mean reward of the last games."""
    generator = torch.Generator().manual_seed(seed)
    agents = [Agent(), Agent()]
    optimizers = [
        torch.optim.Adam([*a.actor.parameters(), *a.critic.parameters()], lr=0.02) for a in agents
    ]
    settings = Settings(beta=beta)
    rewards = torch.zeros(1)
    for _ in range(updates):
        for me in (0, 1):
            uniforms = torch.rand(batch, rounds, 2, generator=generator)
            tables = [agents[i].actor.weight.detach() for i in (me, 1 - me)]
            games = play(*tables, PRISONERS_DILEMMA, uniforms)
            rewards = games.rewards
            update(agents[me], agents[1 - me], games, optimizers[me], settings)
    return rewards.mean().item()


def ascend(beta: float, steps: int = 300, rate: float = 0.3, gamma: float = 0.96) -> Tensor:
    """Both players follow the expected direction; returns how likely the first cooperates, by view."""
    generator = torch.Generator().manual_seed(0)
    x, y = (0.1 * torch.randn(5, 2, generator=generator) for _ in range(2))
    game = PRISONERS_DILEMMA
    for _ in range(steps):
        for_x = expected_direction(x, y, exact_advantages(x, y, game, gamma), gamma, beta, 16)
        for_y = expected_direction(y, x, exact_advantages(y, x, game, gamma), gamma, beta, 16)
        x, y = x + rate * for_x, y + rate * for_y
    return x.softmax(dim=1)[:, 0]


if __name__ == "__main__":
    for beta in (0.0, 3.0):
        print(f"beta {beta}: cooperates with", [round(p, 2) for p in ascend(beta).tolist()])
