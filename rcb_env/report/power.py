"""How many papers or challenges two runs would need to see a given gap, from how far they differ at hand.

The gap is seen where the interval of `intervals.of_difference` leaves out 0. With P papers its error is about sqrt(v / P), where
v is P times the variance that these runs show; so the chance to see a true gap d is that of Student's t with P - 1 degrees of
freedom, moved by d / sqrt(v / P). Solved for d it is the smallest gap that is seen in 8 of 10 cases (Cohen 1988, "Statistical
Power Analysis for the Behavioral Sciences"; for clusters: Donner and Klar 2000, "Design and Analysis of Cluster Randomization
Trials").

Part of the variance is that of challenges within papers. More challenges in the same papers make only that part smaller, so
there is a gap that no number of them shows.

Guarantees: pure, nothing random. What cannot be said is None: with fewer than two papers, or where all differ alike.
`benchmarks/power.py` measures how often a gap is seen with as many papers as are asked for.
Not covered: more samples of each challenge, which make the same part smaller as more challenges do; gaps so large that hardly
a challenge is left to differ, for which the variance is less than at hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rcb_env.report.intervals import Floats, student, variance_of_ratio

GAPS = (2.0, 5.0, 10.0, 20.0)
"""Gaps in percentage points that are looked at, beside the one that was found."""
SHARE = 0.8
"""How often a gap is to be seen."""
ROUGH_BELOW = 10
"""With fewer papers the variance itself is hardly known."""
_AS_NORMAL = 2000  # papers from which on Student's distribution is as good as normal


@dataclass(frozen=True)
class Needed:
    """What it would take to see one gap."""

    gap: float
    """In percentage points."""
    found: bool
    """Whether it is the gap between these runs."""
    papers: int
    """As large as these."""
    challenges: int
    """In so many papers."""
    in_these_papers: int | None
    """Challenges, if no paper is added; None: no number of them would do, or it is not known (see `Power.least_gap`)."""


@dataclass(frozen=True)
class Power:
    """How large a gap two runs can show."""

    papers: int
    challenges: int
    smallest_gap: float
    """A true gap of so many percentage points is seen in a share `SHARE` of cases with as many papers and challenges."""
    least_gap: float | None
    """With endless challenges in these papers; None: they have one each, which does not tell the parts apart."""
    needed: tuple[Needed, ...]
    """By rising gap."""


def of_pair(
    by_paper: Sequence[Floats], *, level: float = 0.95, gaps: Iterable[float] = GAPS
) -> Power | None:
    """From the differences between two runs.

    Args:
        by_paper: for each paper, by how much more of each challenge's samples B passed, from -1 to 1.
        level: confidence level of the interval that is to leave out 0.
        gaps: in percentage points, more than 0.
    """
    papers = len(by_paper)
    if papers < 2:
        return None
    sizes = np.array([len(paper) for paper in by_paper], dtype=np.float64)
    challenges = int(sizes.sum())
    sums = np.array([paper.sum() for paper in by_paper])
    difference = float(sums.sum() / challenges)
    freedom = challenges - papers
    squares = sum(float(((paper - paper.mean()) ** 2).sum()) for paper in by_paper)
    within = squares / freedom / challenges if freedom else 0.0
    # By chance papers differ less than their challenges alone would make them: not to be counted on.
    total = max(variance_of_ratio(sums - difference * sizes, sizes), within)
    if total < 1e-18:  # what rounding leaves of none
        return None
    between = total - within
    reach = _reach(papers, level)
    looked_at = dict.fromkeys(gaps, False)
    if abs(difference) >= 0.0005:
        looked_at[abs(100 * difference)] = True
    needed = []
    for gap, found in sorted(looked_at.items()):
        many = papers_for(gap / 100, papers * total, level)
        room = (gap / 100 / reach) ** 2 - between  # for the variance of challenges
        needed.append(
            Needed(
                gap=gap,
                found=found,
                papers=many,
                challenges=math.ceil(many * challenges / papers),
                in_these_papers=_in_these(room, within, papers, challenges) if freedom else None,
            )
        )
    return Power(
        papers=papers,
        challenges=challenges,
        smallest_gap=100 * reach * math.sqrt(total),
        least_gap=100 * reach * math.sqrt(between) if freedom else None,
        needed=tuple(needed),
    )


def _in_these(room: float, within: float, papers: int, challenges: int) -> int | None:
    """How many challenges make their part of the variance as small as `room`."""
    if room < 0 or (room == 0 and within > 0):
        return None
    return challenges if within == 0 else max(papers, math.ceil(challenges * within / room))


def papers_for(gap: float, of_one: float, level: float = 0.95) -> int:
    """The least number of papers with which a gap is seen often enough.

    Args:
        gap: a share, not percent.
        of_one: the variance of a difference over one paper; that over P papers is a P-th of it.
        level: confidence level.
    """
    most = of_one / gap**2
    low, high = 2, 2
    while _reach(high, level) ** 2 * most > high:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if _reach(middle, level) ** 2 * most > middle:
            low = middle + 1
        else:
            high = middle
    return low


def _reach(papers: int, level: float) -> float:
    """How many standard errors a gap must have to be seen often enough."""
    if papers > _AS_NORMAL:
        normal = NormalDist().inv_cdf
        return normal((1 + level) / 2) + normal(SHARE)
    return student(level, papers - 1) + student(2 * SHARE - 1, papers - 1)
