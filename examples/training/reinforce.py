"""REINFORCE on real challenges: a policy learns which of some completions passes.

    pip install 'rcb-env[examples]'
    python examples/training/reinforce.py --out runs/reinforce.svg

The smallest problem with everything in it: a softmax over K completions for each challenge, eight
environments side by side, the environment's own reward, one line of gradient, and a baseline. Only
numpy is needed to learn, matplotlib to draw the curve; the rewards are verdicts on code that ran in
boxes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from candidates import candidates
from curves import draw
from needs import lacking

import rcb_env

CHALLENGES = (
    "DyT/gradient-of-alpha",
    "DyT/forward",
    "minp/threshold-scaled-by-the-top-probability",
    "minp/min-p-truncation",
    "schedule_free/recover-the-average-x-from-y-and-z",
)


def learn(
    completions: dict[str, list[str]],
    *,
    updates: int,
    num_envs: int,
    rate: float,
    seed: int,
) -> list[float]:
    """Mean rewards, one for each update.

    Args:
        completions: for each challenge the same number of codes.
        updates: of the policy; each takes one episode of every environment.
        num_envs: how many environments play side by side.
        rate: of learning.
        seed: of the draws of challenges and of choices.
    """
    ids = list(completions)
    choices = len(completions[ids[0]])
    logits = np.zeros((len(ids), choices))
    baseline = np.zeros(len(ids))
    drawn = np.random.default_rng(seed)
    envs = gymnasium.make_vec(
        rcb_env.ENV_ID, num_envs=num_envs, challenges=ids, autoreset_mode="Disabled"
    )
    rewards = []
    for update in range(updates):
        _, info = envs.reset(seed=seed + update * num_envs)
        which = np.array([ids.index(id) for id in info["challenge"]])
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy = (weights / weights.sum(axis=1, keepdims=True))[which]
        chosen = np.array([drawn.choice(choices, p=row) for row in policy])
        envs.step(
            [
                {"tool": "write_region", "arguments": {"code": completions[ids[at]][choice]}}
                for at, choice in zip(which, chosen, strict=True)
            ]
        )
        _, reward, terminated, _, _ = envs.step([{"tool": "submit"}] * num_envs)
        for at, choice, probabilities, earned, submitted in zip(
            which, chosen, policy, reward, terminated, strict=True
        ):
            if not submitted:  # the machinery failed: this says nothing about the choice
                continue
            score = -probabilities
            score[choice] += 1.0  # the gradient of log p(choice)
            logits[at] += rate * (earned - baseline[at]) * score
            baseline[at] += 0.1 * (earned - baseline[at])
        rewards.append(float(reward.mean()))
        if len(rewards) % 10 == 0:
            print(
                f"update {len(rewards)} of {updates}: pass rate {np.mean(rewards[-10:]):.2f}"
                " in the last ten",
                flush=True,
            )
    envs.close()
    return rewards


def main() -> None:
    """Learn, and draw the curve."""
    parser = argparse.ArgumentParser(description="REINFORCE on real challenges.")
    parser.add_argument("--updates", type=int, default=80)
    parser.add_argument("--envs", type=int, default=8, help="environments side by side")
    parser.add_argument("--wrong", type=int, default=3, help="wrong completions per challenge")
    parser.add_argument("--rate", type=float, default=1.0, help="of learning")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/reinforce.svg"))
    chosen = parser.parse_args()
    no_curve = lacking("examples", "matplotlib")
    if no_curve:
        print(f"the curve will not be drawn: {no_curve}")
    print("trying the completions ...", flush=True)
    rewards = learn(
        candidates(CHALLENGES, chosen.wrong, chosen.seed),
        updates=chosen.updates,
        num_envs=chosen.envs,
        rate=chosen.rate,
        seed=chosen.seed,
    )
    third = max(1, len(rewards) // 3)
    print(
        f"pass rate: {np.mean(rewards[:third]):.2f} in the first third,"
        f" {np.mean(rewards[-third:]):.2f} in the last"
    )
    if not no_curve:
        draw(rewards, chosen.out, title="REINFORCE", chance=1 / (1 + chosen.wrong))
        print(f"the curve is in {chosen.out}")


if __name__ == "__main__":
    main()
