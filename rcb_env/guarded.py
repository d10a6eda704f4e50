"""Guarded grading (under construction)."""

from __future__ import annotations

from rcb_env.errors import UsageError
from rcb_env.papers import Challenge
from rcb_env.sandbox.fleet import Fleet
from rcb_env.verdict import Purpose, Verdict


class GuardedGrading:
    """Grades regions of papers in the public benchmark's layout."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """Not there yet."""
        raise UsageError(f"{challenge.id}: papers in this layout cannot be graded yet")
