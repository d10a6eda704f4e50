"""Sheets about kinds of challenges: rates of the parts of a run, and what its model may have seen.

Not covered: how the parts come about (`slices.py`), what may have been seen (`contamination.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rcb_env.errors import UsageError
from rcb_env.report.comparison import Side
from rcb_env.report.contamination import Contrast, Exposure
from rcb_env.report.kinds import Exposed, exposed, kinds_of
from rcb_env.report.sheet import Sheet
from rcb_env.report.slices import DIVISIONS, Slice
from rcb_env.report.tables import interval_text, number_text, rate_text
from rcb_env.runs.store import RunStore

_MANY = 6  # runs that have a column each
RULE = (
    "A paper is safe if the first commit of its code is later than the first day of the month of the model's knowledge"
    " cutoff."
)


@dataclass(frozen=True)
class ByKind:
    """The parts of some runs by one division."""

    name: str
    parts: Mapping[str, tuple[Slice, ...]]
    """By run."""
    exposed: Exposed | None
    """Where the division is about it."""

    def sheets(self) -> list[Sheet]:
        """As tables."""
        return [
            division(self.name, self.parts),
            *(contamination(self.exposed) if self.exposed else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: an entry a run."""
        found: dict[str, Any] = {
            run: {"parts": [p.to_dict() for p in cut]} for run, cut in self.parts.items()
        }
        for one in self.exposed.exposures if self.exposed else ():
            found[one.name] |= one.to_dict()
        return found


def read(stores: Mapping[str, RunStore], name: str, cutoffs: Mapping[str, str]) -> ByKind:
    """Divide some runs.

    Args:
        stores: runs by the names they are given.
        name: a key of `rcb_env.report.slices.DIVISIONS`.
        cutoffs: of the models of some of them, where the user says them.

    Raises:
        UsageError: none of the runs says what is needed.
        StoreError: one cannot be read.
    """
    outcomes = {run: Side(store).outcomes() for run, store in stores.items()}
    kinds = {run: kinds_of(store.record, cutoffs.get(run)) for run, store in stores.items()}
    parts = {run: DIVISIONS[name](rows, kinds[run]) for run, rows in outcomes.items()}
    about = name == "contamination"
    if not any(parts.values()):
        what = "nobody knows the knowledge cutoff of its model" if about else "it does not say"
        more = ": say it with --cutoff NAME=YYYY-MM" if about else "; it was made by an older rcb"
        raise UsageError(f"{', '.join(parts)} cannot be divided by {name}: {what}{more}")
    return ByKind(name, parts, exposed(outcomes, kinds) if about else None)


def division(name: str, runs: Mapping[str, tuple[Slice, ...]]) -> Sheet:
    """Pass rates of the parts of one division, plain and scaled by lines of code."""
    names = dict.fromkeys(part.name for cut in runs.values() for part in cut)
    rows = []
    for part_name in names:
        found = [next((p for p in cut if p.name == part_name), None) for cut in runs.values()]
        largest = max((part for part in found if part), key=lambda part: part.challenges)
        cells = [cell for part in found for cell in _cells(part)]
        rows.append((part_name, str(largest.challenges), f"{largest.lines:,}", *cells))
    of_runs = [column for run in runs for column in (run, f"{run}, scaled")]
    columns = (name, "challenges", "lines", *of_runs)
    return Sheet(f"Pass rate by {name}", columns, tuple(rows), "Percent, with the 95 % interval.")


def _cells(part: Slice | None) -> tuple[str, str]:
    if part is None:
        return "", ""
    plain = f"{rate_text(part.rate)} [{interval_text(part.rate)}]"
    return plain, f"{rate_text(part.scaled)} [{interval_text(part.scaled)}]"


def contamination(found: Exposed) -> list[Sheet]:
    """Rates on safe papers against all of them, and the days; nothing where no cutoff or no day is known."""
    if not found.known:
        return []
    return [exposure(found.exposures), days(found)]


def exposure(found: Sequence[Exposure]) -> Sheet:
    """One row a run or model: the pass rate on safe papers against that on all."""
    rows = [
        (
            one.name,
            one.cutoff or "unknown",
            f"{len(one.safe)} ({one.challenges}, {one.lines:,})",
            *contrast_cells(one.rate),
            *contrast_cells(one.scaled),
            _lead(one.scaled_over_others),
        )
        for one in found
    ]
    columns = (
        *("run", "cutoff", "safe papers (challenges, lines)"),
        *("pass rate", "safe", "difference"),
        *("scaled", "safe", "difference"),
        "scaled, over the others",
    )
    note = (
        f"Percent, with the 95 % interval of each difference. {RULE} Newer papers may be harder or easier for every model:"
        " the last column is the difference of the lead over the mean of the others, from which that is gone."
    )
    return Sheet("Papers that a model cannot have seen", columns, tuple(rows), note)


def contrast_cells(one: Contrast) -> tuple[str, str, str]:
    """On all papers, on the safe ones, and the difference with its interval."""
    return number_text(one.every), number_text(one.some), _difference(one)


def _lead(one: Contrast | None) -> str:
    return "n/a" if one is None else _difference(one)


def _difference(one: Contrast) -> str:
    if one.difference is None:
        return "n/a"
    if one.interval is None:
        return f"{one.difference:+.1f}"
    return f"{one.difference:+.1f} [{one.interval.low:+.1f} to {one.interval.high:+.1f}]"


def days(found: Exposed) -> Sheet:
    """One row a paper: when it and its code became public, and for which runs it is safe."""
    many = len(found.exposures) > _MANY
    rows = [
        (
            paper,
            str(each.v1 or "unknown"),
            str(each.code or "unknown"),
            *([_how_many(paper, found)] if many else (_safe(paper, e) for e in found.exposures)),
        )
        for paper, each in sorted(found.days.items(), key=lambda item: str(item[1].code or ""))
    ]
    names = ["safe for"] if many else [one.name for one in found.exposures]
    columns = ("paper", "first version", "first commit", *names)
    return Sheet("When papers and their code became public", columns, tuple(rows), RULE)


def _safe(paper: str, one: Exposure) -> str:
    return "n/a" if not one.cutoff else "safe" if paper in one.safe else "not safe"


def _how_many(paper: str, found: Exposed) -> str:
    return f"{sum(paper in one.safe for one in found.exposures)} of {len(found.exposures)}"
