"""GRPO whose rollouts run in Ray actors: as many workers as one likes, on as many nodes as there are.

    pip install 'rcb-env[ray,examples]'
    python examples/training/ray_rollouts.py                     # a cluster of this machine alone
    python examples/training/ray_rollouts.py --address auto      # the one this machine belongs to

The policy is a softmax over K completions for each challenge, as in reinforce.py, so that only numpy is needed to learn.
Everything else is as in a real training run: each worker has environments of its own (`sandbox="ray"`: no boxes of its own,
they are its node's), plays a group of episodes of one challenge, and the advantage of an episode is its reward against its
group's.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import ray
from candidates import candidates
from reinforce import CHALLENGES

import rcb_env


class Rollouts:
    """A rollout worker."""

    def __init__(self) -> None:
        self._env = rcb_env.ResearchCodeEnv(challenges=CHALLENGES, sandbox="ray")

    def play(self, challenge: str, codes: list[str]) -> list[float]:
        """The rewards of a group: an episode for each of these completions."""
        rewards = []
        for code in codes:
            self._env.reset(options={"challenge": challenge})
            self._env.step({"tool": "write_region", "arguments": {"code": code}})
            _, reward, *_ = self._env.step({"tool": "submit", "arguments": {}})
            rewards.append(float(reward))
        return rewards


def learn(
    completions: dict[str, list[str]], workers: list[Any], *, updates: int, group: int, seed: int
) -> list[float]:
    """Mean rewards, one for each update.

    Args:
        completions: for each challenge the same number of codes.
        workers: handles of `Rollouts`.
        updates: of the policy; each takes a group of episodes of every challenge.
        group: episodes in a group.
        seed: of the choices.
    """
    drawn = np.random.default_rng(seed)
    logits = {id: np.zeros(len(codes)) for id, codes in completions.items()}
    means = []
    for _ in range(updates):
        asked, chosen = {}, {}
        for number, (id, codes) in enumerate(completions.items()):
            weights = np.exp(logits[id] - logits[id].max())
            policy = weights / weights.sum()
            chosen[id] = drawn.choice(len(codes), size=group, p=policy)
            worker = workers[number % len(workers)]
            asked[id] = worker.play.remote(id, [codes[choice] for choice in chosen[id]])
        rewards = {id: np.array(ray.get(ref)) for id, ref in asked.items()}
        for id, earned in rewards.items():
            advantage = (earned - earned.mean()) / (earned.std() + 1e-6)
            weights = np.exp(logits[id] - logits[id].max())
            policy = weights / weights.sum()
            for choice, gain in zip(chosen[id], advantage, strict=True):
                score = -policy
                score[choice] += 1.0  # the gradient of log p(choice)
                logits[id] += gain * score / group
        means.append(float(np.mean([earned.mean() for earned in rewards.values()])))
    return means


def main() -> None:
    """Start the workers, and learn."""
    parser = argparse.ArgumentParser(description="GRPO with rollouts in Ray actors.")
    parser.add_argument(
        "--address", default="local", help="of a cluster; local: this machine alone"
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument(
        "--group", type=int, default=8, help="episodes of a challenge in one update"
    )
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print("trying the completions ...", flush=True)
    completions = candidates(CHALLENGES, 3, chosen.seed)
    ray.init(address=chosen.address, log_to_driver=False)
    worker = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(Rollouts)
    workers = [worker.remote() for _ in range(chosen.workers)]
    rewards = learn(
        completions, workers, updates=chosen.updates, group=chosen.group, seed=chosen.seed
    )
    third = max(1, len(rewards) // 3)
    print(
        f"pass rate: {np.mean(rewards[:third]):.2f} in the first third,"
        f" {np.mean(rewards[-third:]):.2f} in the last"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
