"""Rates of parts of a run: by the size of a challenge, its scope, and whether it holds smaller ones.

Guarantees: the parts of one division hold every planned episode once, in the order of their names; each has the rate, the
bounds and the interval that a run of these episodes alone would have.
Not covered: parts by paper, which a score has itself (`rcb_env.report.scoring`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rcb_env.dataset.scopes import SCOPES, scope_of
from rcb_env.report.scoring import Planned, Rate, score

SIZES: tuple[tuple[str, int, int | None], ...] = (
    ("1-2", 1, 2),
    ("3-5", 3, 5),
    ("6-10", 6, 10),
    ("11-20", 11, 20),
    ("21+", 21, None),
)
"""Sizes of a challenge in lines of code: name, least, most."""


@dataclass(frozen=True)
class Slice:
    """One part of a run."""

    name: str
    challenges: int
    episodes: int
    rate: Rate


def by_size(rows: Iterable[Planned]) -> tuple[Slice, ...]:
    """Parts by the lines of code of a challenge."""
    return _divided(rows, lambda row: size_of(row.lines), [name for name, _, _ in SIZES])


def by_nesting(rows: Sequence[Planned]) -> tuple[Slice, ...]:
    """Parts by whether other challenges' regions lie inside; empty where the run does not say."""
    if any(row.own_lines is None for row in rows):
        return ()
    names = ["holds no other", "holds others"]
    return _divided(rows, lambda row: names[row.own_lines != row.lines], names)


def by_scope(rows: Sequence[Planned]) -> tuple[Slice, ...]:
    """Parts by what is to be written, see `rcb_env.dataset.scopes`."""
    return _divided(rows, lambda row: scope_of(row.challenge), SCOPES)


def size_of(lines: int) -> str:
    """The name of a size."""
    return next(name for name, _, most in SIZES if most is None or lines <= most)


def _divided(
    rows: Iterable[Planned], name_of: Callable[[Planned], str], names: Sequence[str]
) -> tuple[Slice, ...]:
    parts: dict[str, list[Planned]] = {name: [] for name in names}
    for row in rows:
        parts[name_of(row)].append(row)
    return tuple(
        Slice(name, len({row.challenge for row in part}), len(part), score(part, ks=[]).pass_rate)
        for name, part in parts.items()
        if part
    )
