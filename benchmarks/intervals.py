"""`python -m benchmarks.intervals`: how often the intervals of reports hold the truth, in simulated runs.

A paper's challenges succeed with a chance of its own, drawn from a beta distribution whose mean is the true rate and whose
spread gives the wanted correlation within papers; papers have 7 to 22 challenges. Of two runs, each challenge goes over to the
better or to the worse with chances whose difference is drawn for each paper around the true gap. No box and no model is needed.
An interval at 95 percent should hold the truth in 95 of 100 runs. It falls short where most papers are all or nothing and there
are few of them, and holds it more often where counts are small, as exact intervals do.
"""

from __future__ import annotations

import click
import numpy as np

from rcb_env.report.hierarchical import estimate
from rcb_env.report.intervals import Floats, of_difference, of_rate

_LEAST, _MOST = 7, 22  # challenges of a paper
PAPERS = (4, 10, 20, 50)
ALIKE = (0.0, 0.1, 0.3, 0.7)
CHANCES = (0.01, 0.05, 0.2, 0.5)
GAPS = (
    (0.0, 0.02, 0.0),
    (0.0, 0.2, 0.0),
    (0.0, 0.35, 0.3),
    (0.05, 0.2, 0.1),
    (0.1, 0.35, 0.2),
    (0.3, 0.55, 0.2),
)
"""Of two runs: the true gap, the share of challenges that differ, how far papers are apart."""


def coverage(
    papers: int, chance: float, alike: float, *, times: int, seed: int = 0
) -> tuple[float, float]:
    """How often the interval held the true rate, and its mean width in percentage points.

    Args:
        papers: how many papers a run has.
        chance: the true rate.
        alike: correlation of two challenges of one paper.
        times: how many runs are simulated.
        seed: of the simulation.
    """
    rng = np.random.default_rng(seed)
    held, width = 0, 0.0
    for _ in range(times):
        sizes = rng.integers(_LEAST, _MOST + 1, size=papers)
        chances = np.full(papers, chance)
        if alike > 0:
            spread = (1 - alike) / alike
            chances = rng.beta(chance * spread, (1 - chance) * spread, size=papers)
        passed = rng.binomial(sizes, chances).astype(float)
        found = of_rate(passed, sizes.astype(float), size=float(sizes.sum()), level=0.95)
        if found is None:  # cannot be: there are two papers or more
            raise ValueError("an interval needs two papers")
        held += found.low <= 100 * chance <= found.high
        width += found.high - found.low
    return held / times, width / times


def paired(
    rng: np.random.Generator, papers: int, *, gap: float, change: float, apart: float
) -> list[Floats]:
    """By how much more of each challenge run B passed: a list of -1, 0 and 1 for each paper.

    Args:
        rng: draws.
        papers: how many.
        gap: the true difference of the rates.
        change: the share of challenges in which the runs differ.
        apart: papers have gaps of their own, drawn evenly from this far below the true one to this far above.
    """
    if abs(gap) + apart > change:
        raise ValueError("a paper's gap cannot be larger than the share of challenges that differ")
    drawn = []
    for own in rng.uniform(gap - apart, gap + apart, size=papers):
        size = rng.integers(_LEAST, _MOST + 1)
        chances = [(change - own) / 2, 1 - change, (change + own) / 2]
        drawn.append(rng.choice([-1.0, 0.0, 1.0], p=chances, size=size))
    return drawn


def interval_of_pair(drawn: list[Floats]) -> tuple[float, float]:
    """The interval of the difference between two runs, in percentage points."""
    gained = np.array([float(np.maximum(paper, 0).sum()) for paper in drawn])
    lost = np.array([float(np.maximum(-paper, 0).sum()) for paper in drawn])
    whole = np.array([float(len(paper)) for paper in drawn])
    found = of_difference(gained, lost, whole, size=float(whole.sum()), level=0.95)
    if found is None:  # cannot be: there are two papers or more
        raise ValueError("an interval needs two papers")
    return found.low, found.high


def coverage_of_pair(
    papers: int, gap: float, change: float, apart: float, *, times: int, seed: int = 0
) -> tuple[float, float]:
    """How often the interval of a difference held the true one, and its mean width; see `paired`."""
    rng = np.random.default_rng(seed)
    held, width = 0, 0.0
    for _ in range(times):
        drawn = paired(rng, papers, gap=gap, change=change, apart=apart)
        low, high = interval_of_pair(drawn)
        held += low <= 100 * gap <= high
        width += high - low
    return held / times, width / times


def coverage_of_model(
    papers: int, chance: float, alike: float, *, times: int, seed: int = 0
) -> tuple[float, float]:
    """As `coverage`, of the hierarchical estimate; runs that it cannot be fitted to are drawn again."""
    rng = np.random.default_rng(seed)
    held, width, fitted = 0, 0.0, 0
    while fitted < times:
        spread = (1 - alike) / alike
        own = rng.beta(chance * spread, (1 - chance) * spread, size=papers)
        sizes = rng.integers(_LEAST, _MOST + 1, size=papers)
        drawn = {str(n): (rng.random(sizes[n]) < own[n]).astype(float) for n in range(papers)}
        found = estimate(drawn, least=0.0).interval
        if found is not None:
            fitted += 1
            held += found.low <= 100 * chance <= found.high
            width += found.high - found.low
    return held / times, width / times


def coverage_of_paired_model(
    papers: int, gap: float, change: float, apart: float, *, times: int, seed: int = 0
) -> tuple[float, float]:
    """As `coverage_of_pair`, of the hierarchical estimate."""
    rng = np.random.default_rng(seed)
    held, width, fitted = 0, 0.0, 0
    while fitted < times:
        drawn = paired(rng, papers, gap=gap, change=change, apart=apart)
        found = estimate({str(n): paper for n, paper in enumerate(drawn)}, least=-1.0).interval
        if found is not None:
            fitted += 1
            held += found.low <= 100 * gap <= found.high
            width += found.high - found.low
    return held / times, width / times


@click.command()
@click.option("--times", default=1000, show_default=True, help="Simulated runs for each row.")
@click.option("--papers", "only", type=click.Choice([str(n) for n in PAPERS]), help="Only so many.")
@click.option("--hierarchical", is_flag=True, help="Of the mixed model. It takes 0.1 s a run.")
def main(times: int, only: str | None, hierarchical: bool) -> None:
    """Print a row for each number of papers, correlation and rate; then for each kind of difference."""
    of_rates = coverage_of_model if hierarchical else coverage
    of_pairs = coverage_of_paired_model if hierarchical else coverage_of_pair
    numbers = (int(only),) if only else PAPERS
    click.echo("papers  alike  rate  holds the truth  mean width")
    for papers in numbers:
        for alike in ALIKE[hierarchical:]:  # a model needs some
            for chance in CHANCES:
                held, width = of_rates(papers, chance, alike, times=times)
                click.echo(f"{papers:6}  {alike:5.1f}  {chance:4.0%}  {held:14.1%}  {width:10.1f}")
    click.echo("\npapers  differ  papers apart  gap  holds the truth  mean width")
    for papers in numbers:
        for gap, change, apart in GAPS:
            held, width = of_pairs(papers, gap, change, apart, times=times)
            click.echo(
                f"{papers:6}  {change:6.0%}  {apart:12.2f}  {gap:3.0%}  {held:14.1%}  {width:10.1f}"
            )


if __name__ == "__main__":
    main()
