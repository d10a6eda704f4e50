"""Two runs against each other, challenge by challenge: what their paired outcomes add up to.

Guarantees: pure, and nothing random, as `rcb_env.report.scoring`. Only challenges that both runs planned are compared; what
is still open counts as not passed, widens the bounds and is warned about.
Source of the paired test: McNemar 1947, in its exact (binomial) form; of its correction for many pairs: Holm 1979, "A simple
sequentially rejective multiple test procedure".
Not covered: what else differs between two runs (`rcb_env.report.comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rcb_env.errors import counted
from rcb_env.report import intervals, power
from rcb_env.report.hierarchical import Hierarchical, estimate
from rcb_env.report.intervals import Floats
from rcb_env.report.power import Power
from rcb_env.report.scoring import (
    OPEN_STATES,
    PASSED,
    Planned,
    Rate,
    any_finished,
    count_states,
    grouped,
    percent,
    planned_once,
)

_Runs = tuple[Mapping[str, Sequence[Planned]], Mapping[str, Sequence[Planned]]]


@dataclass(frozen=True)
class Comparison:
    """Run B against run A on the challenges both planned. Differences are B minus A."""

    challenges: int
    a: float | None
    """Pass rate of A on the common challenges; None: none of its episodes there has finished."""
    b: float | None
    a_scaled: float | None
    b_scaled: float | None
    difference: Rate
    scaled_difference: Rate | None
    only_a_better: tuple[str, ...]
    """Discordant challenges where A passed more of its samples."""
    only_b_better: tuple[str, ...]
    p_value: float
    """Exact McNemar test on the discordant challenges, two-sided; each challenge votes once."""
    power: Power | None
    """What gaps could be seen; None: fewer than two papers, all differ alike, or a run has not finished anything."""
    hierarchical: Hierarchical | None
    """Of the difference, where it was asked for and something has finished."""
    warnings: tuple[str, ...]
    """What to know before quoting the numbers: unfinished episodes, challenges only one run planned."""


def compare(
    a: Iterable[Planned],
    b: Iterable[Planned],
    *,
    level: float = 0.95,
    gaps: Sequence[float] = power.GAPS,
    hierarchical: bool = False,
) -> Comparison:
    """Compare two runs challenge by challenge.

    Each challenge enters with the share of its planned samples that passed, so the runs may have
    different numbers of samples. The interval is over papers and keeps the two runs' results for a
    challenge together (paired); with one sample each the test is McNemar's, with more it is the
    sign test on which run passed the larger share.

    Args:
        a: every planned episode of one run.
        b: of the other.
        level: confidence level.
        gaps: gaps in percentage points of which it is said what it would take to see them.
        hierarchical: also fit a hierarchical estimate, which needs statsmodels.

    Raises:
        UsageError: statsmodels is missing.
        ValueError: no challenge in common, or a challenge whose line count or paper differs: not
            the same code.
    """
    in_a, in_b = (grouped(planned_once(rows), lambda row: row.challenge) for rows in (a, b))
    common = [challenge for challenge in in_a if challenge in in_b]
    if not common:
        raise ValueError("the two runs have no challenge in common: nothing can be paired")
    for challenge in common:
        first, second = in_a[challenge][0], in_b[challenge][0]
        if (first.lines, first.paper) != (second.lines, second.paper):
            raise ValueError(
                f"{challenge} has {first.lines} lines in run A and {second.lines} in run B: "
                "the runs were graded on different code"
            )
    pairs = _Pairs((in_a, in_b), common, level)
    plain = pairs.difference(pairs.ones)
    if plain is None:  # cannot be: every challenge weighs 1
        raise AssertionError("common challenges have weight")
    a_better = tuple(
        c for c, (first, second) in pairs.shares.items() if first.passed > second.passed
    )
    b_better = tuple(
        c for c, (first, second) in pairs.shares.items() if second.passed > first.passed
    )
    return Comparison(
        challenges=len(common),
        a=pairs.rate(0, pairs.ones),
        b=pairs.rate(1, pairs.ones),
        a_scaled=pairs.rate(0, pairs.lines),
        b_scaled=pairs.rate(1, pairs.lines),
        difference=plain,
        scaled_difference=pairs.difference(pairs.lines),
        only_a_better=a_better,
        only_b_better=b_better,
        p_value=mcnemar_exact(len(a_better), len(b_better)),
        power=pairs.power(gaps),
        hierarchical=pairs.hierarchical() if hierarchical else None,
        warnings=tuple(_warnings(in_a, in_b)),
    )


def mcnemar_exact(b: int, c: int) -> float:
    """Two-sided exact McNemar p-value for b and c discordant pairs: a fair coin tossed b + c times.

    Returns:
        min(1, 2 P[X <= min(b, c)]) for X ~ Binomial(b + c, 1/2); 1.0 with no discordant pair.
    """
    n = b + c
    tail, ways = 0, 1
    for i in range(min(b, c) + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)  # C(n, i + 1), exactly
    return min(1.0, float(2 * tail / 2**n))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values of several tests, corrected so that all of them together err once in twenty at 0.05.

    Returns:
        In the order given: the largest of min(1, (m - rank) p) over the tests with a p no larger, where ranks of the m
        tests rise from 0 with p.
    """
    corrected = [0.0] * len(p_values)
    so_far = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = so_far
    return tuple(corrected)


@dataclass(frozen=True)
class _Share:
    """Of one challenge's samples: the share that passed, and the share that passed or may have."""

    passed: float
    possible: float

    @staticmethod
    def of(rows: Sequence[Planned]) -> _Share:
        passed = sum(row.status == PASSED for row in rows)
        still_open = sum(row.status in OPEN_STATES for row in rows)
        return _Share(passed / len(rows), (passed + still_open) / len(rows))


class _Pairs:
    """The challenges that two runs have planned, with their shares in each."""

    def __init__(self, runs: _Runs, common: Sequence[str], level: float) -> None:
        in_a, in_b = runs
        self.shares = {c: (_Share.of(in_a[c]), _Share.of(in_b[c])) for c in common}
        self.ones = dict.fromkeys(common, 1.0)
        self.lines = {challenge: float(in_a[challenge][0].lines) for challenge in common}
        self._papers = grouped(common, lambda challenge: in_a[challenge][0].paper)
        self._finished = [
            any_finished(row for challenge in common for row in run[challenge]) for run in runs
        ]
        self._level = level

    def rate(self, side: int, weight: Mapping[str, float]) -> float | None:
        """The pass rate of one run."""
        total = sum(weight[challenge] for challenge in self.shares)
        if total == 0 or not self._finished[side]:
            return None
        passed = sum(weight[c] * pair[side].passed for c, pair in self.shares.items())
        return 100 * passed / total

    def difference(self, weight: Mapping[str, float]) -> Rate | None:
        """The second run's rate minus the first one's; None without weight."""
        whole = self._totals(weight, lambda _a, _b: 1.0)
        if whole.sum() == 0:
            return None
        gained = self._totals(weight, lambda a, b: max(0.0, b.passed - a.passed))
        lost = self._totals(weight, lambda a, b: max(0.0, a.passed - b.passed))
        size = intervals.worth(np.array([weight[challenge] for challenge in self.shares]))
        known = all(self._finished)
        return Rate(
            value=percent((gained - lost).sum(), whole) if known else None,
            interval=intervals.of_difference(gained, lost, whole, size=size, level=self._level)
            if known
            else None,
            low=percent(self._totals(weight, lambda a, b: b.passed - a.possible).sum(), whole),
            high=percent(self._totals(weight, lambda a, b: b.possible - a.passed).sum(), whole),
        )

    def power(self, gaps: Sequence[float]) -> Power | None:
        """What gaps between the plain rates could be seen."""
        if not all(self._finished):
            return None
        return power.of_pair(list(self.by_paper().values()), level=self._level, gaps=gaps)

    def hierarchical(self) -> Hierarchical | None:
        """The hierarchical estimate of the difference of the plain rates."""
        if not all(self._finished):
            return None
        return estimate(self.by_paper(), least=-1.0, level=self._level)

    def by_paper(self) -> dict[str, Floats]:
        """By how much more of each challenge's samples B passed."""
        return {
            paper: np.array([self.shares[c][1].passed - self.shares[c][0].passed for c in group])
            for paper, group in self._papers.items()
        }

    def _totals(
        self, weight: Mapping[str, float], value: Callable[[_Share, _Share], float]
    ) -> Floats:
        """The weighted sum of a value, for each paper."""
        return np.array(
            [
                sum(weight[challenge] * value(*self.shares[challenge]) for challenge in group)
                for group in self._papers.values()
            ]
        )


def _warnings(
    in_a: Mapping[str, Sequence[Planned]], in_b: Mapping[str, Sequence[Planned]]
) -> Iterable[str]:
    for name, run, other in (("A", in_a, in_b), ("B", in_b, in_a)):
        counts = count_states(row for rows in run.values() for row in rows)
        left_open = [f"{counts[state]} {state}" for state in OPEN_STATES if counts[state]]
        if left_open:
            yield f"run {name} has {' and '.join(left_open)}: resume it before quoting this"
        alone = [challenge for challenge in run if challenge not in other]
        if alone:
            yield (
                f"{counted(len(alone), 'challenge')} planned only in run {name} and not compared, "
                f"the first is {alone[0]}"
            )
