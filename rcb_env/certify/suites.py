"""`rcb check` for the public benchmark's folders: what somebody else's suites are worth, region by region.

Points looked at, per paper: whether its suite works here (it must pass on the reference); whether the reference passes
for every region; which regions still pass when nothing stands in them, as the agent `noop` leaves them, or only `pass`;
which regions' code stands elsewhere in what an agent sees; which regions are graded split, and why the others are
guarded (`grading/evidence.py`); which tests compare values, and which only flags; which guarded regions have no canary;
how long a warm test run takes.

Challenges of several regions are looked at in the same way.

Weak regions and leaks are findings about the data set, listed and counted, and not errors: the data set is what it is.
An error is only what would make a score wrong here: a reference that does not pass, or a grading that failed.
Guarantees: candidates are graded by the same `Grader` as in a run, and what is listed as passing when left empty is exactly
what `rcb run --agent noop` passes. Verdicts are kept by content; an unchanged paper is checked again in seconds.
Not covered: native papers (run.py), whose tests are ours and have to meet more.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rcb_env.certify import Problem, Progress, Verdicts, leaks
from rcb_env.certify.joint import passes
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.grading.grader import Grader
from rcb_env.grading.guarded import NO_CANARY, UNAVAILABLE
from rcb_env.grading.split import SuiteTests

Kind = Literal["empty", "pass", "leak", "guarded", "no_canary"]
WORDS: dict[Kind, str] = {
    "empty": "still passes when it is left empty",
    "pass": "still passes when it is replaced by `pass`",
    "leak": "has its code where an agent can read it",
    "guarded": "is graded guarded",
    "no_canary": "has no canary: a suite disabled by a candidate would not be noticed",
}


@dataclass(frozen=True)
class Finding:
    """Something an evaluation should know about a region.

    Attributes:
        lines: lines of code of the region.
        where: file and line of its start tag.
    """

    kind: Kind
    challenge: str
    lines: int
    where: Problem


@dataclass(frozen=True)
class SuiteReport:
    """What `survey` found.

    Attributes:
        unavailable: why the paper cannot be graded here; "": it can.
        passed: challenges for which the reference passes.
        split: challenges that are graded split.
        split_tests: tests that compare values when the suite is split.
        weak_tests: tests that compare flags, types and expected exceptions only, or nothing.
        unseeded: whether the suite seeds no generator, so that it is seeded by us.
        problems: what would make scores wrong here.
        warm_test_s: median time of one test run in a warm box, seconds; None if nothing ran.
    """

    paper: str
    challenges: int
    unavailable: str = ""
    passed: int = 0
    split: int = 0
    split_tests: tuple[str, ...] = ()
    weak_tests: tuple[str, ...] = ()
    unseeded: bool = False
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    warm_test_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether scores on this paper can be right here; findings do not matter, nor does an absent paper."""
        return not self.problems

    def of_kind(self, kind: Kind) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)


def survey(
    paper: Paper,
    grader: Grader,
    *,
    progress: Progress | None = None,
    cache: Path | None = None,
    workers: int = 1,
) -> SuiteReport:
    """Look at the suite of a paper in the public layout.

    Args:
        paper: the paper.
        grader: what judges; must not be closed before this returns.
        progress: is told what is going on; called from this thread only.
        cache: folder to keep verdicts in; None: nothing is kept.
        workers: how many candidates are graded at once; the grader's own number of workers.

    Raises:
        SandboxUnavailable: code cannot be run here at all.
        BoxDied: no box works any more.
    """
    judged = _Judged(grader, Verdicts(cache, paper), workers, progress or (lambda *_: None))
    challenges = paper.challenges
    first = judged.look("reference", challenges[:1], lambda one: one.reference)[0]
    if first.status == "infra_error" and UNAVAILABLE in first.message:
        why = first.message.partition(UNAVAILABLE)[2].lstrip(": ")
        return SuiteReport(paper.id, len(challenges), unavailable=why)
    references = judged.look("reference", challenges, lambda one: one.reference)
    empty = judged.look("left empty", challenges, _left_empty)
    passing = judged.look("replaced by pass", challenges, passes)
    whys = {one.id: judged.why_guarded(one) for one in challenges}
    tests = judged.tests(challenges[0])
    problems: list[Problem] = []
    findings: list[Finding] = []
    for one, reference, left_empty, only_pass in zip(
        challenges, references, empty, passing, strict=True
    ):
        problems += _troubles(one, reference, left_empty, only_pass)
        kinds: dict[Kind, bool] = {
            "empty": left_empty.status == "passed",
            "pass": only_pass.status == "passed",
            "leak": bool(leaks(one)),
            "guarded": bool(whys[one.id]),
            "no_canary": NO_CANARY in reference.notes,
        }
        for kind in (kind for kind, found in kinds.items() if found):
            told = f"{one.id} {WORDS[kind]}"
            told += f": {whys[one.id]}" if kind == "guarded" else ""
            findings.append(Finding(kind, one.id, one.lines, _place(one, told)))
    times = [seen.run_s for seen in references if seen.run_s]
    return SuiteReport(
        paper=paper.id,
        challenges=len(challenges),
        passed=sum(seen.status == "passed" for seen in references),
        split=sum(not why for why in whys.values()),
        split_tests=() if tests.trouble else tests.strong,
        weak_tests=() if tests.trouble else tests.weak,
        unseeded=not tests.seeds,
        problems=tuple(problems),
        findings=tuple(findings),
        warm_test_s=statistics.median(times) if times else None,
    )


@dataclass(frozen=True)
class _Seen:
    """What is kept of a verdict."""

    status: str
    message: str
    notes: tuple[str, ...]
    run_s: float


def _troubles(
    one: Challenge, reference: _Seen, left_empty: _Seen, only_pass: _Seen
) -> Iterator[Problem]:
    """What could not be graded, and a reference that does not pass."""
    tried = (("the reference", reference), ("it left empty", left_empty), ("`pass`", only_pass))
    for what, seen in tried:
        if seen.status == "infra_error":
            told = f"{one.id}: {what} could not be graded, check it again: {seen.message}"
            yield _place(one, told)
    if reference.status not in ("passed", "infra_error"):
        told = f"{one.id}: the reference does not pass: {reference.status}: {reference.message}"
        yield _place(one, told)


class _Judged:
    """Verdicts, new or remembered."""

    def __init__(
        self, grader: Grader, verdicts: Verdicts, workers: int, progress: Progress
    ) -> None:
        self._grader = grader
        self._verdicts = verdicts
        self._workers = workers
        self._progress = progress

    def look(
        self, doing: str, challenges: Sequence[Challenge], code_of: Callable[[Challenge], str]
    ) -> list[_Seen]:
        """The verdicts on one candidate for each of these regions."""
        pool = ThreadPoolExecutor(max_workers=self._workers)
        found: list[_Seen] = []
        try:
            for seen in pool.map(lambda one: self._judge(one, code_of(one)), challenges):
                found.append(seen)
                self._progress(doing, len(found), len(challenges))
        finally:
            pool.shutdown(cancel_futures=True)
        return found

    def why_guarded(self, challenge: Challenge) -> str:
        """Why a region is not graded split; or ""."""
        told = self._told(challenge, "why guarded", lambda: self._grader.decision(challenge).why)
        return str(told)

    def tests(self, challenge: Challenge) -> SuiteTests:
        """What the tests of a region's suite compare."""
        told = self._told(
            challenge,
            "what the tests compare",
            lambda: dataclasses.asdict(self._grader.suite_tests(challenge)),
        )
        strong, weak = tuple(told["strong"]), tuple(told["weak"])
        return SuiteTests(told["trouble"], strong, weak, seeds=told["seeds"])

    def _told(self, challenge: Challenge, what: str, find_out: Callable[[], Any]) -> Any:
        """What the grader says, new or remembered; a dead box is a trouble of now and is not kept."""
        key = self._verdicts.key(challenge, "", what, challenge.id)
        stored = self._verdicts.get(key)
        if stored is None:
            stored = json.dumps(find_out())
            self._verdicts.put(key, stored)
        return json.loads(stored)

    def _judge(self, challenge: Challenge, code: str) -> _Seen:
        key = self._verdicts.key(challenge, code, challenge.id)
        stored = self._verdicts.get(key)
        if stored is not None:
            data = json.loads(stored)
            return _Seen(data["status"], data["message"], tuple(data["notes"]), data["run_s"])
        verdict = self._grader.grade(challenge, code, final=True)
        run_s = round(verdict.timings.get("run_s", 0.0), 6)
        seen = _Seen(verdict.status, verdict.message, verdict.notes, run_s)
        if seen.status != "infra_error":
            self._verdicts.put(key, json.dumps(dataclasses.asdict(seen)))
        return seen


def _left_empty(challenge: Challenge) -> str:
    """What `noop` hands in."""
    return challenge.masked().placeholder if challenge.holes is None else ""


def _place(challenge: Challenge, message: str) -> Problem:
    path = str(challenge.paper.root / challenge.file)
    return Problem(path, challenge.region.start + 1, message)
