"""Guarded grading, for public suites that cannot be split: candidate and reference are in one process.

The suite runs on the candidate in a box the agent never touches. A candidate passes when every test that passes on the
reference was reported as passed, once, by the object that ran it, and the process ended by itself. Since hostile code in
that process can patch a comparison, forge a report or call the reference, the suite also runs with **canaries**: faults
put into hidden code (the reference module, where there is one, else the suite), chosen because the suite reports them
as failures when the real solution stands in the region. A candidate whose suite does not report them has disabled the
suite, or takes its answers from the reference: `tampered`. For the final score the suite runs up to twenty times, in a
secret order, as often with a canary as without, and with each canary of each region: code that does not know which run it is must guess all of
them. Feedback
is given without canaries: nobody can try out against it what they notice.

Hidden code has another form in every run (`disguise.py`), and only code is there, no text. A run with a canary that ends
by a limit is run again with more time; it is never evidence of tampering. Code that looks around is put on record.
Canaries are searched for on first use and kept by content. Where none is found the verdict says so in a note.
Not covered: code that finds out what hidden code does; luck with the secret order. The suites give feedback and the final
score the same inputs, so values seen during an episode could be hard-coded; the other ways of grading have no such hole.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rcb_env.caches import user_cache
from rcb_env.dataset.joint import regions_of
from rcb_env.dataset.loading import SUITE
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import BoxDied
from rcb_env.grading.canaries import Canary, Search
from rcb_env.grading.code import grading_code
from rcb_env.grading.disguise import disguise
from rcb_env.grading.faults import Fault, hidden_modules, mover
from rcb_env.grading.isolated import messages, run_of
from rcb_env.grading.looks import looks_around
from rcb_env.grading.outcome import Told, conclude, ended_its_box
from rcb_env.grading.reports import Report, read_report
from rcb_env.grading.verdict import Purpose, Verdict
from rcb_env.runner import wire
from rcb_env.sandbox.box import RunResult
from rcb_env.sandbox.fleet import Fleet

UNAVAILABLE = "is not available here, its suite fails on the reference"  # in messages of verdicts
NO_CANARY = "no canary: no fault in hidden code makes this suite fail"  # a note of verdicts
_RUN = "rcb_env.runner.suite_run:run"
_COMPILE = "rcb_env.runner.case_run:compiled"
_AT_ONCE = 4  # disguises that are compiled together
_MORE_TIME = 3.0  # for a canary's run that ended by a limit
_PAIRS = (4, 10)  # true runs, and as many with a canary, for the final score: at least, at most
_PAIRS_S = 10.0  # what all of them together may take, before it is the fewest
_NOT_PASSED = ("failed", "error")
_secret = random.SystemRandom()


class _NotPython(Exception):
    """A hidden module is no Python; the text says why."""


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
        self._baselines: dict[str, Report] = {}
        self._searches: dict[str, Search] = {}
        self._disguises: dict[str, list[dict[str, bytes]]] = {}

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """The verdict on the text of a region; the suites have one set of inputs, whatever the purpose.

        Raises:
            BoxDied: no box works.
        """
        unavailable = self.unavailable(challenge)
        if unavailable is not None:
            return unavailable
        baseline = self._baseline(challenge)
        canaries = self._canaries_of(challenge) if purpose == "final" else ()
        looked = looks_around(challenge, code)
        verdict = self._runs(challenge, code, baseline, canaries)
        if purpose == "feedback":
            verdict = _without_texts(verdict)
        elif not canaries and verdict.passed:
            verdict = replace(verdict, notes=(*verdict.notes, NO_CANARY))
        notes = (*verdict.notes, looked) if looked else verdict.notes
        return replace(verdict, notes=notes, evidence="guarded")

    def unavailable(self, challenge: Challenge) -> Verdict | None:
        """The verdict on every candidate where the suite fails on the reference; None where it works.

        Raises:
            BoxDied: no box works.
        """
        trouble = self._baseline(challenge).trouble_with_reference()
        message = f"{challenge.paper.id} {UNAVAILABLE}: {trouble}"
        return Verdict("infra_error", message=message) if trouble else None

    def in_process(self, challenge: Challenge, code: str, *, slack: float = 1.0) -> Verdict:
        """What one run of the suite says, without canaries; `slack` stretches its time.

        Raises:
            BoxDied: no box works.
        """
        run = self._run_candidate(challenge, code, None, slack)
        if isinstance(run, BoxDied):
            return replace(ended_its_box(run), evidence="guarded")
        return replace(
            _verdict(run, read_report(run.result), self._baseline(challenge)), evidence="guarded"
        )

    def _runs(
        self, challenge: Challenge, code: str, baseline: Report, canaries: tuple[Canary, ...]
    ) -> Verdict:
        """The verdict of the last true run, or of the first that does not pass; tampered if a canary was not reported."""
        verdict, noticed = Verdict("infra_error"), ""
        first = _secret.choice((None, _secret.choice(canaries))) if canaries else None
        rounds: list[Canary | None] = [first]
        begun = False
        while rounds:
            canary = rounds.pop()
            run = self._run_candidate(challenge, code, canary)
            if canary is not None and not isinstance(run, BoxDied) and run.ended != "exit":
                run = self._run_candidate(challenge, code, canary, _MORE_TIME)
            if isinstance(run, BoxDied):
                return ended_its_box(run)
            report = read_report(run.result)
            if canary is None or run.ended != "exit":
                verdict = _verdict(run, report, baseline)
                if not verdict.passed:
                    return verdict
            else:
                noticed = noticed or _silence(report, canary)
            if canaries and not begun:
                rounds, begun = _rounds(canaries, canary, run.wall_s), True
        if noticed:
            return replace(verdict, status="tampered", message=noticed, notes=(noticed,))
        return verdict

    def _baseline(self, challenge: Challenge) -> Report:
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
            search = self._searches[key]
            found = (
                one for each in regions_of(challenge) for one in search.canaries(each, try_fault)
            )
            return tuple({canary.fault.key: canary for canary in found}.values())

    def _only_one(self, key: str) -> _Exclusive:
        with self._lock:
            return _Exclusive(self._locks.setdefault(key, threading.Lock()), key)

    def _reference_run(self, challenge: Challenge, hidden: Mapping[str, bytes]) -> Report:
        paper = challenge.paper
        tree = {**challenge.tree(), **_data(paper)}
        try:
            argument = _argument(self._compiled(paper, [hidden])[0], hide=False)
        except _NotPython as error:
            described = {"type": "SyntaxError", "message": str(error), "frames": [], "kinds": []}
            return Report({"": "error"}, {"": described}, done=True)
        run = self._fleet.run_trusted(run_of(paper, _RUN, argument, tree, slack=2.0))
        return read_report(run.result, trusted=True)

    def _run_candidate(
        self, challenge: Challenge, code: str, canary: Canary | None, slack: float = 1.0
    ) -> RunResult | BoxDied:
        paper = challenge.paper
        argument = _argument(self._disguised(paper, canary), hide=True)
        tree = {**challenge.tree(code), **_data(paper)}
        return self._fleet.run_candidate(run_of(paper, _RUN, argument, tree, slack=slack))

    def _disguised(self, paper: Paper, canary: Canary | None) -> dict[str, bytes]:
        """The compiled hidden modules, with a canary or without, in a form that no run had before."""
        key = f"{paper.content_hash} {canary.fault.key if canary else ''}"
        with self._lock:
            ready = self._disguises.setdefault(key, [])
            if ready:
                return ready.pop()
        hidden = canary.fault.hidden if canary else hidden_modules(paper)
        made = [disguise(hidden, mover(), _secret) for _ in range(_AT_ONCE)]
        compiled = self._compiled(paper, made)
        with self._lock:
            self._disguises[key] += compiled[1:]
        return compiled[0]

    def _compiled(
        self, paper: Paper, sources: Sequence[Mapping[str, bytes | str]]
    ) -> list[dict[str, bytes]]:
        """Hidden modules as code, compiled where no candidate ever is."""
        texts = {
            f"{number} {path}": text if isinstance(text, str) else text.decode("utf-8", "replace")
            for number, each in enumerate(sources)
            for path, text in each.items()
        }
        argument = wire.pack({"sources": texts})
        run = self._fleet.run_trusted(run_of(paper, _COMPILE, argument, slack=2.0))
        message = next(messages(run.result), None)
        if message is None:
            raise _NotPython((run.stderr.strip() or "it cannot be compiled").splitlines()[-1])
        blobs = iter(message[1])
        return [{path: next(blobs) for path in each} for each in sources]


def _rounds(
    canaries: tuple[Canary, ...], first: Canary | None, run_s: float
) -> list[Canary | None]:
    """The runs after the first, in a secret order: each canary, and at least as many of them as true ones.

    Code that cheats in some runs and not in others has to guess all of them. Quick suites run more often.
    """
    fewest, most = _PAIRS
    pairs = max(fewest, min(most, int(_PAIRS_S / (2 * run_s + 1e-9))))
    left: list[Canary | None] = [None] * pairs
    left += canaries
    left += [_secret.choice(canaries) for _ in range(pairs - len(canaries))]
    left.remove(first)
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


def _argument(code: Mapping[str, bytes], *, hide: bool) -> bytes:
    header = {"suite": SUITE, "paths": list(code), "hide": hide}
    return wire.pack(header, list(code.values()))


def _verdict(run: RunResult, report: Report, baseline: Report) -> Verdict:
    told = Told(
        tuple(report.result(test) for test in sorted(baseline.tests("passed"))),
        report.all_errors(),
        done=report.done,
        complete=report.done and run.exit_code == 0,
        forged=report.forged(baseline),
        message=report.why_not_imported(),
    )
    return conclude(run, told, {"run_s": run.wall_s})


def _silence(report: Report, canary: Canary) -> str:
    """What a suite that ran with a canary should have reported and did not, in words; empty when all is well."""
    place = canary.fault.place
    if not report.done:
        return f"the suite does not come to its end when there is a known fault in {place}"
    silent = sorted(t for t in canary.caught_by if report.outcomes.get(t) not in _NOT_PASSED)
    return (
        f"the suite reports no failure for a known fault in {place}: {silent[0]}" if silent else ""
    )
