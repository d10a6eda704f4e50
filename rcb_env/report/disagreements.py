"""The same code with two verdicts: where two runs judged equal answers, and did not agree.

This is how a run that was graded again stands against what it was, and stored results of the public harness against our
grading of the same completions. Runs of two models have equal answers too; there it tells of tests that are not steady.

Guarantees: every pair of equal, graded answers with different states is listed once, with what each side says of its own.
Not covered: answers that differ; what has no verdict in a run at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcb_env.report.scoring import OPEN_STATES, PASSED

INFRASTRUCTURE = "could not be graded"
TIME = "time"
MEMORY = "memory"
INTEGRITY = "tampering"
OUTPUT = "a word in the output"
TESTS = "tests"
_BY_STATE = {"timeout": TIME, "out_of_memory": MEMORY, "tampered": INTEGRITY}


@dataclass(frozen=True)
class Judged:
    """What a comparison needs of one graded answer."""

    status: str
    code_hash: str
    message: str
    by_output: bool
    """Whether the public rule failed it for what it printed, though its exit code was 0."""

    @classmethod
    def of(cls, episode: Mapping[str, Any]) -> Judged:
        """Of a stored episode."""
        verdict = episode.get("verdict") or {}
        said = str(verdict.get("message") or episode.get("error") or "")
        return cls(
            status=str(episode.get("status")),
            code_hash=str(episode.get("code_hash") or ""),
            message=said.splitlines()[0][:300] if said.strip() else "",
            by_output=said.startswith("exit code 0,"),
        )


@dataclass(frozen=True)
class Disagreement:
    """One answer with two verdicts."""

    challenge: str
    sample: int
    a: str
    """State in run A."""
    b: str
    cause: str
    """What kind of cause it is, one of the words above."""
    told: str
    """What the two runs say of it."""


def disagreements(
    a: Mapping[tuple[str, int], Judged], b: Mapping[tuple[str, int], Judged]
) -> tuple[Disagreement, ...]:
    """Equal answers of two runs with different states.

    Args:
        a: of one run, by challenge and sample.
        b: of the other.
    """
    found = []
    for (challenge, sample), first in a.items():
        second = b.get((challenge, sample))
        if second is None or not first.code_hash or first.code_hash != second.code_hash:
            continue
        if first.status != second.status:
            found.append(
                Disagreement(
                    challenge,
                    sample,
                    first.status,
                    second.status,
                    _cause(first, second),
                    f"A: {_told(first)}; B: {_told(second)}",
                )
            )
    return tuple(found)


def counts(found: tuple[Disagreement, ...]) -> dict[str, int]:
    """How many of them have which cause, the most frequent first."""
    return dict(Counter(one.cause for one in found).most_common())


def _cause(a: Judged, b: Judged) -> str:
    if a.status in OPEN_STATES or b.status in OPEN_STATES:
        return INFRASTRUCTURE
    if a.by_output or b.by_output:
        return OUTPUT
    failed = next((one for one in (b, a) if one.status in _BY_STATE), None)
    return _BY_STATE[failed.status] if failed else TESTS


def _told(one: Judged) -> str:
    if one.status == PASSED:
        return PASSED
    return one.message or one.status
