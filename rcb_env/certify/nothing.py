"""What partial credit can be had for nothing: answers beyond those that make cases free, and what they earn.

They end the process, or are the code of another region of the same paper, as a model may write which copies what it sees.
Guarantees: pure; every answer is Python where its file was.
Not covered: what answers that know nothing pass (`rcb_env.grading.nulls`): that is free; an endless loop, which runs out
of time and so earns nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rcb_env.dataset.papers import Challenge
from rcb_env.grading.nulls import is_python

_EXITS = {"os._exit(0)": "__import__('os')._exit(0)"}
_NEIGHBOURS = 3


@dataclass(frozen=True)
class Attempt:
    """An answer that was tried, and what it earned."""

    answer: str
    earned: float


def attempts(challenge: Challenge) -> Iterator[tuple[str, str]]:
    """Answers to a region that its author never meant, each with what it is."""
    indent = challenge.region.indent
    codes = {name: f"{indent}{line}\n" for name, line in _EXITS.items()}
    for other in _neighbours(challenge):
        codes[f"copy of {other.id}"] = textwrap.indent(textwrap.dedent(other.reference), indent)
    for name, code in codes.items():
        if is_python(challenge.masked().fill(code)):
            yield name, code


def best(tried: Iterable[Attempt]) -> Attempt | None:
    """The one that earned most; None: none earned anything."""
    found = max(tried, key=lambda one: one.earned, default=None)
    return found if found is not None and found.earned > 0 else None


def _neighbours(challenge: Challenge) -> list[Challenge]:
    """Other regions, the nearest of the same file first; none that holds this one or lies in it."""
    own = challenge.region

    def apart(other: Challenge) -> bool:
        if other.file != challenge.file:
            return True
        return other.region.end < own.start or own.end < other.region.start

    def distance(other: Challenge) -> tuple[bool, int]:
        return other.file != challenge.file, abs(other.region.start - own.start)

    return sorted(filter(apart, challenge.paper.challenges), key=distance)[:_NEIGHBOURS]
