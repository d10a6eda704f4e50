"""The leaderboard as a table for a terminal.

Not covered: how the numbers come about (`rcb_env.report.leaderboard`).
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rcb_env.errors import counted
from rcb_env.report.leaderboard import PUBLISHED, Leaderboard, Row
from rcb_env.report.ranks import By, Rank
from rcb_env.report.tables import interval_text, rate_text


def print_leaderboard(console: Console, board: Leaderboard, *, by: By) -> None:
    """Print everything about it.

    Args:
        console: where to.
        board: what to print.
        by: the rate that ranks.
    """
    console.print(leaderboard_table(board, by=by))
    for note in board.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def leaderboard_table(board: Leaderboard, *, by: By) -> Table:
    """One row a model or run, the best first."""
    table = Table(
        title=f"{counted(board.challenges, 'challenge')} of {counted(board.papers, 'paper')}, {board.lines:,} lines"
        f" (percent; ranked by the {'scaled ' if by == 'scaled' else ''}pass rate)",
        title_justify="left",
    )
    for name in ("rank", "95 %"):
        table.add_column(name, justify="right")
    table.add_column("model", overflow="fold")
    for name in ("scaled", "95 %", "pass rate", "95 %", "USD in/out"):
        table.add_column(name, justify="right")
    table.add_column("cutoff")
    for row in board.rows:
        table.add_row(
            str(row.rank.place),
            rank_text(row.rank),
            escape(row.name),
            rate_text(row.score.scaled_pass_rate),
            interval_text(row.score.scaled_pass_rate),
            rate_text(row.score.pass_rate),
            interval_text(row.score.pass_rate),
            price_text(row),
            row.facts.knowledge_cutoff or "",
            style=None if row.source == PUBLISHED else "bold",
        )
    return table


def rank_text(rank: Rank) -> str:
    """The likely places of a row, for a table cell."""
    if rank.low is None or rank.high is None:
        return "n/a"
    return str(rank.low) if rank.low == rank.high else f"{rank.low} to {rank.high}"


def price_text(row: Row) -> str:
    """Prices of a million prompt and completion tokens for a table cell; what is not known is blank."""
    prices = (row.facts.input_usd_per_mtok, row.facts.output_usd_per_mtok)
    if all(price is None for price in prices):
        return ""
    return "/".join("" if price is None else f"{price:g}" for price in prices)
