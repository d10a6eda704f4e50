"""A learning curve as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw(
    rewards: Sequence[float], path: Path, *, title: str, chance: float, window: int = 5
) -> None:
    """Mean reward at every update, its running mean, and what choosing at random earns.

    The suffix of the path says the kind of picture: .svg or .png.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    smooth = [
        sum(rewards[max(0, at - window + 1) : at + 1]) / min(window, at + 1)
        for at in range(len(rewards))
    ]
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot(rewards, color="tab:blue", alpha=0.3, label="batch")
    axes.plot(smooth, color="tab:blue", label=f"mean of {window}")
    axes.axhline(chance, color="gray", linestyle="--", label="at random")
    axes.set(xlabel="update", ylabel="pass rate", ylim=(-0.02, 1.02), title=title)
    axes.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
