"""Whether a model may have seen a paper's code: knowledge cutoffs against the days on which papers and code became public.

The rule is the public benchmark's: a paper is *safe* for some models if the first commit of its code is later than the first
day of the latest month in which one of them has its cutoff. A model of which nobody knows the cutoff has no safe paper.

What a model gains on papers it may have seen shows in its rate on all papers against its rate on the safe ones. Both are of
the same papers, so their difference gets an interval of its own: a ratio minus a ratio, linearised, with papers as units and
Student's t. But newer papers may also be harder or easier for everybody. So where there are other models, the same is said of
by how much a model is better than their mean: that is what is left when a paper's difficulty is taken out.

Guarantees: pure. A paper of which no day is known is not safe. Nothing is said of a model without a cutoff.
Not covered: traces of a paper in a single answer (`rcb_env.report.probes`).
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rcb_env.report.intervals import Interval, student
from rcb_env.report.scoring import PASSED, Planned, grouped

_CUTOFF = re.compile(r"(\d{4})-(\d{1,2})(?:-\d{1,2})?")


def month_of(cutoff: str | None) -> datetime.date | None:
    """The first day of the month of a cutoff; None: there is none, or it is no date."""
    found = _CUTOFF.fullmatch(cutoff or "")
    if found is None:
        return None
    try:
        return datetime.date(int(found[1]), int(found[2]), 1)
    except ValueError:
        return None


def latest(cutoffs: Iterable[str | None]) -> datetime.date | None:
    """The first day of the latest month of some cutoffs; unknown ones are passed over."""
    return max((day for day in map(month_of, cutoffs) if day), default=None)


def safe_papers(
    published: Mapping[str, datetime.date | None], after: datetime.date | None
) -> tuple[str, ...]:
    """The papers whose code became public after a day.

    Args:
        published: when the first commit of a paper's code was; None: nobody knows.
        after: as `latest` gives it; None: there are none.
    """
    if after is None:
        return ()
    return tuple(paper for paper, day in published.items() if day is not None and day > after)


@dataclass(frozen=True)
class Contrast:
    """A rate on all papers against that on some of them, in percent; None: cannot be said."""

    every: float | None
    some: float | None
    difference: float | None
    """On some minus on all, in percentage points."""
    interval: Interval | None
    """None: fewer than two of these papers, all of them are these, or nothing differs between papers."""


@dataclass(frozen=True)
class Exposure:
    """One model, or run."""

    name: str
    cutoff: str | None
    safe: tuple[str, ...]
    """Papers."""
    challenges: int
    """Of them."""
    lines: int
    rate: Contrast
    scaled: Contrast
    rate_over_others: Contrast | None
    """The same of its lead over the mean of the others; None: there are no others with the same challenges."""
    scaled_over_others: Contrast | None

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""

        def told(one: Contrast | None) -> dict[str, object] | None:
            if one is None:
                return None
            interval = [one.interval.low, one.interval.high] if one.interval else None
            return {
                "all": one.every,
                "safe": one.some,
                "difference": one.difference,
                "interval": interval,
            }

        return {
            "model": self.name,
            "knowledge_cutoff": self.cutoff,
            "safe_papers": list(self.safe),
            "safe_challenges": self.challenges,
            "safe_lines": self.lines,
            "pass_rate": told(self.rate),
            "scaled_pass_rate": told(self.scaled),
            "pass_rate_over_others": told(self.rate_over_others),
            "scaled_pass_rate_over_others": told(self.scaled_over_others),
        }


def exposures(
    runs: Mapping[str, Sequence[Planned]],
    cutoffs: Mapping[str, str | None],
    published: Mapping[str, datetime.date | None],
) -> list[Exposure]:
    """What each of some runs did on the papers that are safe for its own model.

    Args:
        runs: every planned episode, by name.
        cutoffs: of their models.
        published: when a paper's code became public; papers that are not in it are not safe.
    """
    shares = {name: _shares(rows) for name, rows in runs.items()}
    found = []
    for name, rows in runs.items():
        challenges = {row.challenge: row for row in rows}
        days = {row.paper: published.get(row.paper) for row in rows}
        safe = safe_papers(days, month_of(cutoffs.get(name)))
        chosen = [row for row in challenges.values() if row.paper in safe]
        others = [
            share
            for other, share in shares.items()
            if other != name and share.keys() == shares[name].keys()
        ]
        lead = {
            challenge: share - sum(other[challenge] for other in others) / len(others)
            for challenge, share in (shares[name].items() if others else ())
        }
        ones = dict.fromkeys(challenges, 1.0)
        lines = {challenge: float(row.lines) for challenge, row in challenges.items()}
        of = {challenge: row.paper for challenge, row in challenges.items()}
        found.append(
            Exposure(
                name=name,
                cutoff=cutoffs.get(name),
                safe=safe,
                challenges=len(chosen),
                lines=sum(row.lines for row in chosen),
                rate=contrast(shares[name], of, ones, safe),
                scaled=contrast(shares[name], of, lines, safe),
                rate_over_others=contrast(lead, of, ones, safe) if lead else None,
                scaled_over_others=contrast(lead, of, lines, safe) if lead else None,
            )
        )
    return found


def contrast(
    values: Mapping[str, float],
    papers: Mapping[str, str],
    weights: Mapping[str, float],
    some: Sequence[str],
    *,
    level: float = 0.95,
) -> Contrast:
    """A weighted mean over the challenges of some papers against that over all.

    Args:
        values: by challenge, usually from 0 to 1.
        papers: the paper of each.
        weights: of each.
        some: papers.
        level: of the interval.
    """
    groups = grouped(values, lambda challenge: papers[challenge])
    part = np.array([sum(weights[c] * values[c] for c in group) for group in groups.values()])
    whole = np.array([sum(weights[c] for c in group) for group in groups.values()])
    inside = np.array([paper in some for paper in groups], dtype=np.float64)
    total, chosen = whole.sum(), (whole * inside).sum()
    every = float(part.sum() / total) if total else None
    there = float((part * inside).sum() / chosen) if chosen else None
    if every is None or there is None:
        return Contrast(_percent(every), _percent(there), None, None)
    # Of a difference of two ratios: how far each paper pulls it away from what it is.
    pulls = inside * (part - there * whole) / chosen - (part - every * whole) / total
    count, fresh = int(np.count_nonzero(whole)), int(np.count_nonzero(whole * inside))
    interval = None
    if fresh > 1 and fresh < count:
        variance = count / (count - 1) * float((pulls**2).sum())
        if variance > 1e-18:  # what rounding leaves of none
            half = 100 * student(level, fresh - 1) * math.sqrt(variance)
            middle = 100 * (there - every)
            interval = Interval(middle - half, middle + half, level)
    return Contrast(100 * every, 100 * there, 100 * (there - every), interval)


def _shares(rows: Sequence[Planned]) -> dict[str, float]:
    return {
        challenge: sum(row.status == PASSED for row in group) / len(group)
        for challenge, group in grouped(rows, lambda row: row.challenge).items()
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
