"""`python -m benchmarks.intervals`: how often the intervals of reports hold the truth, in simulated runs.

A paper's challenges succeed with a chance of its own, drawn from a beta distribution whose mean is the true rate and whose
spread gives the wanted correlation within papers; papers have 7 to 22 challenges. No box and no model is needed. An
interval at 95 percent should hold the truth in at least 95 of 100 runs; it falls short where most papers are all or
nothing and there are few of them.
"""

from __future__ import annotations

import click
import numpy as np

from rcb_env.report.intervals import of_rate

_LEAST, _MOST = 7, 22  # challenges of a paper
PAPERS = (4, 10, 20, 50)
ALIKE = (0.0, 0.1, 0.3, 0.7)
CHANCES = (0.01, 0.05, 0.2, 0.5)


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


@click.command()
@click.option("--times", default=1000, show_default=True, help="Simulated runs for each row.")
def main(times: int) -> None:
    """Print a row for each number of papers, correlation and rate."""
    click.echo("papers  alike  rate  holds the truth  mean width")
    for papers in PAPERS:
        for alike in ALIKE:
            for chance in CHANCES:
                held, width = coverage(papers, chance, alike, times=times)
                click.echo(f"{papers:6}  {alike:5.1f}  {chance:4.0%}  {held:14.1%}  {width:10.1f}")


if __name__ == "__main__":
    main()
