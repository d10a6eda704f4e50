"""Grades regions of papers in the public benchmark's layout: split where a suite can be split, else guarded.

Which it is depends on the region alone and not on the candidate (`evidence.py`), and the verdict says it. Where it is asked
for, a final verdict has the public benchmark's own beside it (`official.py`).
"""

from __future__ import annotations

from pathlib import Path

from rcb_env.caches import user_cache
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.evidence import Decision, EvidenceSearch
from rcb_env.grading.guarded import GuardedGrading
from rcb_env.grading.official import with_official
from rcb_env.grading.split import SplitGrading, SuiteTests
from rcb_env.grading.verdict import Purpose, Verdict
from rcb_env.sandbox.fleet import Fleet


class PublicGrading:
    """Grades regions of papers in the public benchmark's layout. Thread-safe.

    Args:
        fleet: the boxes.
        cache: folder that remembers canaries and what splits; None: the user's.
        official: whether final verdicts have the public benchmark's own beside them.
    """

    def __init__(self, fleet: Fleet, *, cache: Path | None = None, official: bool = False) -> None:
        self._fleet = fleet
        self._official = official
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
        splits = self._evidence.of(challenge).splits
        verdict = (self._split if splits else self._guarded).grade(challenge, code, purpose)
        if not self._official or purpose == "feedback" or verdict.status == "infra_error":
            return verdict
        return with_official(self._fleet, challenge, code, verdict)

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
