"""Samples of jobs that take turns, and tables of them.

Jobs that are compared take turns, so that whatever else the machine does hits all of them alike. Ratios are ratios of
medians of one run. Not covered: deciding whether a number is good; targets are shown beside the numbers.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

Job = Callable[[], object]

_LONG_S, _REST_S = 0.005, 0.02


@dataclass(frozen=True)
class Row:
    """One thing that was measured.

    Attributes:
        what: its name.
        samples_s: how long it took, in seconds, each time.
        beside: the row it is compared with; the ratio is that row's median over this one's.
        target: what is to be reached, in words; "" for what is only there to compare with.
    """

    what: str
    samples_s: tuple[float, ...]
    beside: str = ""
    target: str = ""


@dataclass(frozen=True)
class Result:
    """What one benchmark found.

    Attributes:
        name: of the benchmark.
        about: what was measured, in a sentence.
        rows: times.
        figures: numbers that are not times, by what they are, unit included.
        notes: lines to be read with the numbers.
        targets: what figures are to reach, in words, by the figure.
    """

    name: str
    about: str
    rows: tuple[Row, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    targets: Mapping[str, str] = field(default_factory=dict)

    def row(self, what: str) -> Row:
        """The row of this name."""
        return next(row for row in self.rows if row.what == what)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single samples, as JSON."""
        return {
            "name": self.name,
            "about": self.about,
            "rows": [self._told(row) for row in self.rows],
            "figures": dict(self.figures),
            "notes": list(self.notes),
            "targets": dict(self.targets),
        }

    def _told(self, row: Row) -> dict[str, Any]:
        told: dict[str, Any] = {
            "what": row.what,
            "n": len(row.samples_s),
            "p50_ms": round(1000 * median(row.samples_s), 4),
            "p99_ms": round(1000 * p99(row.samples_s), 4),
            "target": row.target,
        }
        if row.beside:
            told["beside"] = row.beside
            told["times_faster"] = round(ratio(self, row), 2)
        return told

    def tables(self) -> list[Table]:
        """The same for people."""
        made = []
        if self.rows:
            table = Table(title=f"{self.name}: {self.about}", title_justify="left")
            for heading in ("what", "n", "p50 ms", "p99 ms", "times faster", "than", "to reach"):
                table.add_column(heading, justify="right" if "ms" in heading else "left")
            for row in self.rows:
                table.add_row(
                    row.what,
                    str(len(row.samples_s)),
                    f"{1000 * median(row.samples_s):.2f}",
                    f"{1000 * p99(row.samples_s):.2f}",
                    f"{ratio(self, row):.1f}" if row.beside else "",
                    row.beside,
                    row.target,
                )
            made.append(table)
        if self.figures:
            table = Table(title=f"{self.name}: figures", title_justify="left")
            for heading in ("figure", "value", "to reach"):
                table.add_column(heading, justify="right" if heading == "value" else "left")
            for what, value in self.figures.items():
                table.add_row(what, f"{value:,.2f}", self.targets.get(what, ""))
            made.append(table)
        return made


def take_turns(jobs: Mapping[str, tuple[Job, int]]) -> dict[str, tuple[float, ...]]:
    """Time jobs that take turns; each as often as its number says, spread over the whole.

    Each turn begins with another job, so that none is always the one behind the dearest; and after a job that takes its
    time comes a short rest, so that what it leaves for later is not counted as the next one's.
    """
    rounds = max(count for _, count in jobs.values())
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(1, rounds + 1):
        first = turn % len(jobs)
        for name, (job, count) in (*[*jobs.items()][first:], *[*jobs.items()][:first]):
            if turn * count // rounds > len(samples[name]):
                samples[name].append(timed(job))
                if samples[name][-1] > _LONG_S:
                    time.sleep(_REST_S)
    return {name: tuple(values) for name, values in samples.items()}


def timed(job: Job) -> float:
    """How long a job takes, in seconds."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def median(samples: Sequence[float]) -> float:
    """The median; not a number when there is no sample."""
    return statistics.median(samples) if samples else math.nan


def p99(samples: Sequence[float]) -> float:
    """The 99th percentile by nearest rank: the slowest of fewer than a hundred samples."""
    return sorted(samples)[math.ceil(0.99 * len(samples)) - 1] if samples else math.nan


def ratio(result: Result, row: Row) -> float:
    """How many times faster a row is than the one it is compared with."""
    return median(result.row(row.beside).samples_s) / median(row.samples_s)


def machine() -> dict[str, Any]:
    """What the numbers depend on and is known."""
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_1min": round(os.getloadavg()[0], 2),
    }
