"""Grading of open challenges: how much better than the paper's own method?

Each hidden problem is one run in the judge's box, which holds the problem, its oracles, their counters and the metric, and
one in a candidate's box, which holds the submission; this module hands what one says to the other. Each problem starts from
fresh processes, so nothing goes from one to the next. The paper's own method and the baseline are measured in the same way,
once, and kept by content. A submission's box holds submissions only, these two among them: they are not what is hidden.

The score is the mean over all problems of ``log(paper / cost)``, or of ``paper - cost`` where a judge says so, with its
standard error over problems: 0 is the paper's own method, more is better. One aggregate, whatever families of problems
there are, each problem with the same weight. Passed is whose score plus the allowance for noise is at least 0; the allowance
is two standard errors, and at most a tenth of the baseline's distance, so that a wild method does not pass by its own
noise. An answer that fails on one problem has failed, and has no score.
Feedback and the final score use other problems: seeds come from the hidden judge.py, the purpose, and the index.
Not covered: whether a challenge is any good (`rcb_env.certify.open`); what a failure is worth (`Score.counted`).
"""

from __future__ import annotations

import hashlib
import math
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import BoxDied
from rcb_env.grading.causes import error_class
from rcb_env.grading.exchange import Judge, JudgeDied, exchange, last_word
from rcb_env.grading.isolated import messages, run_of
from rcb_env.grading.outcome import Told, conclude, ended_its_box
from rcb_env.grading.verdict import CaseResult, Purpose, Score, Verdict, tidy
from rcb_env.runner import wire
from rcb_env.sandbox.box import RunResult, Talk
from rcb_env.sandbox.fleet import Fleet

JUDGE = "judge.py"
BASELINE = "witnesses/baseline.py"
_COMPILE = "rcb_env.runner.case_run:compiled"
_FAMILIES = "rcb_env.runner.open_run:families"
_PLAY, _JUDGE = "rcb_env.runner.open_run:play", "rcb_env.runner.open_run:judge"
_SLACK = 10.0  # how much more time the judge has than a submission
_WALL = 3.0  # seconds for each of processor time that a submission may use: machines are busy
_FAR = 0.1  # of the baseline's distance: the most that noise may excuse


@dataclass(frozen=True)
class _Problem:
    family: str
    kind: str
    index: int
    seed: int


@dataclass(frozen=True)
class _Measured:
    """What one problem came to: a cost, or a verdict on why there is none."""

    cost: float = math.nan
    used: tuple[int, ...] = ()
    failed: Verdict | None = None
    run_s: float = 0.0
    judge_s: float = 0.0
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True)
class _Known:
    """What the paper's own method and the baseline cost, problem by problem."""

    problems: tuple[_Problem, ...]
    paper: tuple[float, ...]
    baseline: float
    """The baseline's score."""


class JudgeFailed(Exception):
    """The judge, its box or what stands in judge.py failed; says how, and whether somebody outside did it."""

    def __init__(self, message: str, *, from_outside: bool = False) -> None:
        super().__init__(message)
        self.from_outside = from_outside


class MeasuredGrading:
    """Grades open challenges in the boxes of a fleet. Thread-safe."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._known: dict[tuple[str, str], _Known] = {}
        self._judges: dict[str, tuple[bytes, tuple[Mapping[str, Any], ...]]] = {}
        self._making: dict[tuple[str, str], threading.Lock] = {}
        self._lock = threading.Lock()

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """The verdict on the text of the region.

        Raises:
            BoxDied: no box works.
        """
        try:
            known = self._reference(challenge, purpose)
            return self._grade(challenge, code, known)
        except JudgeFailed as error:
            return Verdict("infra_error", message=f"the judge of {challenge.id} failed: {error}")

    def _grade(self, challenge: Challenge, code: str, known: _Known) -> Verdict:
        found: list[_Measured] = []
        for problem in known.problems:
            found.append(self._measure(challenge, code, problem))
            if found[-1].failed is not None:
                break
        timings = {
            "run_s": sum(one.run_s for one in found),
            "judge_s": sum(one.judge_s for one in found),
        }
        failed = found[-1].failed
        if failed is not None:
            results = [
                CaseResult(one.family, one.index, "not_run", "an earlier problem failed")
                for one in known.problems
            ]
            at = len(found) - 1
            measured = zip(known.problems[:at], found, known.paper, strict=False)
            results[:at] = [_result(*each) for each in measured]
            results[at] = replace(failed.cases[0], seed=known.problems[at].index)
            return replace(
                failed,
                cases=tuple(results),
                timings=timings,
                evidence="isolated",
                score=Score(None, None, known.baseline),
            )
        score = score_of(known, [one.cost for one in found])
        return Verdict(
            "passed" if score.passes else "failed",
            cases=tuple(map(_result, known.problems, found, known.paper)),
            error_class=None if score.passes else "value",
            message=score.words,
            stdout=found[0].stdout,
            stderr=found[0].stderr,
            timings=timings,
            evidence="isolated",
            score=score,
        )

    def no_change(self, challenge: Challenge, purpose: Purpose) -> Verdict:
        """The verdict on a region without code."""
        message = "the region holds no code"
        try:
            known = self._reference(challenge, purpose)
        except JudgeFailed:
            return Verdict("no_change", message=message)
        return Verdict("no_change", message=message, score=Score(None, None, known.baseline))

    def _reference(self, challenge: Challenge, purpose: Purpose) -> _Known:
        """What the paper's own method and the baseline cost, found out once.

        Raises:
            JudgeFailed: that cannot be found out.
        """
        paper, key = challenge.paper, (challenge.content_hash, purpose)
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            if key not in self._known:
                problems = self._problems(paper, purpose)
                costs = {
                    name: self._costs(challenge, code, problems, name)
                    for name, code in (
                        ("the paper's own method", challenge.reference),
                        ("the baseline", _decode(paper.tests[BASELINE])),
                    )
                }
                own, baseline = costs.values()
                known = _Known(problems, own, math.nan)
                there = score_of(known, baseline).value
                assert there is not None  # it has a cost for every problem
                self._known[key] = replace(known, baseline=there)
            return self._known[key]

    def _costs(
        self, challenge: Challenge, code: str, problems: Sequence[_Problem], name: str
    ) -> tuple[float, ...]:
        costs = []
        for problem in problems:
            found = self._measure(challenge, code, problem, trusted=True)
            if found.failed is not None:
                raise JudgeFailed(f"{name} fails on {problem.family}: {found.failed.message}")
            costs.append(found.cost)
        return tuple(costs)

    def _problems(self, paper: Paper, purpose: Purpose) -> tuple[_Problem, ...]:
        _, families = self._judge_of(paper)
        secret = hashlib.sha256(paper.tests[JUDGE]).hexdigest()
        found = []
        for family in families:
            for index in range(family[purpose]):
                text = f"{secret}|{purpose}|{family['name']}|{index}".encode()
                seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1
                found.append(_Problem(family["name"], family["kind"], index, seed))
        if not found:
            raise JudgeFailed("judge.py has no @problems")
        # In an order that nobody can count on who sees how many runs its box has had.
        return tuple(sorted(found, key=lambda one: one.seed))

    def _judge_of(self, paper: Paper) -> tuple[bytes, tuple[Mapping[str, Any], ...]]:
        """The compiled judge.py and its families of problems."""
        with self._lock:
            if paper.content_hash in self._judges:
                return self._judges[paper.content_hash]
        source = wire.pack({"sources": {JUDGE: _decode(paper.tests[JUDGE])}})
        _, (code,) = self._trusted(paper, _COMPILE, source)
        header, _ = self._trusted(paper, _FAMILIES, wire.pack({}, [code]))
        with self._lock:
            made = (code, tuple(header["families"]))
            return self._judges.setdefault(paper.content_hash, made)

    def _trusted(self, paper: Paper, entry: str, argument: bytes) -> wire.Message:
        run = self._fleet.run_trusted(run_of(paper, entry, argument, slack=_SLACK))
        said = next(messages(run.result), None)
        if said is None:
            raise JudgeFailed(_last_words(run))
        return said

    def _measure(
        self, challenge: Challenge, code: str, problem: _Problem, *, trusted: bool = False
    ) -> _Measured:
        """Put one problem to a submission; whatever dies is tried once more.

        What fails twice, box or judge, is the submission's doing where the paper's own method is measured all the same.

        Raises:
            JudgeFailed: the judge failed twice, and not because of what a submission said.
            BoxDied: no box works.
        """
        paper, files = challenge.paper, challenge.tree(code)
        failures: list[BoxDied | JudgeFailed] = []
        for again in (False, True):
            try:
                return self._put(paper, files, problem, trusted=trusted, fresh=again)
            except (BoxDied, JudgeFailed) as error:
                failures.append(error)
        deaths = [one for one in failures if isinstance(one, BoxDied)]
        outside = any(one.from_outside for one in failures)
        if trusted or outside or not all(one.during_run for one in deaths):
            raise failures[-1]
        own = challenge.tree(challenge.reference)
        if self._put(paper, own, problem, trusted=True, fresh=True).failed is not None:
            raise failures[-1]
        if len(deaths) == len(failures):
            failed = ended_its_box(deaths[-1])
        else:
            message = "the judge came to no end with what it said, twice"
            failed = Verdict("failed", error_class="other", message=message)
        return _Measured(failed=replace(failed, cases=(_failing(problem, failed.message),)))

    def _put(
        self,
        paper: Paper,
        files: Mapping[str, bytes],
        problem: _Problem,
        *,
        trusted: bool,
        fresh: bool,
    ) -> _Measured:
        code, _ = self._judge_of(paper)
        argument = wire.pack({"family": problem.family, "seed": problem.seed}, [code])
        judging = run_of(paper, _JUDGE, argument, slack=_SLACK)
        limit_s = paper.time_limit_s
        playing = run_of(paper, _PLAY, wire.pack({}), files, slack=_WALL, cpu_s=limit_s)
        # The judge's box first, everywhere: two gradings never wait for each other's.
        with (
            self._fleet.box_for("judge", judging, fresh=fresh) as (judge_box, judge_zygote),
            self._fleet.box_for("candidate", playing, fresh=fresh) as (box, zygote),
            box.talk(zygote, playing) as submission,
        ):
            try:
                with judge_box.talk(judge_zygote, judging) as judge:
                    return self._converse(paper, problem, judge, submission, trusted=trusted)
            except JudgeDied as death:
                raise JudgeFailed(str(death), from_outside=death.from_outside) from None

    def _converse(
        self, paper: Paper, problem: _Problem, judge: Talk, submission: Talk, *, trusted: bool
    ) -> _Measured:
        """Hand what one says to the other, and say what came of it."""
        started = time.monotonic()
        end = exchange(Judge(judge), submission)
        if trusted and end.imports:
            self._fleet.learn_imports(paper.id, end.imports)
        judge_run = end.judge_run or last_word(Judge(judge))
        run = end.run or last_word(submission)
        judge_s = max(0.0, time.monotonic() - started - run.wall_s)
        refused, message = end.refused, ""
        if end.judge_run is not None:
            # A judge that fails on a problem which the paper's own method has solved fails because of what it was given.
            if trusted or judge_run.ended != "exit":
                raise JudgeFailed(_last_words(judge_run))
            refused = "the result cannot be measured"
        if end.cost is not None:
            return _Measured(
                end.cost,
                end.used,
                run_s=run.wall_s,
                judge_s=judge_s,
                stdout=run.stdout,
                stderr=run.stderr,
            )
        if end.raised is not None:
            where = "".join(f"\n  {frame}" for frame in end.raised["frames"])
            message = f"{end.raised['type']}: {end.raised['message']}{where}"
        message = message or refused or "its process ended before it returned"
        kind = "value" if refused else None if end.raised is None else error_class(end.raised)
        result = replace(_failing(problem, message), error_class=kind)
        errors = [] if end.raised is None else [end.raised]
        told = Told((result,), errors, done=end.run is None)
        if end.run is None:  # one that was told the last word has not ended by a limit
            run = replace(run, ended="exit", exit_code=0)
        failed = conclude(run, told, {})
        if failed.status == "timeout":
            limit_s = paper.time_limit_s
            told_s = f"{limit_s:g} s of processor time, and {limit_s * _WALL:g} s in all"
            failed = replace(failed, message=f"it did not return within its limit of {told_s}")
        return _Measured(failed=failed, run_s=run.wall_s, judge_s=judge_s)


def score_of(known: _Known, costs: Sequence[float]) -> Score:
    """The score of these costs."""
    terms = [
        math.log(own / cost) if problem.kind == "ratio" else own - cost
        for problem, own, cost in zip(known.problems, known.paper, costs, strict=True)
    ]
    se = statistics.stdev(terms) / math.sqrt(len(terms)) if len(terms) > 1 else 0.0
    families: dict[str, list[float]] = {}
    for problem, term in zip(known.problems, terms, strict=True):
        families.setdefault(problem.family, []).append(term)
    return Score(
        statistics.fmean(terms), se, known.baseline, {k: tuple(v) for k, v in families.items()}
    )


def _result(problem: _Problem, found: _Measured, own: float) -> CaseResult:
    term = math.log(own / found.cost) if problem.kind == "ratio" else own - found.cost
    used = f", {sum(found.used)} oracle point(s) used" if found.used else ""
    told = f"cost {found.cost:.4g}, the paper's {own:.4g}: {term:+.4f}{used}"
    return CaseResult(problem.family, problem.index, "passed" if term >= 0 else "failed", told)


def _failing(problem: _Problem, message: str) -> CaseResult:
    return CaseResult(problem.family, problem.index, "error", message)


def _last_words(run: RunResult) -> str:
    if run.ended != "exit":
        return f"ended by its limit of {run.ended}"
    return tidy((run.stderr.strip() or f"exit code {run.exit_code}").splitlines()[-1], 300)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
