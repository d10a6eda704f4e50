"""Two runs side by side, from their indexes.

Not covered: the statistics (`rcb_env.report.pairing`); rates by effort, which reports have (`rcb_env.report.comparison`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from rcb_env.errors import UsageError
from rcb_env.report.comparison import differences
from rcb_env.report.pairing import Comparison, compare
from rcb_env.view import queries, texts
from rcb_env.view.catalog import Run


@dataclass(frozen=True)
class Pair:
    """Run B against run A."""

    comparison: Comparison
    warnings: tuple[str, ...]
    papers: int


def compared(a: Run, b: Run) -> Pair:
    """Run B against run A, computed once for each of their states.

    Raises:
        UsageError: no challenge is in both, or one has other code in each.
    """
    return _compared_once(_Same(a, a.index.version()), _Same(b, b.index.version()))


class _Same:
    """A run at one of its versions."""

    def __init__(self, run: Run, version: str) -> None:
        self.run = run
        self._known = (str(run.index.path), version)

    def __hash__(self) -> int:
        return hash(self._known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._known == other._known


@functools.lru_cache(maxsize=32)
def _compared_once(a: _Same, b: _Same) -> Pair:
    rows = []
    for side in (a, b):
        with side.run.index.reading() as db:
            rows.append(queries.planned(db))
    try:
        found = compare(*rows)
    except ValueError as error:
        raise UsageError(f"{a.run.name} and {b.run.name} cannot be compared: {error}") from None
    common = {row.challenge for row in rows[0]} & {row.challenge for row in rows[1]}
    warnings = differences(a.run.store.record, b.run.store.record, common)
    papers = len({row.paper for row in rows[0] if row.challenge in common})
    return Pair(found, (*found.warnings, *warnings), papers)


def answer(run: Run, challenge: str) -> dict[str, Any]:
    """How a challenge went in a run, with one of the answers: a failed one, if there is any."""
    query = "SELECT * FROM episode WHERE challenge = ? ORDER BY status = 'passed', status = 'missing', sample"
    with run.index.reading() as db:
        rows = db.execute(query, [challenge]).fetchall()
    shown = rows[0]
    code = shown["code"]
    if shown["offset"] is not None and len(code) >= texts.MOST_CHARS:
        code = str(run.store.at(shown["offset"])["episode"].get("code") or "")
    return {"row": shown, "rows": sorted(rows, key=lambda row: int(row["sample"])), "code": code}
