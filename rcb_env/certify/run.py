"""What takes runs: the reference again and again, emptied regions, small faults, other answers.

Three depths: *light* for a paper that is on record as it is, *quick* while one writes it, *full*
for the record.
Guarantees: code runs through the same `Grader` as in a run. Verdicts are kept by content in a
cache folder, so an unchanged paper is certified again in seconds. Trouble of the sandbox is
reported as such and never counts as a fault found.
Not covered: whether a region's code could be hard-coded in part; a region is found only if every
case that fails without it gives the same outputs whatever the seed.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rcb_env.certify.answers import Answers, ending
from rcb_env.certify.batch import TROUBLE, Batch, Progress
from rcb_env.certify.certificate import Certificate, Depth, RegionResult, Survivor
from rcb_env.certify.nothing import Attempt, attempts, best
from rcb_env.certify.points import static_problems
from rcb_env.certify.problem import Problem, problem_of
from rcb_env.certify.reasons import Reasons
from rcb_env.certify.verdicts import Verdicts
from rcb_env.dataset.certified import SURVIVORS, content_of
from rcb_env.dataset.markers import body_rows
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import BoxDied, SandboxUnavailable
from rcb_env.grading.grader import Grader, Output
from rcb_env.grading.nulls import null_answers
from rcb_env.grading.worth import Outline, Worth, faults_by_case, free_cases
from rcb_env.mutation import Mutant, mutants

MAX_WARM_TEST_S = 2.0
MIN_KILLED = 0.95  # of the mutants without a written reason
REPEATS: dict[Depth, int] = {"light": 1, "quick": 5, "full": 20}  # of the reference, per seeds
MUTANTS: dict[Depth, int | None] = {"light": 2, "quick": 12, "full": None}  # per region; None: all
_VARIANT_REPEATS = 5


def certify(
    paper: Paper,
    grader: Grader,
    *,
    depth: Depth,
    progress: Progress | None = None,
    cache: Path | None = None,
    workers: int = 1,
) -> Certificate:
    """Look at everything that can be wrong with a paper.

    Args:
        paper: the paper.
        grader: what judges; must not be closed before this returns.
        depth: "light": the reference twice, and two faults a region, drawn by the paper's content;
            "quick": more of both; "full": all faults, twenty repeats for either kind of seeds, and
            the reference also with two threads and with another hash seed.
        progress: is told what is going on; called from this thread only.
        cache: folder to keep verdicts in; None: nothing is kept.
        workers: how many candidates are graded at once; the grader's own number of workers.

    Raises:
        SandboxUnavailable: code cannot be run here at all.
        UsageError: papers of this layout cannot be graded.
    """
    run = _Run(paper, grader, depth, progress or (lambda *_: None), Verdicts(cache, paper), workers)
    return run.certificate()


class _Run:
    """One certification, part by part; collects what is found."""

    def __init__(
        self,
        paper: Paper,
        grader: Grader,
        depth: Depth,
        progress: Progress,
        verdicts: Verdicts,
        workers: int,
    ) -> None:
        self._paper = paper
        self._grader = grader
        self._depth: Depth = depth
        self._progress = progress
        self._verdicts = verdicts
        self._batch = Batch(grader, verdicts, progress, workers)
        self._problems: list[Problem] = list(static_problems(paper))
        self._reasons = Reasons(paper)
        self._runs = 0
        self._failures = 0
        self._times: list[float] = []
        self._survivors: list[Survivor] = []
        self._regions: list[RegionResult] = []
        self._notes: list[str] = []

    def certificate(self) -> Certificate:
        # One challenge of each file: with the reference in place, its regions are one and the same.
        files = list({challenge.file: challenge for challenge in self._paper.challenges}.values())
        self._reference(files, self._grader, REPEATS[self._depth], "")
        if self._depth == "full" and not self._failures:
            self._variant(files, "two threads", threads=2)
            self._variant(files, "another hash seed", hash_seed=1)
        warm = statistics.median(self._times) if self._times else None
        if warm is not None and warm > MAX_WARM_TEST_S:
            self._problems.append(
                self._about_tests(
                    f"one test run takes {warm:.1f} s in a warm box; at most"
                    f" {MAX_WARM_TEST_S:.0f} s are allowed, make the cases smaller"
                )
            )
        if not self._failures:  # of a broken reference, nothing can be learned from mutants
            nulls = self._nulls()
            self._emptied(nulls, self._drawn(files))
            self._faults(warm or 0.0, nulls)
            self._others()
        return Certificate(
            paper=self._paper.id,
            depth=self._depth,
            problems=tuple(self._problems),
            mutants=sum(region.mutants for region in self._regions),
            killed=sum(region.killed for region in self._regions),
            regions=tuple(self._regions),
            survivors=tuple(self._survivors),
            reference_runs=self._runs,
            reference_failures=self._failures,
            warm_test_s=warm,
            notes=tuple(self._notes),
        )

    def _variant(
        self, files: Sequence[Challenge], settings: str, *, threads: int = 1, hash_seed: int = 0
    ) -> None:
        """The reference in boxes with other settings, as far as the sandbox offers them."""
        try:
            with self._grader.like(threads=threads, hash_seed=hash_seed) as other:
                self._reference(files, other, _VARIANT_REPEATS, settings)
        except SandboxUnavailable as error:
            self._notes.append(f"the reference was not tried with {settings}: {error}")

    def _about_tests(self, message: str) -> Problem:
        name = next(iter(self._paper.tests))
        return Problem(str(self._paper.root / name), None, message)

    # --- the reference ------------------------------------------------------------------------

    def _reference(
        self, files: Sequence[Challenge], grader: Grader, repeats: int, settings: str
    ) -> None:
        doing = "reference" + (f" with {settings}" if settings else "")
        for number, challenge in enumerate(files):
            self._progress(doing, number, len(files))
            key = self._verdicts.key(challenge, challenge.reference, "reference", repeats, settings)
            stored = self._verdicts.get(key)
            if stored is not None:
                self._runs += 2 * repeats
                self._times += json.loads(stored)
                continue
            times: list[float] = []
            failed: dict[str, str] = {}
            failures = 0
            for purpose, final in (("final", True), ("feedback", False)):
                for _ in range(repeats):
                    verdict = grader.grade(challenge, challenge.reference, final=final)
                    self._runs += 1
                    if verdict.passed:
                        times.append(verdict.timings.get("run_s", 0.0))
                    else:
                        failures += 1
                        failed[purpose] = f"{verdict.status}: {verdict.message}"
            self._failures += failures
            self._times += times
            if failures:
                seeds, message = next(iter(failed.items()))
                often = (
                    "never passes"
                    if failures == 2 * repeats
                    else (f"is flaky: {failures} of {2 * repeats} runs do not pass")
                )
                circumstances = f" with {settings}" if settings else ""
                self._problems.append(
                    self._about_tests(
                        f"the reference of {challenge.file} {often}{circumstances};"
                        f" with {seeds} seeds: {message}"
                    )
                )
            else:
                self._verdicts.put(key, json.dumps(times))
        self._progress(doing, len(files), len(files))

    # --- candidates that must fail ------------------------------------------------------------

    def _nulls(self) -> dict[str, dict[str, Outline]]:
        """By challenge what answers come to that know nothing; in a light check only `pass`."""
        jobs = [
            (challenge, name, code)
            for challenge in self._paper.challenges
            for name, code in null_answers(challenge).items()
            if name == "pass" or self._depth != "light"
        ]
        outlines = self._batch.outlines(
            "answers that know nothing", [(one, code) for one, _, code in jobs]
        )
        found: dict[str, dict[str, Outline]] = {one.id: {} for one in self._paper.challenges}
        for (challenge, name, _), outline in zip(jobs, outlines, strict=True):
            self._note_trouble(challenge, f"with `{name}`", outline.status)
            found[challenge.id][name] = outline
        return found

    def _emptied(
        self, nulls: Mapping[str, Mapping[str, Outline]], drawn: Mapping[str, frozenset[str]]
    ) -> None:
        challenges = self._paper.challenges
        blank = self._batch.outlines("empty regions", [(one, "") for one in challenges])
        for one, nothing in zip(challenges, blank, strict=True):
            self._note_trouble(one, "emptied", nothing.status)
            answers = {"": nothing, **nulls[one.id]}
            passing = [name for name, outline in answers.items() if outline.status == "passed"]
            for name in [name for name in passing if name in ("", "pass")] or passing[:1]:
                words = f"replaced by `{name}`" if name else "emptied"
                message = f"still passes when it is {words}; add a test that needs it"
                self._problems.append(problem_of(one, message))
            needing = nulls[one.id]["pass"].failed
            if needing and not drawn[one.file].intersection(needing):
                self._problems.append(
                    problem_of(
                        one,
                        f"can be hard-coded: every case that needs it ({', '.join(needing)}) gives"
                        " the same outputs with every seed; draw inputs from rng",
                    )
                )

    def _drawn(self, files: Sequence[Challenge]) -> dict[str, frozenset[str]]:
        """By annotated file, the cases whose outputs depend on the seed."""
        found = {}
        for number, challenge in enumerate(files):
            self._progress("seeds", number, len(files))
            key = self._verdicts.key(challenge, challenge.reference, "drawn")
            stored = self._verdicts.get(key)
            if stored is None:
                outputs: dict[str, set[bytes]] = {}
                for final in (False, True):
                    for output in self._outputs(challenge, final):
                        outputs.setdefault(output.case, set()).add(output.data)
                stored = " ".join(sorted(case for case, data in outputs.items() if len(data) > 1))
                self._verdicts.put(key, stored)
            found[challenge.file] = frozenset(stored.split())
        return found

    def _outputs(self, challenge: Challenge, final: bool) -> tuple[Output, ...]:
        try:
            return self._grader.outputs(challenge, final=final)
        except BoxDied:  # once more; a second time it is an error of the whole command
            return self._grader.outputs(challenge, final=final)

    def _faults(self, warm_s: float, nulls: Mapping[str, Mapping[str, Outline]]) -> None:
        # A mutant may loop for ever; the paper's whole limit each time would take hours.
        least_s = 2.0 if self._depth == "light" else 5.0
        limit_s = min(self._paper.time_limit_s, max(least_s, 20 * warm_s))
        hurried = replace(self._paper, time_limit_s=limit_s)
        # A paper that changes gets another sample in its next light check.
        seed = int(content_of(self._paper)[:8], 16) if self._depth == "light" else 0
        jobs = [
            (challenge, mutant)
            for challenge in self._paper.challenges
            for mutant in mutants(challenge.reference, limit=MUTANTS[self._depth], seed=seed)
        ]
        hurry = {one.id: replace(one, paper=hurried) for one in self._paper.challenges}
        outlines = self._batch.outlines(
            "mutants", [(hurry[c.id], mutant.code) for c, mutant in jobs]
        )
        # The same file can be reached from an inner and an outer region; one reason is enough.
        reasons = {
            self._verdicts.key(challenge, mutant.code): reason
            for challenge, mutant in jobs
            if (reason := self._reasons.reason(challenge, mutant))
        }
        tried: dict[str, list[_Tried]] = {challenge.id: [] for challenge in self._paper.challenges}
        for (challenge, mutant), outline in zip(jobs, outlines, strict=True):
            if self._note_trouble(challenge, f"with {mutant.description}", outline.status):
                continue
            if outline.status != "passed":
                tried[challenge.id].append(_Tried(outline))
                if needless := self._reasons.needless(challenge, mutant):
                    self._problems.append(needless)
                continue
            reason = reasons.get(self._verdicts.key(challenge, mutant.code), "")
            self._survives(challenge, mutant, reason)
            tried[challenge.id].append(_Tried(outline, excused=bool(reason)))
        worths = {
            name: Worth(
                free_cases(nulls[name].values()), faults_by_case(one.outline for one in all_)
            )
            for name, all_ in tried.items()
        }
        gained = self._gained(worths) if self._depth == "full" else {}
        for challenge in self._paper.challenges:
            found = tried[challenge.id]
            killed = sum(one.outline.status != "passed" for one in found)
            self._regions.append(
                RegionResult(
                    challenge.id,
                    challenge.lines,
                    mutants=len(found),
                    killed=killed,
                    worth=worths[challenge.id],
                    for_nothing=gained.get(challenge.id),
                )
            )
            due = sum(not one.excused for one in found)
            if killed < MIN_KILLED * due:
                self._problems.append(
                    problem_of(
                        challenge,
                        f"is tested too weakly: {killed} of {due} mutants fail,"
                        f" at least {MIN_KILLED:.0%} must",
                    )
                )

    def _others(self) -> None:
        """Answers other than the reference: right ones pass, wrong ones fail."""
        answers = Answers(self._paper).entries
        endings = self._batch.texts(
            "other answers", [(answer.challenge, answer.code) for answer in answers], ending
        )
        judged: Counter[tuple[str, bool]] = Counter()
        for answer, ended in zip(answers, endings, strict=True):
            if problem := answer.misjudged(ended):
                self._problems.append(problem)
            else:
                judged[answer.challenge.id, answer.right] += 1
        self._regions = [
            replace(one, accepted=judged[one.challenge, True], refused=judged[one.challenge, False])
            for one in self._regions
        ]

    def _gained(self, worths: Mapping[str, Worth]) -> dict[str, Attempt | None]:
        """By challenge the best of the answers that were never meant, and what it earns."""
        jobs = [(one, name, code) for one in self._paper.challenges for name, code in attempts(one)]
        outlines = self._batch.outlines("exits and copies", [(one, code) for one, _, code in jobs])
        tried: dict[str, list[Attempt]] = {name: [] for name in worths}
        for (one, name, _), outline in zip(jobs, outlines, strict=True):
            self._note_trouble(one, f"with {name}", outline.status)
            tried[one.id].append(Attempt(name, worths[one.id].share(outline)))
        return {name: best(found) for name, found in tried.items()}

    def _survives(self, challenge: Challenge, mutant: Mutant, reason: str) -> None:
        line = _line_in_file(challenge, mutant.line)
        survivor = Survivor(
            challenge=challenge.id,
            hash=mutant.hash,
            kind=mutant.kind,
            description=mutant.description,
            path=str(self._paper.root / challenge.file),
            line=line,
            reason=reason,
        )
        self._survivors.append(survivor)
        if not reason:
            self._problems.append(
                problem_of(
                    challenge,
                    f"passes with the fault {mutant.description} (mutant {mutant.hash}); add a"
                    f" test, or a reason to {SURVIVORS}",
                    line,
                )
            )

    def _note_trouble(self, challenge: Challenge, what: str, status: str) -> bool:
        if not status.startswith(TROUBLE):
            return False
        self._problems.append(
            problem_of(challenge, f"could not be graded {what}, check it again ({status})")
        )
        return True


def _line_in_file(challenge: Challenge, line: int) -> int:
    """The 1-based line of the annotated file where a line of the region's code stands."""
    text = challenge.paper.files[challenge.file].decode("utf-8", "surrogateescape")
    return body_rows(text, challenge.region)[line - 1] + 1


@dataclass(frozen=True)
class _Tried:
    """One mutant: what came of it, and, where it did not fail, whether its author says why."""

    outline: Outline
    excused: bool = False
