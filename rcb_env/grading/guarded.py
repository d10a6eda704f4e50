"""Guarded grading, for the public benchmark's folders: their suites import candidate and reference into one process.

The suite runs on the candidate in a box the agent never touches. A candidate passes when every test that passes on the
reference was reported as passed, once, by the object that ran it, and the process ended by itself. Since hostile code in
that process can patch a comparison, forge a report or call the reference, the suite also runs with **canaries**: faults
put into hidden code (the reference module, where there is one, else the suite), chosen because the suite reports them
as failures when the real solution stands in the region. A candidate whose suite does not report them has disabled the
suite, or takes its answers from the reference: `tampered`. For the final score the suite runs up to twenty times, in a secret order, as often with a canary as without: code that does not know
which run it is must guess all of them. Feedback is given without canaries: nobody can try out against it what they notice.

Canaries are searched for on first use and kept by content. Where none is found the verdict says so in a note.
Not covered: code that recognises a canary, for which it must know the hidden code; luck with the secret order; and an
agent that reads hidden code in the texts of its own errors, which feedback shows. The suites give feedback and the final
score the same inputs, so values seen during an episode could be hard-coded; isolated grading has no such hole.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rcb_env.caches import user_cache
from rcb_env.dataset.loading import SUITE
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import BoxDied
from rcb_env.grading.canaries import Canary, Fault, Search, hidden_modules
from rcb_env.grading.code import grading_code
from rcb_env.grading.isolated import (
    ended_its_box,
    exit_asked_for,
    how_it_ended,
    messages,
    read_error,
    run_of,
)
from rcb_env.grading.verdict import (
    OUT_OF_MEMORY,
    CaseResult,
    Outcome,
    Purpose,
    Status,
    Verdict,
    error_class,
    is_out_of_memory,
)
from rcb_env.runner import wire
from rcb_env.sandbox.box import RunResult
from rcb_env.sandbox.fleet import Fleet

UNAVAILABLE = "is not available here, its suite fails on the reference"  # in messages of verdicts
NO_CANARY = "no canary: no fault in hidden code makes this suite fail"  # a note of verdicts
_RUN = "rcb_env.runner.suite_run:run"
_PAIRS = (4, 10)  # true runs, and as many with a canary, for the final score: at least, at most
_PAIRS_S = 10.0  # what all of them together may take, before it is the fewest
_NOT_PASSED = ("failed", "error")
_OFFICIAL_WORDS = ("Error:", "Exception:", "Traceback", "failed")
_secret = random.SystemRandom()


@dataclass(frozen=True)
class _Report:
    """What one run of a suite said: outcome and error by test, and whether it came to its end."""

    outcomes: Mapping[str, str]
    errors: Mapping[str, Mapping[str, Any] | None]
    doubled: bool  # a test was reported twice
    done: bool
    imports: tuple[str, ...]

    def tests(self, outcome: str) -> frozenset[str]:
        """The tests that ended like this."""
        return frozenset(test for test, ended in self.outcomes.items() if ended == outcome)


class GuardedGrading:
    """Grades regions of papers in the public benchmark's layout. Thread-safe.

    Args:
        fleet: the boxes.
        cache: folder that remembers canaries; None: the user's.
    """

    def __init__(self, fleet: Fleet, *, cache: Path | None = None) -> None:
        self._fleet = fleet
        self._cache = cache or user_cache("canaries")
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._baselines: dict[str, _Report] = {}
        self._searches: dict[str, Search] = {}

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """The verdict on the text of a region; the suites have one set of inputs, whatever the purpose.

        Raises:
            BoxDied: no box works.
        """
        paper = challenge.paper
        baseline = self._baseline(challenge)
        if trouble := _trouble_with_reference(baseline):
            return Verdict("infra_error", message=f"{paper.id} {UNAVAILABLE}: {trouble}")
        tree = {**challenge.tree(code), **_data(paper)}
        hidden = hidden_modules(paper)
        expected = baseline.tests("passed")
        canaries = self._canaries_of(challenge) if purpose == "final" else ()
        verdict, noticed = Verdict("infra_error"), ""
        first = _secret.choice((None, _secret.choice(canaries))) if canaries else None
        rounds: list[Canary | None] = [first]
        begun = False
        while rounds:
            canary = rounds.pop()
            run = self._run_candidate(paper, tree, canary.fault.hidden if canary else hidden)
            if isinstance(run, BoxDied):
                return ended_its_box(run)
            if canary is not None:
                noticed = noticed or _silence(run, canary)
            else:
                verdict = _verdict(run, _report(run.result), expected)
                if not verdict.passed:
                    return verdict if purpose == "final" else _without_texts(verdict)
            if canaries and not begun:
                rounds, begun = _rounds(canaries, canary, run.wall_s), True
        if noticed:
            return replace(verdict, status="tampered", message=noticed, notes=(noticed,))
        if purpose == "feedback":
            return _without_texts(verdict)
        return verdict if canaries else replace(verdict, notes=(*verdict.notes, NO_CANARY))

    def _baseline(self, challenge: Challenge) -> _Report:
        """How the suite goes on the real solution."""
        paper = challenge.paper
        with self._only_one(f"baseline {paper.content_hash}") as key:
            if key in self._baselines:
                return self._baselines[key]
            report = self._reference_run(challenge, hidden_modules(paper))
            self._fleet.learn_imports(paper.id, report.imports)
            if report.done:  # else a slow machine may be to blame, and the next try may do better
                self._baselines[key] = report
            return report

    def _canaries_of(self, challenge: Challenge) -> tuple[Canary, ...]:
        def try_fault(fault: Fault) -> frozenset[str] | None:
            report = self._reference_run(challenge, fault.hidden)
            return report.tests("failed") if report.done else None

        paper = challenge.paper
        with self._only_one(f"canaries {paper.content_hash}") as key:
            if key not in self._searches:
                conditions = f"{grading_code()} {self._fleet.maker.digest(paper.image)}"
                self._searches[key] = Search(paper, conditions, self._cache)
            return self._searches[key].canaries(challenge, try_fault)

    def _only_one(self, key: str) -> _Exclusive:
        with self._lock:
            return _Exclusive(self._locks.setdefault(key, threading.Lock()), key)

    def _reference_run(self, challenge: Challenge, hidden: Mapping[str, bytes]) -> _Report:
        paper = challenge.paper
        tree = {**challenge.tree(), **_data(paper)}
        argument = _argument(hidden, hide=False)
        run = self._fleet.run_trusted(run_of(paper, _RUN, argument, tree, slack=2.0))
        return _report(run.result, trusted=True)

    def _run_candidate(
        self, paper: Paper, tree: Mapping[str, bytes], hidden: Mapping[str, bytes]
    ) -> RunResult | BoxDied:
        argument = _argument(hidden, hide=True)
        return self._fleet.run_candidate(run_of(paper, _RUN, argument, tree, words=_OFFICIAL_WORDS))


def _rounds(
    canaries: tuple[Canary, ...], first: Canary | None, run_s: float
) -> list[Canary | None]:
    """The runs after the first, in a secret order: as many true ones as ones with a canary.

    Code that cheats in some runs and not in others has to guess all of them. Quick suites run more often.
    """
    fewest, most = _PAIRS
    pairs = max(fewest, min(most, int(_PAIRS_S / (2 * run_s + 1e-9))))
    left: list[Canary | None] = [None] * pairs
    left += [_secret.choice(canaries) for _ in range(pairs)]
    left.remove(None if first is None else next(one for one in left if one is not None))
    _secret.shuffle(left)
    return left


def _without_texts(verdict: Verdict) -> Verdict:
    """A verdict for feedback: which tests pass and the kind of error, but no word the process chose.

    Code in the process can read the reference, so a text of its own choice could carry it out.
    """
    passed, planned = verdict.counts()
    cases = tuple(replace(case, message="", detail="") for case in verdict.cases)
    message = "" if verdict.passed else f"{planned - passed} of {planned} tests do not pass"
    return replace(verdict, cases=cases, message=message, stdout="", stderr="")


class _Exclusive:
    """A lock held while something is made once; yields the key it is made for."""

    def __init__(self, lock: threading.Lock, key: str) -> None:
        self._held, self._key = lock, key

    def __enter__(self) -> str:
        self._held.acquire()
        return self._key

    def __exit__(self, *_: object) -> None:
        self._held.release()


def _data(paper: Paper) -> dict[str, bytes]:
    return {path: data for path, data in paper.tests.items() if not path.endswith(".py")}


def _argument(hidden: Mapping[str, bytes], *, hide: bool) -> bytes:
    header = {"suite": SUITE, "paths": list(hidden), "hide": hide}
    return wire.pack(header, list(hidden.values()))


def _report(data: bytes, *, trusted: bool = False) -> _Report:
    outcomes: dict[str, str] = {}
    errors: dict[str, Mapping[str, Any] | None] = {}
    doubled = done = False
    imports: tuple[str, ...] = ()
    for header, _ in messages(data):
        if header.get("done") is True:
            done = True
            imports = tuple(header["imports"]) if trusted else ()
            continue
        test, outcome, error = header.get("test"), header.get("outcome"), header.get("error")
        if not isinstance(test, str) or outcome not in ("passed", "failed", "error", "skipped"):
            continue
        doubled = doubled or test in outcomes
        outcomes[test] = outcome
        errors[test] = read_error(error)
    return _Report(outcomes, errors, doubled, done, imports)


def _trouble_with_reference(report: _Report) -> str:
    for test, error in report.errors.items():
        if report.outcomes[test] in ("failed", "error"):
            told = f"{error['type']}: {error['message']}" if error else report.outcomes[test]
            return f"{test or SUITE}: {told}".split("\n")[0][:300]
    if not report.done:
        return "it does not come to its end"
    return "" if "passed" in report.outcomes.values() else "it holds no test"


def _verdict(run: RunResult, report: _Report, expected: frozenset[str]) -> Verdict:
    results = tuple(_case_result(test, report) for test in sorted(expected))
    errors = [error for error in report.errors.values() if error is not None]
    first = next((result for result in results if result.outcome != "passed"), None)
    message = "" if first is None else f"{first.case}: {first.message}"
    if "" in report.errors and errors:
        message = f"{errors[0]['type']}: {errors[0]['message']}"
    status: Status = "failed"
    kind: str | None = None
    notes: tuple[str, ...] = ()
    if run.ended == "timeout":
        status, message = "timeout", f"the tests did not end within {run.wall_s:.0f} s"
    elif run.ended == "memory" or any(map(is_out_of_memory, errors)):
        status, message = "out_of_memory", OUT_OF_MEMORY
    elif not report.done:
        kind = "other"
        message = f"the tests did not complete: their process ended with {how_it_ended(run)}"
    elif report.doubled or not frozenset(report.outcomes) <= expected | {""}:
        status, message = "tampered", "tests were reported twice, or tests that do not exist"
        notes = (message,)
    elif first is None and run.ended == "exit" and run.exit_code == 0:
        status = "passed"
    else:
        failed = "failed" in report.outcomes.values()
        kind = "logic" if failed or not errors else error_class(list(errors[0]["kinds"]))
        message = exit_asked_for(errors) or message
    return Verdict(
        status,
        cases=results,
        error_class=kind,
        message=message.split("\n")[0],
        notes=notes,
        stdout=run.stdout,
        stderr=run.stderr,
        timings={"run_s": run.wall_s},
        official_pass=run.ended == "exit" and run.exit_code == 0 and not run.words,
    )


def _silence(run: RunResult, canary: Canary) -> str:
    """What a suite that ran with a canary should have reported and did not, in words; empty when all is well."""
    report = _report(run.result)
    place = canary.fault.place
    if run.ended != "exit" or not report.done:
        return f"the suite does not come to its end when there is a known fault in {place}"
    silent = sorted(t for t in canary.caught_by if report.outcomes.get(t) not in _NOT_PASSED)
    return (
        f"the suite reports no failure for a known fault in {place}: {silent[0]}" if silent else ""
    )


def _case_result(test: str, report: _Report) -> CaseResult:
    outcomes: dict[str, Outcome] = {"passed": "passed", "failed": "failed", "error": "error"}
    outcome = outcomes.get(report.outcomes.get(test, ""), "not_run")
    error = report.errors.get(test)
    if error is None:
        told = "" if outcome == "passed" else "the suite did not report it as passed"
        return CaseResult(test, 0, outcome, told)
    where = "".join(f"\n  {frame}" for frame in error["frames"])
    return CaseResult(test, 0, outcome, f"{error['type']}: {error['message']}{where}")
