"""Challenges as the items of a test, from the indexes of runs: what the items page shows.

Guarantees: the numbers are those of `rcb items` for the same runs; no run is read, only its index.
Not covered: what the numbers mean (`rcb_env.report.items`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcb_env.report import item_sources
from rcb_env.report.items import Item, ItemAnalysis, analyse
from rcb_env.view import queries
from rcb_env.view.catalog import Run

_Order = Callable[[Item], tuple[Any, ...]]
ORDERS: Mapping[str, _Order] = {
    "most suspicious first": lambda _item: (),
    "hardest first": lambda item: (item.solved, item.challenge),
    "easiest first": lambda item: (-item.solved, item.challenge),
    "lowest discrimination": lambda item: (item.discrimination is None, item.discrimination),
    "highest discrimination": lambda item: (
        item.discrimination is None,
        -(item.discrimination or 0.0),
    ),
    "longest first": lambda item: (-item.lines, item.challenge),
    "challenge": lambda item: (item.challenge,),
}


def analysed(runs: Sequence[Run]) -> ItemAnalysis:
    """The challenges of some runs, each of which is one agent.

    Args:
        runs: two or more.

    Raises:
        UsageError: a challenge has other code in two of them.
        StoreError: a run cannot be read.
    """
    shares: dict[str, dict[str, float]] = {}
    left_out = 0
    for run in runs:
        with run.index.reading() as db:
            outcomes = queries.by_challenge(db)
        left_out += sum(each.open for each in outcomes.values())
        shares[run.name] = {
            challenge: each.passed / (each.planned - each.open)
            for challenge, each in outcomes.items()
            if each.open < each.planned
        }
    stores = {run.name: run.store for run in runs}
    return analyse(shares, item_sources.lines_of(stores), item_sources.notes(stores, left_out))


def chosen(found: ItemAnalysis, *, search: str, finding: str, order: str) -> list[Item]:
    """The items that fit, in an order of `ORDERS`."""
    fitting = [
        item
        for item in found.items
        if search.lower() in item.challenge.lower() and finding in ("", item.finding)
    ]
    return sorted(fitting, key=ORDERS.get(order, ORDERS["most suspicious first"]))
