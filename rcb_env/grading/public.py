"""Grades regions of papers in the public benchmark's layout: split where a suite can be split, else guarded.

Which it is depends on the region alone and not on the candidate (`evidence.py`), and the verdict says it. The public
benchmark's own rule asks how the suite ends with candidate and reference in one process; for the final score the
suite runs once in that way too, and nothing but `Verdict.official_pass` comes of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rcb_env.caches import user_cache
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.evidence import Decision, EvidenceSearch
from rcb_env.grading.guarded import GuardedGrading
from rcb_env.grading.split import SplitGrading, SuiteTests
from rcb_env.grading.verdict import Purpose, Verdict
from rcb_env.sandbox.fleet import Fleet


class PublicGrading:
    """Grades regions of papers in the public benchmark's layout. Thread-safe.

    Args:
        fleet: the boxes.
        cache: folder that remembers canaries and what splits; None: the user's.
    """

    def __init__(self, fleet: Fleet, *, cache: Path | None = None) -> None:
        canaries, evidence = (
            cache / kind if cache else user_cache(kind) for kind in ("canaries", "evidence")
        )
        self._guarded = GuardedGrading(fleet, cache=canaries)
        self._split = SplitGrading(fleet)
        self._evidence = EvidenceSearch(fleet, self._split, self._guarded, evidence)

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """The verdict on the text of a region.

        Raises:
            BoxDied: no box works.
        """
        unavailable = self._guarded.unavailable(challenge)
        if unavailable is not None:
            return unavailable
        if not self._evidence.of(challenge).splits:
            return self._guarded.grade(challenge, code, purpose)
        verdict = self._split.grade(challenge, code, purpose)
        if purpose == "feedback":
            return verdict
        official = self._guarded.in_process(challenge, code).official_pass
        return replace(verdict, official_pass=official)

    def decision(self, challenge: Challenge) -> Decision:
        """How a region is graded, and why; its suite must work here.

        Raises:
            BoxDied: no box works.
        """
        return self._evidence.of(challenge)

    def tests(self, challenge: Challenge) -> SuiteTests:
        """What is compared by the tests of a region's suite; its suite must work here.

        Raises:
            BoxDied: no box works.
        """
        return self._split.tests(challenge.paper)
