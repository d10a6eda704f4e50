"""What is asked of an index: some of a run's episodes, in some order; counts; outcomes by challenge.

Everything a user writes is a value in a query and never part of its text.
Not covered: what a page makes of it (`pages.py`).
"""

from __future__ import annotations

import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rcb_env.report.scoring import PASSED, STATES, Planned
from rcb_env.report.slices import SIZES

PAGE = 100  # episodes of one page
_ORDERS = {
    "plan": "place",
    "newest": "stored IS NULL, stored DESC",
    "challenge": "challenge, sample",
    "state": "status, place",
    "lines": "lines DESC, place",
    "steps": "steps DESC, place",
    "tests": "test_runs DESC, place",
    "tokens": "tokens DESC, place",
    "cost": "cost DESC, place",
    "time": "wall_s DESC, place",
}
ORDERS = tuple(_ORDERS)


@dataclass(frozen=True)
class Filter:
    """Which episodes, in which order; what is empty does not restrict."""

    search: str = ""
    """In challenge, message and code."""
    states: tuple[str, ...] = ()
    paper: str = ""
    size: str = ""
    """A name of `SIZES`."""
    error: str = ""
    """An error class."""
    least_cost: float | None = None
    """In US dollars."""
    order: str = "plan"
    page: int = 1

    @classmethod
    def of(cls, given: Sequence[tuple[str, str]]) -> Filter:
        """As addresses have it; what cannot be is passed over."""
        one = dict(given)
        order, page = one.get("order", "plan"), one.get("page", "1")
        size = one.get("size", "")
        return cls(
            search=one.get("q", "").strip()[:200],
            states=tuple(v for name, v in given if name == "state" and v in STATES),
            paper=one.get("paper", ""),
            size=size if size in [name for name, _, _ in SIZES] else "",
            error=one.get("error", ""),
            least_cost=_number(one.get("cost", "")),
            order=order if order in _ORDERS else "plan",
            page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
        )

    def query(self, **other: object) -> str:
        """As an address has it.

        Args:
            other: fields to be changed.
        """
        wanted = replace(self, **other)  # type: ignore[arg-type]
        pairs = [
            ("q", wanted.search),
            *(("state", state) for state in wanted.states),
            ("paper", wanted.paper),
            ("size", wanted.size),
            ("error", wanted.error),
            ("cost", "" if wanted.least_cost is None else f"{wanted.least_cost:g}"),
            ("order", "" if wanted.order == "plan" else wanted.order),
            ("page", "" if wanted.page == 1 else str(wanted.page)),
        ]
        return urllib.parse.urlencode([pair for pair in pairs if pair[1]])

    @property
    def restricts(self) -> bool:
        """Whether any episode may be left out."""
        return replace(self, order="plan", page=1) != Filter()

    def where(self) -> tuple[str, list[object]]:
        """As SQL: the condition, and its values."""
        parts, values = ["1"], list[object]()
        if self.states:
            parts.append(f"status IN ({', '.join('?' * len(self.states))})")
            values += self.states
        for column, value in (("paper", self.paper), ("error_class", self.error)):
            if value:
                parts.append(f"{column} = ?")
                values.append(value)
        for name, least, most in SIZES:
            if name == self.size:
                parts.append("lines BETWEEN ? AND ?")
                values += [least if least > 1 else 0, most or 2**53]
        if self.least_cost is not None:
            parts.append("cost >= ?")
            values.append(self.least_cost)
        if self.search:
            columns = ("challenge", "message", "code")
            parts.append(f"({' OR '.join(f'instr(lower({c}), ?)' for c in columns)})")
            values += [self.search.lower()] * len(columns)
        return " AND ".join(parts), values


def episodes(db: sqlite3.Connection, wanted: Filter) -> tuple[int, list[sqlite3.Row]]:
    """How many there are, and those of the wanted page."""
    where, values = wanted.where()
    (count,) = db.execute(f"SELECT count(*) FROM episode WHERE {where}", values).fetchone()
    rows = db.execute(
        f"SELECT * FROM episode WHERE {where} ORDER BY {_ORDERS[wanted.order]} LIMIT ? OFFSET ?",
        [*values, PAGE, (wanted.page - 1) * PAGE],
    )
    return count, rows.fetchall()


def neighbours(
    db: sqlite3.Connection, wanted: Filter, place: int
) -> tuple[sqlite3.Row | None, sqlite3.Row | None]:
    """The episodes before and after one, among those that are wanted."""
    where, values = wanted.where()
    if wanted.order == "plan":  # without sorting all of them
        query = f"SELECT challenge, sample FROM episode WHERE {where} AND place"
        before = db.execute(f"{query} < ? ORDER BY place DESC LIMIT 1", [*values, place])
        after = db.execute(f"{query} > ? ORDER BY place LIMIT 1", [*values, place])
        return before.fetchone(), after.fetchone()
    around = db.execute(
        "WITH listed AS (SELECT place, lag(place) OVER w AS before, lead(place) OVER w AS after"
        f" FROM episode WHERE {where} WINDOW w AS (ORDER BY {_ORDERS[wanted.order]}))"
        " SELECT before, after FROM listed WHERE place = ?",
        [*values, place],
    ).fetchone()
    query = "SELECT challenge, sample FROM episode WHERE place = ?"
    found = [db.execute(query, [other]).fetchone() for other in around or (None, None)]
    return found[0], found[1]


def episode(db: sqlite3.Connection, challenge: str, sample: int) -> sqlite3.Row | None:
    """One planned episode."""
    query = "SELECT * FROM episode WHERE challenge = ? AND sample = ?"
    row: sqlite3.Row | None = db.execute(query, [challenge, sample]).fetchone()
    return row


def attempts(db: sqlite3.Connection, key: str) -> list[sqlite3.Row]:
    """The stored attempts at an episode, in the order in which they were stored."""
    return db.execute("SELECT * FROM attempt WHERE key = ? ORDER BY offset", [key]).fetchall()


def counts(db: sqlite3.Connection, column: str) -> dict[str, int]:
    """How many episodes have each value of a column; "" is left out."""
    if column not in ("status", "paper", "error_class"):
        raise ValueError(f"nobody counts {column}")
    rows = db.execute(f"SELECT {column}, count(*) FROM episode GROUP BY 1 ORDER BY min(place)")
    return {row[0]: row[1] for row in rows if row[0]}


class Outcomes(NamedTuple):
    """What became of a challenge's episodes in one run."""

    passed: int
    open: int
    unchanged: int
    planned: int
    score: float | None
    """The mean of what counts, of an open challenge."""


def by_challenge(db: sqlite3.Connection) -> Mapping[str, Outcomes]:
    """The outcomes of each challenge, in the order of the plan."""
    rows = db.execute(
        "SELECT challenge, sum(status = ?), sum(status IN ('missing', 'infra_error')),"
        " sum(status = 'no_change'), count(*), avg(score)"
        " FROM episode GROUP BY challenge ORDER BY min(place)",
        [PASSED],
    )
    return {row[0]: Outcomes(*row[1:]) for row in rows}


def mean_score(db: sqlite3.Connection) -> float | None:
    """The mean over open challenges of what counts; None where there is none."""
    query = "SELECT avg(score) AS score FROM episode WHERE score IS NOT NULL GROUP BY challenge"
    mean: float | None = db.execute(f"SELECT avg(score) FROM ({query})").fetchone()[0]
    return mean


def proven(db: sqlite3.Connection) -> float | None:
    """Percent of the planned episodes that passed where the answer was not; None where that is not known."""
    query = (
        "SELECT count(stored), total(status = ? AND evidence = ''),"
        " 100.0 * total(status = ? AND evidence IN ('isolated', 'split')) / count(*) FROM episode"
    )
    finished, unknown, share = db.execute(query, [PASSED, PASSED]).fetchone()
    return share if finished and not unknown else None


def planned(db: sqlite3.Connection) -> list[Planned]:
    """Every planned episode with its state, as scores are made of."""
    rows = db.execute(
        "SELECT challenge, paper, lines, sample, status, own_lines FROM episode ORDER BY place"
    )
    return [Planned(*row) for row in rows]


def sums(db: sqlite3.Connection) -> dict[str, float | None]:
    """What all finished episodes took; None: of some it is not known."""
    names = ("steps", "test_runs", "calls", "tokens", "cost", "wall_s")
    known = ", ".join(f"CASE WHEN count({n}) = count(*) THEN total({n}) END" for n in names)
    row = db.execute(f"SELECT {known} FROM episode WHERE stored IS NOT NULL").fetchone()
    return dict(zip(names, row, strict=True))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < 1e12 else None
