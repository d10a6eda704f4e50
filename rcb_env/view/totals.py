"""A run in a few numbers, from its index."""

from __future__ import annotations

import sqlite3
from typing import Any

from rcb_env.errors import StoreError
from rcb_env.report.scoring import STATES, Rate, score
from rcb_env.view import queries
from rcb_env.view.catalog import Run


def totals(run: Run) -> dict[str, Any]:
    """Planned and finished episodes, states, rates with intervals, and what it took; computed once for each of its states."""

    def made(db: sqlite3.Connection) -> dict[str, Any]:
        try:
            rows = queries.planned(db)
        except ValueError as error:
            raise StoreError(
                f"{run.store.folder / 'run.json'}: the plan is damaged: {error}"
            ) from error
        if not rows:
            return {
                "planned": 0,
                "states": {},
                "rate": None,
                "scaled": None,
                "proven": None,
                "score": None,
                "sums": {},
            }
        scored = score(rows, ks=[])
        return {
            "planned": scored.planned,
            "states": dict(scored.states),
            "rate": _plain_rate(scored.pass_rate),
            "scaled": _plain_rate(scored.scaled_pass_rate),
            "proven": queries.proven(db),
            "score": queries.mean_score(db),
            "sums": queries.sums(db),
        }

    kept: dict[str, Any] = run.index.kept("totals", made)
    finished = kept["planned"] - kept["states"].get("missing", 0)
    states = [(state, kept["states"][state]) for state in STATES if kept["states"].get(state)]
    return {**kept, "finished": finished, "states": states}


def _plain_rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None or rate.value is None:
        return None
    interval = [rate.interval.low, rate.interval.high] if rate.interval else None
    return {"value": rate.value, "low": rate.low, "high": rate.high, "interval": interval}
