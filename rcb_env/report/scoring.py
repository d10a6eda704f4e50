"""Scores of a run: what the states of its planned episodes add up to.

Purpose: pass rate and scaled pass rate as ResearchCodeBench defines them (arXiv 2506.02314), with the uncertainty that
belongs beside them: intervals, bounds, coverage, pass@k, and spread over completions.

Guarantees:
- Pure: numbers in, numbers out, nothing random. numpy is the only dependency.
- Every planned (challenge, sample) has exactly one state and counts in every headline rate. An episode that infrastructure
  lost counts as not passed there, and the distance to "it would have passed" is shown as bounds.
- A number that cannot be computed is None ("not available"), never 0 or 100. A rate of which nothing has finished is one.

All rates are percentages, all differences percentage points.

Sources: pass@k: Chen et al. 2021, arXiv 2107.03374, eq. 1. Why intervals are over papers, for evaluations of language
models: Miller 2024, arXiv 2411.00640; how they are computed: `rcb_env.report.intervals`.

Not covered: two runs (`rcb_env.report.pairing`); intervals from one paper, which says nothing about others: None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from rcb_env.errors import counted
from rcb_env.report import intervals
from rcb_env.report.intervals import Floats, Interval

PASSED = "passed"
MODEL_FAILURES = (
    "failed",
    "timeout",
    "out_of_memory",
    "invalid",
    "no_change",
    "tampered",
)
OPEN_STATES = ("infra_error", "missing")
STATES = (PASSED, *MODEL_FAILURES, *OPEN_STATES)

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Planned:
    """The state of one planned (challenge, sample); in a plan its status is ``missing``."""

    challenge: str
    """Challenge id, ``paper/slug``."""
    paper: str
    """Paper id: the cluster this challenge is resampled with."""
    lines: int
    """Lines of code of the region: its weight in the scaled pass rate."""
    sample: int
    """Index of the completion, from 0."""
    status: str = "missing"
    """One of `STATES`."""
    own_lines: int | None = None
    """Lines no nested region holds: the weight in the nested-corrected rate. None = not known."""

    def __post_init__(self) -> None:
        """Refuse what would give a wrong number later."""
        if self.status not in STATES:
            raise ValueError(
                f"{self.challenge}: {self.status!r} is not a state: {', '.join(STATES)}"
            )
        if self.lines < 0 or (self.own_lines is not None and not 0 <= self.own_lines <= self.lines):
            raise ValueError(f"{self.challenge}: lines must be >= own lines >= 0")


@dataclass(frozen=True)
class Rate:
    """A rate in percent, or a difference of two in percentage points."""

    value: float | None
    """None: nothing has finished (of a difference: nothing in one of the runs)."""
    interval: Interval | None
    """None with fewer than two papers, and without a value."""
    low: float
    """The value if every open episode were against it; for a rate, this is the value itself."""
    high: float
    """The value if every open (infra or missing) episode were in its favour."""

    @property
    def exact(self) -> bool:
        """Whether nothing is left open: both bounds are the value."""
        return self.low == self.high


@dataclass(frozen=True)
class Spread:
    """Mean and population standard deviation over completions (one rate per sample index)."""

    mean: float
    std: float
    rates: tuple[float, ...]


@dataclass(frozen=True)
class PassAtK:
    """pass@k over the challenges of a plan."""

    k: int
    rate: float | None
    """Percent; None if any challenge has fewer than k samples (a mean over the rest drops it), or nothing has finished."""
    scaled: float | None
    """The same with each challenge weighted by its lines."""
    short: tuple[str, ...]
    """The challenges with fewer than k planned samples."""


@dataclass(frozen=True)
class PaperScore:
    """The score within one paper; the public "per paper" number is `scaled_pass_rate`."""

    paper: str
    challenges: int
    planned: int
    states: Mapping[str, int]
    pass_rate: Rate | None
    scaled_pass_rate: Rate | None


@dataclass(frozen=True)
class Score:
    """Everything a report says about one run."""

    planned: int
    """Planned (challenge, sample) pairs: the denominator of the pass rate."""
    challenges: int
    states: Mapping[str, int]
    """Count of every state, zeros included; they add up to `planned`."""
    coverage: float
    """Percent of the planned pairs that have a verdict (neither infra nor missing)."""
    samples: Mapping[int, int]
    """Planned samples per challenge -> number of challenges; more than one key = unequal n."""
    pass_rate: Rate
    scaled_pass_rate: Rate | None
    """None when no challenge has a line of code."""
    nested_corrected: Rate | None
    """Each source line counted once, by the smallest region that holds it; None = not known."""
    papers: tuple[PaperScore, ...]
    pass_rate_spread: Spread | None
    """None unless all challenges have the same sample indices, and something has finished."""
    scaled_spread: Spread | None
    pass_at: tuple[PassAtK, ...] = field(default=())


def fill_missing(
    plan: Iterable[Planned], statuses: Mapping[tuple[str, int], str]
) -> tuple[Planned, ...]:
    """The plan with the states of its finished episodes; what is not finished stays ``missing``.

    Args:
        plan: every planned pair.
        statuses: (challenge id, sample) -> state.

    Raises:
        ValueError: a finished episode is not in the plan: its run and the plan do not belong
            together.
    """
    outcomes = tuple(
        replace(entry, status=statuses.get((entry.challenge, entry.sample), "missing"))
        for entry in plan
    )
    stray = set(statuses) - {(entry.challenge, entry.sample) for entry in outcomes}
    if stray:
        challenge, sample = min(stray)
        raise ValueError(
            f"{counted(len(stray), 'episode')} not in the plan, the first is {challenge} sample {sample}"
        )
    return outcomes


def score(
    outcomes: Iterable[Planned],
    *,
    ks: Sequence[int] | None = None,
    level: float = 0.95,
) -> Score:
    """Score a run.

    Args:
        outcomes: one for each planned pair, missing ones included (see `fill_missing`).
        ks: the k of pass@k; by default 1 and the powers of two that every challenge has samples
            for.
        level: confidence level of the intervals.

    Raises:
        ValueError: nothing is planned, or a pair is there twice.
    """
    rows = planned_once(outcomes)
    by_paper = grouped(rows, lambda row: row.paper)
    by_challenge = grouped(rows, lambda row: row.challenge)
    states = count_states(rows)
    samples = Counter(len(group) for group in by_challenge.values())
    if ks is None:
        ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= min(samples)]
    pass_rate = _rate(by_paper, _one, level)
    if pass_rate is None:  # cannot be: every row weighs 1
        raise AssertionError("a plan with rows has weight")
    return Score(
        planned=len(rows),
        challenges=len(by_challenge),
        states=states,
        coverage=100 * (1 - sum(states[state] for state in OPEN_STATES) / len(rows)),
        samples=dict(sorted(samples.items())),
        pass_rate=pass_rate,
        scaled_pass_rate=_rate(by_paper, _lines, level),
        nested_corrected=(
            _rate(by_paper, _own_lines, level)
            if all(row.own_lines is not None for row in rows)
            else None
        ),
        papers=tuple(_paper_score(paper, group, level) for paper, group in by_paper.items()),
        pass_rate_spread=_spread(by_challenge, rows, _one),
        scaled_spread=_spread(by_challenge, rows, _lines),
        pass_at=tuple(_pass_at(by_challenge, k) for k in ks),
    )


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Estimate the chance that at least one of k samples passes: ``1 - C(n-c, k) / C(n, k)``.

    Unbiased over the choice of samples, which is why it needs k of them.

    Args:
        n: samples drawn of one challenge (never the number of challenges).
        c: how many of them passed.
        k: samples a user would draw.

    Returns:
        A probability in [0, 1]; None ("not available") when k > n or n = 0, since no unbiased
        estimate exists.

    Raises:
        ValueError: not 0 <= c <= n, or k < 1.
    """
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"pass@k needs 0 <= c <= n and k >= 1, got n={n}, c={c}, k={k}")
    if k > n:
        return None
    # Whole numbers until the division: exact for any n, and never the 1.0 of a product over an
    # empty range.
    total = math.comb(n, k)
    return (total - math.comb(n - c, k)) / total


def _one(_row: Planned) -> float:
    return 1.0


def _lines(row: Planned) -> float:
    return float(row.lines)


def _own_lines(row: Planned) -> float:
    return float(row.own_lines or 0)


def planned_once(outcomes: Iterable[Planned]) -> tuple[Planned, ...]:
    """The outcomes, of which there is at least one, and one for each pair.

    Raises:
        ValueError: otherwise.
    """
    rows = tuple(outcomes)
    if not rows:
        raise ValueError("nothing is planned, so there is nothing to score")
    ((pair, times),) = Counter((row.challenge, row.sample) for row in rows).most_common(1)
    if times > 1:
        raise ValueError(
            f"{pair[0]} sample {pair[1]} is there {times} times; every planned pair has one state"
        )
    return rows


def grouped(rows: Iterable[_Row], key: Callable[[_Row], str]) -> dict[str, list[_Row]]:
    """Rows by a key, in their order."""
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def count_states(rows: Iterable[Planned]) -> dict[str, int]:
    """How many rows are in every state, zeros included."""
    counts = Counter(row.status for row in rows)
    return {state: counts[state] for state in STATES}


def _rate(
    groups: Mapping[str, Sequence[Planned]], weight: Callable[[Planned], float], level: float
) -> Rate | None:
    """The weighted share of passed rows over all rows, with papers as groups; None without weight."""

    def totals(states: Sequence[str]) -> Floats:
        return np.array(
            [
                sum(weight(row) for row in group if row.status in states)
                for group in groups.values()
            ],
            dtype=np.float64,
        )

    passed, whole = totals((PASSED,)), totals(STATES)
    if whole.sum() == 0:
        return None
    rows = [row for group in groups.values() for row in group]
    finished = any_finished(rows)
    size = intervals.worth(np.array([weight(row) for row in rows], dtype=np.float64))
    value = percent(passed.sum(), whole)
    return Rate(
        value=value if finished else None,
        interval=intervals.of_rate(passed, whole, size=size, level=level) if finished else None,
        low=value,
        high=percent(totals((PASSED, *OPEN_STATES)).sum(), whole),
    )


def percent(part: float, whole: Floats) -> float:
    """A part of a sum, in percent."""
    return float(100 * part / whole.sum())


def any_finished(rows: Iterable[Planned]) -> bool:
    """Whether any row has a verdict."""
    return any(row.status not in OPEN_STATES for row in rows)


def _paper_score(paper: str, rows: Sequence[Planned], level: float) -> PaperScore:
    return PaperScore(
        paper=paper,
        challenges=len({row.challenge for row in rows}),
        planned=len(rows),
        states=count_states(rows),
        pass_rate=_rate({paper: rows}, _one, level),
        scaled_pass_rate=_rate({paper: rows}, _lines, level),
    )


def _spread(
    by_challenge: Mapping[str, Sequence[Planned]],
    rows: Sequence[Planned],
    weight: Callable[[Planned], float],
) -> Spread | None:
    if not any_finished(rows):
        return None
    indices = {frozenset(row.sample for row in group) for group in by_challenge.values()}
    if len(indices) > 1:
        return None  # completion i would be a rate over other challenges than completion j
    passed: dict[int, float] = {}
    total: dict[int, float] = {}
    for row in rows:
        total[row.sample] = total.get(row.sample, 0.0) + weight(row)
        passed[row.sample] = passed.get(row.sample, 0.0) + weight(row) * (row.status == PASSED)
    if not all(total.values()):
        return None
    rates = np.array([100 * passed[sample] / total[sample] for sample in sorted(total)])
    return Spread(float(rates.mean()), float(rates.std()), tuple(rates.tolist()))


def _pass_at(by_challenge: Mapping[str, Sequence[Planned]], k: int) -> PassAtK:
    estimates: list[float] = []
    weights: list[float] = []
    short = []
    for challenge, rows in by_challenge.items():
        estimate = pass_at_k(len(rows), sum(row.status == PASSED for row in rows), k)
        if estimate is None:
            short.append(challenge)
        else:
            estimates.append(estimate)
            weights.append(float(rows[0].lines))
    if short or not any(any_finished(rows) for rows in by_challenge.values()):
        return PassAtK(k, None, None, tuple(short))
    return PassAtK(
        k,
        rate=100 * sum(estimates) / len(estimates),
        scaled=100 * sum(w * e for w, e in zip(weights, estimates, strict=True)) / sum(weights)
        if any(weights)
        else None,
        short=(),
    )
