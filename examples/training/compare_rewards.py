"""What a policy makes of each reward: REINFORCE on the same completions, paid by different rules.

    pip install 'rcb-env[examples]'
    python examples/training/compare_rewards.py --out docs/rewards.svg

Each challenge has its right completion, some faulty ones, and some that know nothing (`pass`, an exception, a constant). Each is
graded once by a real environment for every reward: what it earns does not change from try to try. On these numbers a softmax
learns, again and again with other seeds, and the chart shows how often its choice passes. "all cases" is the share of all cases
that passed, free ones too: it pays for nothing, so it is the slowest to tell a solution from the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from candidates import candidates
from needs import require

import rcb_env

CHALLENGES = (
    "DyT/affine-parameters-for-channels-first",
    "DyT/keep-the-trained-scale-and-shift",
    "DyT/fit-a-scaled-tanh",
    "minp/min-p-truncation",
    "schedule_free/recover-the-average-x-from-y-and-z",
)
NOTHING = ("pass", "return None", "raise ValueError")
Paid = Callable[[float, Mapping[str, Any]], float]
REWARDS: Mapping[str, tuple[str, Paid]] = {
    "all cases": ("sparse", lambda _, verdict: share_of_all(verdict)),
    "cases": ("cases", lambda reward, _: reward),
    "weighted": ("weighted", lambda reward, _: reward),
    "sparse": ("sparse", lambda reward, _: reward),
}


def share_of_all(verdict: Mapping[str, Any]) -> float:
    """The part of all cases that passed, whoever passes them."""
    passed = [case["outcome"] == "passed" for case in verdict["cases"]]
    return sum(passed) / len(passed) if passed else 0.0


def earnings(wrong: int) -> dict[str, np.ndarray]:
    """What each completion of each challenge earns, by reward: an array of challenges and completions."""
    data = rcb_env.load_dataset()
    codes = candidates(CHALLENGES, wrong)
    for id, found in codes.items():
        indent = data.challenge(id).region.indent
        found += [f"{indent}{line}\n" for line in NOTHING]
    earned: dict[str, np.ndarray] = {}
    for name, (reward, paid) in REWARDS.items():
        env = rcb_env.ResearchCodeEnv(reward=reward)
        rows = []
        for id, found in codes.items():
            row = []
            for code in found:
                env.reset(options={"challenge": id})
                env.step({"tool": "write_region", "arguments": {"code": code}})
                *_, info = last = env.step({"tool": "submit", "arguments": {}})
                row.append(paid(last[1], info["verdict"]))
            rows.append(row)
        earned[name] = np.array(rows)
        print(
            f"{name}: without trying at most {earned[name][:, -len(NOTHING) :].max():.2f}",
            flush=True,
        )
    return earned


def pass_rates(
    paid: np.ndarray, passes: np.ndarray, *, updates: int, rate: float, seeds: int
) -> np.ndarray:
    """How often the choice passes, by seed and update; eight episodes an update, as in reinforce.py."""
    found = np.zeros((seeds, updates))
    for seed in range(seeds):
        drawn = np.random.default_rng(seed)
        logits = np.zeros(paid.shape)
        baseline = np.zeros(len(paid))
        for update in range(updates):
            policy = np.exp(logits - logits.max(axis=1, keepdims=True))
            policy /= policy.sum(axis=1, keepdims=True)
            found[seed, update] = (policy * passes).sum(axis=1).mean()
            for at in drawn.integers(len(paid), size=8):
                choice = drawn.choice(paid.shape[1], p=policy[at])
                score = -policy[at]
                score[choice] += 1.0
                logits[at] += rate * (paid[at, choice] - baseline[at]) * score
                baseline[at] += 0.1 * (paid[at, choice] - baseline[at])
    return found


def main() -> None:
    """Grade, learn, draw."""
    parser = argparse.ArgumentParser(description="REINFORCE under different rewards.")
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--wrong", type=int, default=4, help="faulty completions per challenge")
    parser.add_argument("--rate", type=float, default=1.0, help="of learning")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/rewards.svg"))
    chosen = parser.parse_args()
    require("examples", "matplotlib")
    earned = earnings(chosen.wrong)
    curves = {
        name: pass_rates(
            paid, earned["sparse"], updates=chosen.updates, rate=chosen.rate, seeds=chosen.seeds
        )
        for name, paid in earned.items()
    }
    for name, rates in curves.items():
        print(f"{name}: pass rate {rates[:, -1].mean():.2f} after {chosen.updates} updates")
    draw(curves, chosen.out)
    print(f"the chart is in {chosen.out}")


def draw(curves: Mapping[str, np.ndarray], path: Path) -> None:
    """The mean over seeds, and the middle half of them."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "rewards"  # the same numbers give the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    for name, rates in curves.items():
        style = "--" if name == "weighted" else "-"  # it lies upon another one
        (line,) = axes.plot(rates.mean(axis=0), style, label=name)
        low, high = np.quantile(rates, (0.25, 0.75), axis=0)
        axes.fill_between(range(rates.shape[1]), low, high, color=line.get_color(), alpha=0.15)
    axes.set(xlabel="update", ylabel="pass rate of the policy", ylim=(0, 1.02))
    axes.legend(title="reward", loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
