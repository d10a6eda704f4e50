"""`rcb check --variants`: can the variants of a paper be graded, and does none of them tell the published method?

Looked at is every choice of every knob alone, all names called otherwise, and a sample of combinations. The text says what was
chosen and nothing of another choice, by the words that the knobs state; no answer stands where an agent sees it. The reference
passes with either seeds; regions that read otherwise than published need an answer; for one choice of a semantic knob the answers
for any other fail, the published ones among them; small faults fail. Combinations come last, and only if nothing is wrong by itself.
Guarantees: as `rcb_env.certify.run`; what stands in the paper's reasons for survivors holds for its variants, too.
Not covered: the published paper (`run.py`); whether a text is good prose.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcb_env.certify.batch import TROUBLE, Batch, Progress
from rcb_env.certify.certificate import Depth
from rcb_env.certify.problem import Found, Problem
from rcb_env.certify.reasons import Reasons
from rcb_env.certify.variant_texts import Setting, problems_of_knobs, problems_of_text, settings
from rcb_env.certify.verdicts import Verdicts
from rcb_env.dataset.knobs import Knobs
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import PaperError, UsageError
from rcb_env.grading.grader import Grader
from rcb_env.grading.verdict import Verdict
from rcb_env.mutation import mutants

COMBINATIONS: dict[Depth, int] = {"light": 1, "quick": 8, "full": 32}
MUTANTS: dict[Depth, int | None] = {"light": 0, "quick": 4, "full": None}  # per region and choice
COUNTED = 32
"""Over so many variants it is counted how many right answers differ."""


@dataclass(frozen=True)
class VariantReport(Found):
    """What `certify_variants` found.

    Attributes:
        touched: regions whose code some semantic knob changes; of `regions`.
        answers: different right answers among the first `COUNTED` variants.
        passed: files whose reference passes with either seeds, of `references`, in every variant.
        refused: answers for another choice that failed, of `crossed`.
    """

    paper: str
    depth: Depth
    knobs: int = 0
    semantic: int = 0
    choices: int = 0
    combinations: int = 0
    regions: int = 0
    touched: int = 0
    answers: int = 0
    references: int = 0
    passed: int = 0
    crossed: int = 0
    refused: int = 0
    mutants: int = 0
    killed: int = 0
    seconds: float = 0.0

    def lasting(self) -> dict[str, Any]:
        """What goes on record."""
        left_out = ("paper", "depth", "problems")
        found = {name: value for name, value in self.to_dict().items() if name not in left_out}
        return {**found, "seconds": round(self.seconds)}


def certify_variants(
    paper: Paper,
    grader: Grader,
    *,
    depth: Depth,
    numbers: Sequence[int] | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
    workers: int = 1,
) -> VariantReport:
    """Look at the variants of a paper.

    Args:
        paper: with a challenge for each region.
        grader: what judges; must not be closed before this returns.
        depth: "light": of single choices only what can be said without running, and one combination; "full": all faults, and four times as many combinations as "quick".
        numbers: only the variants of these numbers; None: every choice, and the first combinations.
        progress: is told what is going on; called from this thread only.
        cache: folder to keep verdicts in; None: nothing is kept.
        workers: how many candidates are graded at once.

    Raises:
        SandboxUnavailable: code cannot be run here at all.
        UsageError: the paper declares no variants.
    """
    if paper.variants is None:
        raise UsageError(f"{paper.id} declares no variants: there is no {paper.root}/variants.yaml")
    started = time.monotonic()
    try:
        run = _Run(paper, paper.variants.knobs(paper), grader, depth, numbers, cache, workers)
        run.look(progress or (lambda *_: None))
    except PaperError as error:
        return VariantReport(paper.id, depth, problems=(Problem.of(error),))
    return dataclasses.replace(run.report(), seconds=time.monotonic() - started)


class _Run:
    """One look at the variants of a paper; collects what is found."""

    def __init__(
        self,
        paper: Paper,
        knobs: Knobs,
        grader: Grader,
        depth: Depth,
        numbers: Sequence[int] | None,
        cache: Path | None,
        workers: int,
    ) -> None:
        self._paper, self._knobs, self._depth = paper, knobs, depth
        self._grader, self._cache, self._workers = grader, cache, workers
        first = range(1, COMBINATIONS[depth] + 1)
        self._every = numbers is None
        self._settings = settings(paper, knobs, first if numbers is None else numbers)
        self._problems: list[Problem] = []
        self._touched: set[str] = set()
        self._sums = Counter[str]()
        self._excused = _excused(paper, knobs)
        self._flawed = False

    def report(self) -> VariantReport:
        variants = self._paper.variants
        assert variants is not None
        answers = {
            one.answer_hash
            for number in range(COUNTED)
            for one in variants.of(self._paper, number).challenges
        }
        knobs = self._knobs.knobs
        return VariantReport(
            self._paper.id,
            self._depth,
            problems=tuple(dict.fromkeys(self._problems)),
            knobs=len(knobs) + bool(self._knobs.names),
            semantic=sum(knob.semantic for knob in knobs),
            choices=sum(len(knob.choices) for knob in knobs),
            combinations=sum(one.is_combination for one in self._settings),
            regions=len(self._paper.challenges),
            touched=len(self._touched),
            answers=len(answers),
            **dict(self._sums),
        )

    def look(self, progress: Progress) -> None:
        for knob, message in problems_of_knobs(self._paper, self._knobs) if self._every else ():
            self._note(knob, message)
        for number, one in enumerate(self._settings):
            if not (one.is_combination or self._every):
                continue
            if one.is_combination and self._every and self._flawed:
                break  # it would only say the same again
            progress(one.name, number, len(self._settings))
            found = [*problems_of_text(self._knobs, one)]
            for message in found:
                self._about(one, message)
            touched = one.touched(self._paper)
            if not self._every:
                self._touched.update(old.id for old, _ in touched)
            elif one.knob is not None and one.knob.semantic:
                self._touched.update(old.id for old, _ in touched)
                if not touched:
                    self._about(one, "changes the code of no region")
            runs = self._depth != "light" or one.is_combination
            if runs and not any("no Python" in message for message in found):
                self._look_at(one, touched)
        progress("variants", len(self._settings), len(self._settings))
        if self._every and 2 * len(self._touched) < len(self._paper.challenges):
            self._note(
                "",
                f"semantic knobs change {len(self._touched)} of {len(self._paper.challenges)}"
                " regions; at least half are needed",
            )

    def _look_at(self, one: Setting, touched: Sequence[tuple[Challenge, Challenge]]) -> None:
        batch = Batch(
            self._grader, Verdicts(self._cache, one.paper), lambda *_: None, self._workers
        )
        if not self._references(one, batch):
            return
        nothing = [
            (new, code, f"passes when it is {words}")
            for _, new in touched
            for code, words in (
                ("", "empty"),
                (f"{new.region.indent}pass\n", "replaced by `pass`"),
            )
        ]
        others = self._of_other_choices(one)
        self._must_fail(one, batch, nothing)
        self._sums["refused"] += self._must_fail(one, batch, others)
        self._sums["crossed"] += len(others)
        if one.knob is not None and one.knob.semantic:
            elsewhere = [
                (old, new.reference, "passes as published with the answer for this choice")
                for old, new in touched
            ]
            verdicts = Verdicts(self._cache, self._paper)
            there = Batch(self._grader, verdicts, lambda *_: None, self._workers)
            self._sums["refused"] += self._must_fail(one, there, elsewhere)
            self._sums["crossed"] += len(elsewhere)
        if one.knob is not None:
            self._faults(one, batch, [new for _, new in touched])

    def _must_fail(
        self, one: Setting, batch: Batch, jobs: Sequence[tuple[Challenge, str, str]]
    ) -> int:
        """How many of these answers fail; the others are problems."""
        statuses = batch.texts("", [(each, code) for each, code, _ in jobs], verdict_of)
        failed = 0
        for (each, _, message), status in zip(jobs, statuses, strict=True):
            if status.startswith(("passed", TROUBLE)):
                told = message if status == "passed" else f"cannot be graded: {status}"
                self._about(one, f"{_name(each)} {told}")
            else:
                failed += 1
        return failed

    def _references(self, one: Setting, batch: Batch) -> bool:
        """Whether the reference passes in every file, with either seeds."""
        files = {challenge.file: challenge for challenge in one.paper.challenges}.values()
        with ThreadPoolExecutor(max_workers=self._workers) as pool:
            told = [*pool.map(lambda each: self._reference(each, batch.verdicts), files)]
        for challenge, trouble in zip(files, told, strict=True):
            if trouble:
                self._about(one, f"the reference of {challenge.file} does not pass: {trouble}")
        self._sums["references"] += len(told)
        self._sums["passed"] += told.count("")
        return not any(told)

    def _reference(self, challenge: Challenge, verdicts: Verdicts) -> str:
        """How the reference of a file fails with either seeds; "": it passes."""
        key = verdicts.key(challenge, challenge.reference, "reference of a variant")
        if verdicts.get(key) is None:
            for final in (True, False):
                verdict = self._grader.grade(challenge, challenge.reference, final=final)
                if not verdict.passed:
                    return f"{verdict.status}: {' '.join(verdict.message.split())}"
            verdicts.put(key, "passed")
        return ""

    def _of_other_choices(self, one: Setting) -> list[tuple[Challenge, str, str]]:
        """Answers for other choices of semantic knobs, put in here."""
        if one.knob is not None and not one.knob.semantic:
            return []
        others: list[tuple[str, Paper]] = [("", self._paper)] if self._means(one) else []
        if one.knob is not None:
            others += [
                (other.name, other.paper)
                for other in self._settings
                if other.knob is one.knob and other is not one
            ]
        touching = self._regions_of_semantic(one)
        jobs = []
        for name, paper in others:
            for old, new in zip(paper.challenges, one.paper.challenges, strict=True):
                if old.reference == new.reference or (not name and _name(new) not in touching):
                    continue
                what = f"the answer for {name}" if name else "the published answer"
                jobs.append((new, old.reference, f"passes with {what}"))
        return jobs

    def _means(self, one: Setting) -> bool:
        return any(knob.semantic and knob.name in one.choices for knob in self._knobs.knobs)

    def _regions_of_semantic(self, one: Setting) -> set[str]:
        """The regions that the semantic choices of a setting change, each by itself."""
        return {
            _name(new)
            for alone in self._settings
            if alone.knob is not None
            and alone.knob.semantic
            and one.choices.get(alone.knob.name) == alone.choices[alone.knob.name]
            for _, new in alone.touched(self._paper)
        }

    def _faults(self, one: Setting, batch: Batch, regions: Sequence[Challenge]) -> None:
        limit = MUTANTS[self._depth]
        jobs = [
            (challenge, mutant)
            for challenge in regions
            for mutant in mutants(challenge.reference, limit=limit, seed=len(one.name))
        ]
        statuses = batch.texts("", [(each, mutant.code) for each, mutant in jobs], verdict_of)
        for (challenge, mutant), status in zip(jobs, statuses, strict=True):
            self._sums["mutants"] += 1
            self._sums["killed"] += not status.startswith("passed")
            name, bare = _name(challenge), mutant.description.partition(" ")[2]
            if status.startswith("passed") and bare not in self._excused.get(name, ()):
                self._about(
                    one,
                    f"{name} passes with the fault {bare!r}; add a test, or a reason to `survivors`",
                )

    def _about(self, one: Setting, message: str) -> None:
        self._flawed = True
        self._note(one.knob.name if one.knob else "", f"{one.name}: {message}")

    def _note(self, knob: str, message: str) -> None:
        line = self._knobs.line(knob) if knob else None
        self._problems.append(Problem(self._knobs.path, line, message))


def verdict_of(verdict: Verdict) -> str:
    """The status of a verdict."""
    return verdict.status


def _name(challenge: Challenge) -> str:
    return challenge.id.partition("/")[2]


def _excused(paper: Paper, knobs: Knobs) -> Mapping[str, set[str]]:
    """By region the faults that need not be found, as the author says of the paper or of its variants."""
    reasons, excused = Reasons(paper), dict[str, set[str]]()
    for challenge in paper.challenges:
        excused[_name(challenge)] = {
            mutant.description.partition(" ")[2]
            for mutant in mutants(challenge.reference)
            if reasons.reason(challenge, mutant)
        }
    for one in knobs.survivors:
        if one.region not in excused:
            raise PaperError(f"survivors: there is no region {one.region!r}", path=knobs.path)
        excused[one.region].add(one.description)
    return excused
