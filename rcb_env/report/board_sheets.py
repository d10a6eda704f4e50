"""The leaderboard as sheets.

Not covered: how the numbers come about (`rcb_env.report.leaderboard`).
"""

from __future__ import annotations

from rcb_env.errors import counted
from rcb_env.report.kind_sheets import days, exposure
from rcb_env.report.leaderboard import PUBLISHED, Leaderboard, Row
from rcb_env.report.ranks import Rank
from rcb_env.report.sheet import Sheet
from rcb_env.report.tables import interval_text, rate_text


def board(found: Leaderboard) -> Sheet:
    """One row a model or run, the best first."""
    mixed = any(row.source != PUBLISHED for row in found.rows)
    rows = [
        (
            row.name,
            *(["published" if row.source == PUBLISHED else "run"] if mixed else []),
            str(row.rank.place),
            _likely(row.rank),
            rate_text(row.score.scaled_pass_rate),
            interval_text(row.score.scaled_pass_rate),
            rate_text(row.score.pass_rate),
            interval_text(row.score.pass_rate),
            _prices(row),
            row.facts.knowledge_cutoff or "",
        )
        for row in found.rows
    ]
    rates = ("scaled", "95 %", "pass rate", "95 %")
    columns = ("model", *(["from"] if mixed else []), "rank", "95 %", *rates)
    by = "scaled pass rate" if found.by == "scaled" else "pass rate"
    title = (
        f"{counted(found.challenges, 'challenge')} of {counted(found.papers, 'paper')}, {found.lines:,} lines"
        f" (percent; ranked by the {by})"
    )
    return Sheet(title, (*columns, "USD in/out", "cutoff"), tuple(rows), "\n".join(found.notes))


def contamination(found: Leaderboard) -> list[Sheet]:
    """Each model on the papers that it cannot have seen, and the days of all papers."""
    return [exposure(found.exposed.exposures), days(found.exposed)]


def _likely(rank: Rank) -> str:
    if rank.low is None or rank.high is None:
        return "n/a"
    return str(rank.low) if rank.low == rank.high else f"{rank.low} to {rank.high}"


def _prices(row: Row) -> str:
    """Of a million prompt and completion tokens; what is not known is blank."""
    prices = (row.facts.input_usd_per_mtok, row.facts.output_usd_per_mtok)
    if all(price is None for price in prices):
        return ""
    return "/".join("" if price is None else f"{price:g}" for price in prices)
