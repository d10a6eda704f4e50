"""`python -m benchmarks.power`: whether a gap is seen as often as `rcb compare --power` says, in simulated pairs of runs.

For each kind of pair (see `benchmarks.intervals.paired`) the number of papers is asked for twice: from a pair of 2000 papers,
which shows how good the formula is, and from many pairs of a few papers, which shows what it is worth in practice, since
their variance is estimated too. Then pairs with that many papers are simulated, and those are counted whose interval leaves
out 0. It should be 80 of 100.
"""

from __future__ import annotations

import click
import numpy as np

from benchmarks.intervals import interval_of_pair, paired
from rcb_env.report.power import of_pair

PAIRS = ((0.1, 0.2, 0.0), (0.1, 0.35, 0.2), (0.15, 0.4, 0.2), (0.2, 0.55, 0.3), (0.05, 0.2, 0.1))
"""The true gap, the share of challenges that differ, how far papers are apart."""
_MANY = 2000


def papers_asked_for(rng: np.random.Generator, pilot: int, pair: tuple[float, float, float]) -> int:
    """How many papers are said to be needed, by one simulated pair.

    Args:
        rng: draws.
        pilot: papers of that pair.
        pair: one of `PAIRS`.
    """
    gap, change, apart = pair
    found = of_pair(
        paired(rng, pilot, gap=gap, change=change, apart=apart), level=0.95, gaps=(100 * gap,)
    )
    if found is None:
        raise ValueError("all papers of the pilot differ alike; take more")
    return next(each.papers for each in found.needed if each.gap == 100 * gap)


def seen(
    rng: np.random.Generator, papers: int, pair: tuple[float, float, float], *, times: int
) -> float:
    """The share of simulated pairs whose interval leaves out 0."""
    gap, change, apart = pair
    count = 0
    for _ in range(times):
        low, high = interval_of_pair(paired(rng, papers, gap=gap, change=change, apart=apart))
        count += low > 0 or high < 0
    return count / times


@click.command()
@click.option("--times", default=1000, show_default=True, help="Simulated pairs for each row.")
@click.option("--pilot", default=20, show_default=True, help="Papers of a pair at hand.")
def main(times: int, pilot: int) -> None:
    """Print a row for each kind of pair."""
    rng = np.random.default_rng(0)
    click.echo(f"gap  differ  papers apart  papers needed  seen  seen, asked of {pilot} papers")
    for pair in PAIRS:
        needed = papers_asked_for(rng, _MANY, pair)
        exact = seen(rng, needed, pair, times=times)
        asked = [papers_asked_for(rng, pilot, pair) for _ in range(times)]
        rough = float(np.mean([seen(rng, papers, pair, times=1) for papers in asked]))
        gap, change, apart = pair
        click.echo(
            f"{gap:3.0%}  {change:6.0%}  {apart:12.2f}  {needed:13}  {exact:4.0%}  {rough:4.0%}"
        )


if __name__ == "__main__":
    main()
