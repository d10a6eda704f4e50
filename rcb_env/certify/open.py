"""`rcb check --scope open`: is an open challenge one that tells good answers from others?

Its folder keeps answers as witnesses, each the text of the region: ``baseline.py``, ``first_idea.py`` (what comes to mind
first), at least one ``null*.py`` (what does not try), and at least two others, the alternatives. Measured on the problems of the score:

- the paper's own method has exactly 0, again and again, also in feedback: same seeds, same score;
- the baseline lies at least 5 standard errors below it;
- at least two alternatives lie at least 3 standard errors above it;
- the first idea has at most half the score of the best alternative, so that there is something to find;
- every null answer fails, or has less than the baseline;
- a measurement takes seconds, and nothing an agent sees holds the paper's own method.

A light check, for a challenge that is on record as it is (`CertificateFile`), measures on feedback problems, which are
fewer, and asks only for the order: baseline and null answers below 0, two alternatives above it.

Guarantees: answers go through the same `Grader` as in a run; verdicts are kept by content.
Not covered: ways to cheat, which have tests of their own; whether better answers can be found in the time of an episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcb_env.certify.batch import Progress
from rcb_env.certify.points import leaks, unwritten
from rcb_env.certify.problem import Found, Problem
from rcb_env.certify.verdicts import Verdicts
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.grading.grader import Grader, Score, Verdict

MIN_APART, MIN_ABOVE = 5.0, 3.0  # standard errors
MAX_RUN_S = 120.0  # of wall time, on a machine that may do other things
_FOLDER = "witnesses/"
_BASELINE, _FIRST, _NULL = "baseline", "first_idea", "null"
_OWN = "the paper's own method"


@dataclass(frozen=True)
class Witness:
    """What one answer came to."""

    name: str
    status: str
    value: float | None
    se: float | None

    @property
    def distance(self) -> float:
        """From the paper's own method, in standard errors."""
        return self.value / self.se if self.value is not None and self.se else 0.0

    def __str__(self) -> str:
        if self.value is None or self.se is None:
            return f"{self.name} {self.status}"
        return f"{self.name} {self.value:+.3f} ± {self.se:.3f}"


@dataclass(frozen=True)
class OpenReport(Found):
    """What `certify_open` found."""

    challenge: str
    witnesses: tuple[Witness, ...]
    run_s: float | None
    """Seconds of one measurement of the paper's own method; None: nothing ran."""

    def lasting(self) -> dict[str, Any]:
        """What goes on record."""
        return {
            "run_s": None if self.run_s is None else round(self.run_s, 1),
            "witnesses": {
                one.name: one.status
                if one.value is None or one.se is None
                else [round(one.value, 4), round(one.se, 4)]
                for one in self.witnesses
            },
        }


def certify_open(
    paper: Paper,
    grader: Grader,
    *,
    light: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> OpenReport:
    """Look at everything that can be wrong with a paper's open challenge.

    Args:
        paper: one of the layout "open".
        grader: what measures; must not be closed before this returns.
        light: it is on record as it is, so look only whether it still is like that.
        workers: how many witnesses are measured at once.
        progress: is told what is going on.
        cache: folder to keep verdicts in; None: nothing is kept.

    Raises:
        SandboxUnavailable: code cannot be run here at all.
    """
    (challenge,) = paper.challenges
    measured = _Measured(challenge, grader, Verdicts(cache, paper), final=not light)
    tell = progress or (lambda *_: None)
    answers = {
        path.removeprefix(_FOLDER).removesuffix(".py"): data.decode()
        for path, data in paper.tests.items()
        if path.startswith(_FOLDER) and path.endswith(".py")
    }
    witnesses: list[Witness] = []
    problems = [*unwritten(paper), *leaks(challenge)]
    problems += measured.own()
    if not problems:  # with a broken judge, nothing can be learnt from others
        with ThreadPoolExecutor(workers) as pool:
            for verdict in pool.map(measured.verdict, answers.values()):
                name = list(answers)[len(witnesses)]
                score = verdict.score or Score(None, None, 0.0)
                witnesses.append(Witness(name, verdict.status, score.value, score.se))
                tell("witnesses", len(witnesses), len(answers))
                if verdict.status == "infra_error":
                    told = f"could not be measured: {verdict.message}"
                    problems.append(measured.problem(name, told))
        judged = _in_order if light else _judged
        problems += judged(measured, {one.name: one for one in witnesses})
    return OpenReport(challenge.id, tuple(witnesses), measured.run_s, problems=tuple(problems))


def _in_order(measured: _Measured, found: Mapping[str, Witness]) -> Iterator[Problem]:
    for one in found.values():
        below = one.name == _BASELINE or one.name.startswith(_NULL)
        if below and one.value is not None and one.value >= 0:
            yield measured.problem(one.name, f"must lie below 0; it has {one}")
    above = [one for one in _alternatives(found) if one.value is not None and one.value > 0]
    if len(above) < 2:
        yield measured.problem("", "two of the alternatives must lie above 0")


def _judged(measured: _Measured, found: Mapping[str, Witness]) -> Iterator[Problem]:
    baseline = found[_BASELINE]
    if baseline.value is None or baseline.distance > -MIN_APART:
        apart = f"must lie {MIN_APART:g} standard errors below the paper's own method"
        yield measured.problem(_BASELINE, f"{apart}; it has {baseline}")
    nulls = [one for name, one in found.items() if name.startswith(_NULL)]
    if not nulls:
        yield measured.problem(_NULL, "there must be one: an answer that does not try")
    for one in nulls:
        if one.value is not None and baseline.value is not None and one.value >= baseline.value:
            yield measured.problem(one.name, f"must have less than the baseline; it has {one}")
    others = _alternatives(found)
    for one in others:
        if one.value is None:
            yield measured.problem(one.name, f"is {one.status}")
    above = [one for one in others if one.distance >= MIN_ABOVE]
    if len(above) < 2:
        told = ", ".join(map(str, others)) or "none"
        yield measured.problem(
            "", f"two of these must lie {MIN_ABOVE:g} standard errors above 0: {told}"
        )
    best = max((one.value for one in above if one.value is not None), default=0.0)
    first = found.get(_FIRST)
    if first is None:
        yield measured.problem(_FIRST, "is missing: what comes to mind first")
    elif first.value is not None and first.value > best / 2:
        yield measured.problem(
            _FIRST, f"may have half of the best alternative's {best:.3f}; it has {first}"
        )


def _alternatives(found: Mapping[str, Witness]) -> list[Witness]:
    known = (_BASELINE, _FIRST)
    return [one for name, one in found.items() if name not in known and not name.startswith(_NULL)]


class _Measured:
    """Verdicts on answers to one challenge, new or remembered."""

    def __init__(
        self, challenge: Challenge, grader: Grader, verdicts: Verdicts, *, final: bool
    ) -> None:
        self._challenge, self._grader, self._verdicts = challenge, grader, verdicts
        self._final = final
        self.run_s: float | None = None

    def own(self) -> Iterator[Problem]:
        """What is wrong with measuring the paper's own method."""
        for final in (False, True, True) if self._final else (False, False):
            purpose = "in the score" if final else "in feedback"
            verdict = self._grader.grade(self._challenge, self._challenge.reference, final=final)
            if verdict.score is None or verdict.score.value != 0.0:
                told = f"{_OWN} has not the score 0 {purpose}: {verdict.status}: {verdict.message}"
                yield Problem(str(self._challenge.paper.root / "judge.py"), None, told)
                return
            self.run_s = verdict.timings["total_s"]
        if self.run_s is not None and self.run_s > MAX_RUN_S:
            told = f"a measurement takes {self.run_s:.0f} s; at most {MAX_RUN_S:.0f} s are allowed"
            yield Problem(str(self._challenge.paper.root / "judge.py"), None, told)

    def verdict(self, code: str) -> Verdict:
        """The verdict on the text of the region, on the problems of this check."""
        purpose = () if self._final else ("feedback",)
        key = self._verdicts.key(self._challenge, code, *purpose)
        stored = self._verdicts.get(key)
        if stored is not None:
            return Verdict.from_dict(json.loads(stored))
        verdict = self._grader.grade(self._challenge, code, final=self._final)
        if verdict.status != "infra_error":
            self._verdicts.put(key, json.dumps(verdict.to_dict()))
        return verdict

    def problem(self, name: str, message: str) -> Problem:
        """A problem of a witness, or of all of them."""
        file = f"{_FOLDER}{name}.py" if name else _FOLDER
        told = f"{self._challenge.id}: {name} {message}".replace(":  ", ": ")
        return Problem(str(self._challenge.paper.root / file), None, told)
