"""Rates of parts of a run: by size, scope, nesting and hint of a challenge, by domain of its paper, by what a model may know.

Guarantees: the parts of one division hold every planned episode once, in the order of their names; each has the rates, the
bounds and the intervals that a run of these episodes alone would have. A division of which a run does not know everything is
empty.
Not covered: parts by paper, which a score has itself (`rcb_env.report.scoring`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rcb_env.dataset.scopes import SCOPES, scope_of
from rcb_env.report.contamination import month_of, safe_papers
from rcb_env.report.kinds import Kinds
from rcb_env.report.scoring import Planned, Rate, score

SIZES: tuple[tuple[str, int, int | None], ...] = (
    ("1-2", 1, 2),
    ("3-5", 3, 5),
    ("6-10", 6, 10),
    ("11-20", 11, 20),
    ("21+", 21, None),
)
"""Sizes of a challenge in lines of code: name, least, most."""
HINTS: tuple[tuple[str, int | None], ...] = (("1-2", 2), ("3-4", 4), ("5+", None))
"""Lengths of a hint in words: name, most."""
SEEN, FRESH, UNDATED = "code before the cutoff", "code after the cutoff", "code of no known day"


@dataclass(frozen=True)
class Slice:
    """One part of a run."""

    name: str
    challenges: int
    lines: int
    """Of these challenges."""
    episodes: int
    rate: Rate
    scaled: Rate | None

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)


_Rows = Sequence[Planned]


def by_size(rows: _Rows) -> tuple[Slice, ...]:
    """Parts by the lines of code of a challenge."""
    return _divided(rows, lambda row: size_of(row.lines), [name for name, _, _ in SIZES])


def by_nesting(rows: _Rows) -> tuple[Slice, ...]:
    """Parts by whether other challenges' regions lie inside; empty where the run does not say."""
    if any(row.own_lines is None for row in rows):
        return ()
    names = ["holds no other", "holds others"]
    return _divided(rows, lambda row: names[row.own_lines != row.lines], names)


def by_scope(rows: _Rows) -> tuple[Slice, ...]:
    """Parts by what is to be written, see `rcb_env.dataset.scopes`."""
    return _divided(rows, lambda row: scope_of(row.challenge), SCOPES)


def by_hint(rows: _Rows, words: Mapping[str, int]) -> tuple[Slice, ...]:
    """Parts by how many words say what is missing; empty where one of them is not known."""
    if any(row.challenge not in words for row in rows):
        return ()

    def length(row: Planned) -> str:
        count = words[row.challenge]
        return next(name for name, most in HINTS if most is None or count <= most)

    return _divided(rows, length, [name for name, _ in HINTS])


def by_domain(rows: _Rows, domains: Mapping[str, str]) -> tuple[Slice, ...]:
    """Parts by the domain of the paper; empty where one of them has none."""
    if any(row.paper not in domains for row in rows):
        return ()
    return _divided(rows, lambda row: domains[row.paper], sorted(set(domains.values())))


def by_contamination(rows: _Rows, kinds: Kinds) -> tuple[Slice, ...]:
    """Parts by whether a paper's code was public before the cutoff of the model; empty where nobody knows the cutoff."""
    cutoff = month_of(kinds.cutoff)
    if cutoff is None:
        return ()
    days = kinds.code_days
    safe = safe_papers(days, cutoff)

    def seen(row: Planned) -> str:
        if days.get(row.paper) is None:
            return UNDATED
        return FRESH if row.paper in safe else SEEN

    return _divided(rows, seen, [SEEN, FRESH, UNDATED])


DIVISIONS: Mapping[str, Callable[[_Rows, Kinds], tuple[Slice, ...]]] = {
    "lines of code": lambda rows, _: by_size(rows),
    "scope": lambda rows, _: by_scope(rows),
    "nesting": lambda rows, _: by_nesting(rows),
    "words of the hint": lambda rows, kinds: by_hint(rows, kinds.hint_words),
    "domain": lambda rows, kinds: by_domain(rows, kinds.domains),
    "contamination": by_contamination,
}
"""How a run can be divided."""


def divisions(
    outcomes: Mapping[str, _Rows], kinds: Mapping[str, Kinds]
) -> dict[str, dict[str, tuple[Slice, ...]]]:
    """Parts of each run by division; those that divide nothing are left out.

    Args:
        outcomes: every planned episode, by run.
        kinds: of each run.
    """
    found = {
        division: {name: divide(rows, kinds[name]) for name, rows in outcomes.items()}
        for division, divide in DIVISIONS.items()
    }
    return {
        division: runs
        for division, runs in found.items()
        if len({part.name for cut in runs.values() for part in cut}) > 1
    }


def size_of(lines: int) -> str:
    """The name of a size."""
    return next(name for name, _, most in SIZES if most is None or lines <= most)


def _divided(
    rows: Iterable[Planned], name_of: Callable[[Planned], str], names: Sequence[str]
) -> tuple[Slice, ...]:
    parts: dict[str, list[Planned]] = {name: [] for name in names}
    for row in rows:
        parts[name_of(row)].append(row)
    return tuple(_slice(name, part) for name, part in parts.items() if part)


def _slice(name: str, rows: _Rows) -> Slice:
    found = score(rows, ks=[])
    lines = {row.challenge: row.lines for row in rows}
    return Slice(
        name,
        len(lines),
        sum(lines.values()),
        len(rows),
        found.pass_rate,
        found.scaled_pass_rate,
    )
