"""Challenges as the items of a test, as a table for a terminal.

Not covered: how the numbers come about (`rcb_env.report.items`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rcb_env.errors import counted
from rcb_env.report.items import FINDINGS, SAYS_NOTHING, Item, ItemAnalysis
from rcb_env.report.tables import names_text

_ITEMS = 30  # challenges in a table


def items_table(items: Sequence[Item]) -> Table:
    """One row per challenge: who solved it, and how that goes with the rest."""
    table = Table()
    table.add_column("challenge", overflow="fold")
    for name in ("lines", "solved by", "percent", "discrimination", "95 %"):
        table.add_column(name, justify="right")
    table.add_column("look at it")
    for item in items:
        interval = "n/a" if item.low is None else f"{item.low:+.2f} to {item.high:+.2f}"
        table.add_row(
            escape(item.challenge),
            str(item.lines),
            f"{item.solved_by} of {item.agents}",
            f"{item.solved:.1f}",
            "n/a" if item.discrimination is None else f"{item.discrimination:+.2f}",
            interval,
            item.finding or "",
        )
    return table


def print_items(console: Console, found: ItemAnalysis, *, every: bool = False) -> None:
    """Print challenges as the items of a test.

    Args:
        console: where to.
        found: what to print.
        every: all challenges, not the first ones only.
    """
    dividing = [item for item in found.items if item.finding not in SAYS_NOTHING]
    shown = found.items if every else dividing[:_ITEMS]
    console.print(items_table(shown))
    lines = []
    if not every and len(shown) < len(dividing):
        lines.append(
            f"{len(dividing) - len(shown)} more divide agents: --all, --csv and --json give every challenge"
        )
    told = f"{counted(len(found.items), 'challenge')}, {counted(len(found.agents), 'agent')}"
    if found.reliability is not None:
        told += f"; reliability of the agents' order (Cronbach's alpha): {found.reliability:.2f}"
    lines.append(told)
    for finding, meaning in FINDINGS.items():
        names = {item.challenge: 1 for item in found.items if item.finding == finding}
        if names:
            lines.append(f"{finding} ({meaning}): {len(names)}: {names_text(names)}")
    for line in (*lines, *found.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
