"""The form in which anything wrong with a paper is told: a file, a line, and what to do; and what every check found has."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from rcb_env.dataset.papers import Challenge
from rcb_env.errors import PaperError


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a paper. `line` is 1-based; None: the whole file."""

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """As editors and people read it."""
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"

    @classmethod
    def of(cls, error: PaperError) -> Problem:
        """The problem that kept a paper from being loaded."""
        return cls(error.path, error.line, error.reason)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a check found of a paper or of a challenge.

    Attributes:
        problems: what is wrong.
    """

    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)

    def lasting(self) -> dict[str, Any]:
        """What goes on record."""
        raise NotImplementedError


def problem_of(challenge: Challenge, message: str, line: int | None = None) -> Problem:
    """A problem of a region, at a line of the annotated file (default: its start tag)."""
    return Problem(
        path=str(challenge.paper.root / challenge.file),
        line=challenge.region.start + 1 if line is None else line,
        message=f"{challenge.id} {message}",
    )
