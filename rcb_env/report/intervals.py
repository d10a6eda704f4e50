"""Confidence intervals for rates and differences of rates over papers, exact where counts are small.

Challenges of one paper succeed and fail together, so the paper is the unit that was drawn. A rate gets the interval of
Korn and Graubard 1998 ("Confidence intervals for proportions with small expected number of positive counts estimated from
survey data", Survey Methodology 24): Clopper and Pearson's exact interval (1934), at the *effective* number of episodes.
That is the number of independent episodes which would be as uncertain as these are (the number of episodes over the design
effect), less a correction by Student's t for the few papers it was estimated from.

Where all fail or all pass, nothing can be estimated of how much a paper's challenges have in common. Then the worst is
assumed: that a paper is one observation. With 20 papers of one size "none passed" is compatible with up to 16.8 percent.

A difference of two paired rates gets the interval of a ratio of sums whose variance is that between papers, with Student's t
(Cameron and Miller 2015, "A practitioner's guide to cluster-robust inference", section VI). Where it is the same in every
paper, that interval would be a point; then it is put together from the intervals of "only B passed" and "only A passed"
(Newcombe 1998, "Improved confidence intervals for the difference between binomial proportions based on paired data",
method 8, without correlation).

Guarantees: pure, no random numbers. An interval holds its rate and never is a point; None with fewer than two papers: one
paper says nothing about others. `benchmarks/intervals.py` measures how often intervals hold the truth.
Not covered: differences in which only a few challenges are discordant; there the exact test of `pairing.compare` is the
better guide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HALVINGS = 60
_TERMS = 20_000


@dataclass(frozen=True)
class Interval:
    """A confidence interval, in percent or percentage points."""

    low: float
    high: float
    level: float
    """Confidence level, for instance 0.95."""


def of_rate(part: Floats, whole: Floats, *, size: float, level: float) -> Interval | None:
    """The interval of ``part.sum() / whole.sum()``.

    Args:
        part: the weight of what passed, one entry for each paper.
        whole: the weight of everything, likewise; its sum is more than 0.
        size: how many episodes there are; of weighted ones, how many equal ones they are worth (see `worth`).
        level: confidence level.
    """
    part, whole = part[whole > 0], whole[whole > 0]
    papers = len(whole)
    if papers < 2:
        return None
    rate = float(min(1.0, part.sum() / whole.sum()))
    variance = variance_of_ratio(part - rate * whole, whole)
    if part.sum() <= 0 or np.all(part >= whole):
        effective = worth(whole)
    else:
        effective = min(size, rate * (1 - rate) / variance) if variance > 0 else size
        effective *= (student(level, max(1.0, size - 1)) / student(level, papers - 1)) ** 2
    low, high = _clopper_pearson(rate * effective, effective, level)
    return Interval(100 * low, 100 * high, level)


def of_difference(
    gained: Floats, lost: Floats, whole: Floats, *, size: float, level: float
) -> Interval | None:
    """The interval of ``(gained - lost).sum() / whole.sum()``, from -100 to 100.

    Args:
        gained: by how much B passed more, where it did, one entry for each paper.
        lost: by how much A passed more, where it did.
        whole: the weight of everything.
        size: as in `of_rate`, counted in challenges.
        level: confidence level.
    """
    up, down = (of_rate(part, whole, size=size, level=level) for part in (gained, lost))
    if up is None or down is None:
        return None
    total = whole.sum()
    difference = float((gained - lost).sum() / total)
    variance = variance_of_ratio(gained - lost - difference * whole, whole)
    if variance > 1e-18:  # what rounding leaves of none
        half = 100 * student(level, np.count_nonzero(whole) - 1) * math.sqrt(variance)
        below = above = half
    else:
        rates = 100 * float(gained.sum() / total), 100 * float(lost.sum() / total)
        below = math.hypot(rates[0] - up.low, down.high - rates[1])
        above = math.hypot(up.high - rates[0], rates[1] - down.low)
    middle = 100 * difference
    return Interval(max(-100.0, middle - below), min(100.0, middle + above), level)


def worth(weights: Floats) -> float:
    """How many equal weights are as good as these (Kish 1965): their number if they are equal, else fewer."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def variance_of_ratio(residuals: Floats, whole: Floats) -> float:
    """Of a ratio of sums, from its linearised residuals, one for each paper."""
    papers = np.count_nonzero(whole)
    return float(papers / (papers - 1) * (residuals**2).sum() / whole.sum() ** 2)


def _clopper_pearson(successes: float, trials: float, level: float) -> tuple[float, float]:
    """The exact binomial interval as quantiles of beta distributions, so that counts need not be whole."""
    tail = (1 - level) / 2
    failures = trials - successes
    low = 0.0 if successes <= 0 else _beta_quantile(tail, successes, failures + 1)
    high = 1.0 if failures <= 0 else _beta_quantile(1 - tail, successes + 1, failures)
    return low, high


@lru_cache(maxsize=256)
def student(level: float, freedom: float) -> float:
    """The t within which a share ``level`` of Student's distribution lies."""
    # freedom / (freedom + t²) has the distribution Beta(freedom / 2, 1 / 2).
    x = _beta_quantile(1 - level, freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - x) / x)


def _beta_quantile(share: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _beta_share(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_share(x: float, a: float, b: float) -> float:
    """The share of Beta(a, b) below x: the regularised incomplete beta function.

    By its continued fraction (Abramowitz and Stegun 26.5.8), on the side of the mean where that converges fast.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = below
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            below = 1 / (1 + term * below)
            above = 1 + term / above
            value *= above * below
        if abs(above * below - 1) < 1e-13:
            break
    return front * value
