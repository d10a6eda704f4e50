"""A report on some runs, or a comparison of two, as one HTML file that needs nothing else.

Guarantees: no script, nothing loaded from anywhere, and a policy inside that says so; every chart has its numbers as a table
beside it; names from anywhere are harmless. It reads in light and dark, on paper, and without colour.
Not covered: the numbers, which are `rcb_env.report`'s.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rcb_env.report import board_sheets, kind_sheets, sheets
from rcb_env.report.comparison import RunPair, Side
from rcb_env.report.kinds import Exposed
from rcb_env.report.leaderboard import Leaderboard
from rcb_env.report.sheet import Sheet
from rcb_env.report.sheets import Numbers
from rcb_env.report.summary import RunSummary
from rcb_env.report.tables import notes
from rcb_env.runs.store import RunStore
from rcb_env.view import charts
from rcb_env.view.drawn import Drawn
from rcb_env.view.markup import asset, fill

_FINE = 40  # limits of a curve that is drawn


@dataclass(frozen=True)
class Section:
    """A heading, with charts and tables below it."""

    title: str
    charts: Sequence[Drawn] = ()
    sheets: Sequence[Sheet] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    opening: str = ""
    """What must be known to read it."""


def report_sections(numbers: Numbers) -> list[Section]:
    """Everything about some runs."""
    summaries = numbers.summaries
    wrong = charts.endings(summaries)
    return [
        Section(
            "Leaderboard",
            [charts.leaderboard({name: one.score.pass_rate for name, one in summaries.items()})],
            [
                sheets.leaderboard(summaries),
                *sheets.hierarchical({name: one.hierarchical for name, one in summaries.items()}),
            ],
            _told(summaries),
        ),
        Section("Papers", [charts.papers(summaries)], [sheets.papers(summaries)]),
        *(
            Section(f"By {name}", [charts.division(name, runs)], [kind_sheets.division(name, runs)])
            for name, runs in numbers.parts.items()
        ),
        *_contamination(numbers.exposed),
        *([Section("What went wrong", [wrong], [sheets.endings(summaries)])] if wrong else []),
        *(Section("Open challenges", sheets=[one]) for one in sheets.open_challenges(summaries)),
        *_efforts(numbers.sides),
    ]


def board_sections(board: Leaderboard) -> list[Section]:
    """The published results, and runs beside them."""
    scaled = board.by == "scaled"
    rates = {
        row.name: row.score.scaled_pass_rate if scaled else row.score.pass_rate
        for row in board.rows
    }
    drawn = charts.leaderboard(rates, "Scaled pass rate" if scaled else "Pass rate")
    return [
        Section("Leaderboard", [drawn], [board_sheets.board(board)]),
        Section(
            "Contamination", [charts.cutoffs(board.exposed)], board_sheets.contamination(board)
        ),
    ]


def comparison_sections(pairs: Sequence[RunPair], stores: Mapping[str, RunStore]) -> list[Section]:
    """Everything about some pairs of runs.

    Args:
        pairs: as `rcb_env.report.comparison.compare_runs` made them.
        stores: their runs by name.

    Raises:
        StoreError: a run cannot be read.
    """
    found = [
        Section(
            f"{pair.b} against {pair.a}",
            sheets=sheets.pair(pair),
            warnings=pair.comparison.warnings,
        )
        for pair in pairs
    ]
    return found + _efforts({name: Side(store) for name, store in stores.items()})


def html(title: str, sections: Sequence[Section]) -> str:
    """Sections as one file."""
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return fill(
        "report.html",
        title=title,
        sections=sections,
        made=made,
        style=Markup(asset("view.css").decode() + asset("report.css").decode()),
        drawn=_svg,
    )


def _efforts(sides: Mapping[str, Side]) -> list[Section]:
    coarse = sheets.equal_efforts(sides)
    if not coarse:
        return []
    opening = (
        "An episode that went on is not cut short to find out, so this is at most what a smaller budget would have"
        " given. Only challenges that all runs planned are counted."
    )
    drawn = [charts.effort(curve) for curve in sheets.equal_efforts(sides, most=_FINE)]
    tables = [sheets.at_equal(curve) for curve in coarse]
    return [Section("At equal effort", drawn, tables, opening=opening)]


def _contamination(found: Exposed) -> list[Section]:
    made = kind_sheets.contamination(found)
    return [Section("Contamination", [charts.cutoffs(found)], made)] if made else []


def _told(summaries: Mapping[str, RunSummary]) -> list[str]:
    return [
        f"{name}: {line}" if len(summaries) > 1 else line
        for name, one in summaries.items()
        for line in notes(one)
    ]


def _svg(chart: Drawn) -> Markup:
    """A chart to be put into the page; Vega escapes what stands in it, and no script may run there anyway."""
    text = chart.svg()
    # Its width follows the page; what a reader is told of it stands outside.
    text = re.sub(
        r'^<svg [^>]*?width="([\d.]+)" height="[\d.]+"',
        r'<svg width="\1" xmlns="http://www.w3.org/2000/svg" aria-hidden="true"',
        text,
        count=1,
    )
    return Markup(text)
