"""A hierarchical estimate: challenges within papers, by a mixed linear model of the package statsmodels.

The share y of a challenge's samples that passed (of two runs: by how much more B passed) is a sum of a mean, something of its
paper's own and something of its own, both random:

    y[challenge in paper] = mean + paper + rest,    paper ~ N(0, between²),    rest ~ N(0, within²)

fitted by restricted maximum likelihood (Laird and Ware 1982, "Random-effects models for longitudinal data"). It says what a
rate over papers cannot: how much papers differ and how much challenges within them, and what a paper's rate is worth, drawn
towards the mean where it has few challenges. Its mean is that of a paper like these, in which large papers weigh less than in
the pass rate; the interval is Student's with one degree of freedom less than papers.

Guarantees: the same rows give the same numbers. What cannot be fitted (fewer than two papers, or in none of them two
challenges that differ) has no estimate.
Not covered: rates near 0 and 100 percent, where a linear model's interval is cut off at the end and holds the truth less often
(`benchmarks/intervals.py` measures it); there `rcb_env.report.intervals` is the better guide.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rcb_env.errors import UsageError
from rcb_env.report.intervals import Floats, Interval, student
from rcb_env.report.scoring import PASSED, Planned, grouped


@dataclass(frozen=True)
class Hierarchical:
    """The estimate of one rate or difference, in percent or percentage points."""

    estimate: float | None
    """None: it cannot be fitted, nor can anything below."""
    interval: Interval | None
    between: float | None
    """Standard deviation of papers."""
    within: float | None
    """Standard deviation of challenges of one paper."""
    papers: Mapping[str, float] = field(default_factory=dict)
    """Each paper's own rate, drawn towards the mean."""

    @property
    def alike(self) -> float | None:
        """The correlation of two challenges of one paper; None: not known."""
        if self.between is None or self.within is None:
            return None
        return self.between**2 / (self.between**2 + self.within**2)


_NONE = Hierarchical(None, None, None, None)


def estimate(by_paper: Mapping[str, Floats], *, least: float, level: float = 0.95) -> Hierarchical:
    """Fit the model.

    Args:
        by_paper: for each paper its challenges' shares, or differences of shares, from -1 to 1.
        least: the smallest value there can be: 0 for shares, -1 for differences.
        level: confidence level of the interval.

    Raises:
        UsageError: statsmodels is missing.
    """
    try:
        from statsmodels.regression.mixed_linear_model import MixedLM
    except ImportError as error:
        raise UsageError(
            f"the hierarchical estimate needs the package {error.name}: install rcb-env[statistics]"
        ) from None
    differ = any(np.ptp(paper) > 1e-12 for paper in by_paper.values())
    if len(by_paper) < 2 or not differ:
        return _NONE
    values = np.concatenate(list(by_paper.values()))
    names = [name for name, paper in by_paper.items() for _ in paper]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that papers do not differ at all is a result like any
        try:
            model = MixedLM(values, np.ones((len(values), 1)), groups=np.array(names))
            # The default ones, which follow gradients, stop short where papers hardly differ.
            fitted = model.fit(method=["powell"])
        except np.linalg.LinAlgError:
            return _NONE
        mean, error_of_mean = float(fitted.fe_params[0]), float(fitted.bse_fe[0])
        effects = {name: float(np.ravel(own)[0]) for name, own in fitted.random_effects.items()}
        between, within = float(np.ravel(fitted.cov_re)[0]), float(fitted.scale)
    if not (math.isfinite(error_of_mean) and error_of_mean > 0):
        return _NONE
    half = student(level, len(by_paper) - 1) * error_of_mean
    return Hierarchical(
        estimate=100 * mean,
        interval=Interval(100 * max(least, mean - half), 100 * min(1.0, mean + half), level),
        between=100 * math.sqrt(max(0.0, between)),
        within=100 * math.sqrt(within),
        papers={name: 100 * (mean + effects[name]) for name in by_paper},
    )


def of_run(rows: Iterable[Planned]) -> Hierarchical:
    """The estimate of a run's pass rate; what is open counts as not passed.

    Raises:
        UsageError: statsmodels is missing.
    """
    return estimate(
        {
            paper: np.array(
                [
                    sum(row.status == PASSED for row in samples) / len(samples)
                    for samples in grouped(group, lambda row: row.challenge).values()
                ]
            )
            for paper, group in grouped(list(rows), lambda row: row.paper).items()
        },
        least=0.0,
    )
