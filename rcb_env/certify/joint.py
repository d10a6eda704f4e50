"""`rcb check --scope file`, `paper` and `library`: can several parts at once be graded?

The reference of each challenge passes with either seeds, twice in a full check, and nothing written is no change. With any one
of its parts left out and the reference in all others it fails. What its cases are worth is found out: those are free that an
answer passes which knows nothing; the faults are parts left out. A light check, of a paper that is on record as it is, looks at
the reference and at nothing written only.
Guarantees: as `rcb_env.certify.run`.
Not covered: what a check of single regions finds, such as faults that no case notices; those are the same here.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rcb_env.certify.batch import Progress
from rcb_env.certify.certificate import Certificate, Depth, RegionResult
from rcb_env.certify.problem import Problem
from rcb_env.certify.verdicts import Verdicts
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.dataset.scopes import scope_of
from rcb_env.grading.grader import Grader
from rcb_env.grading.nulls import null_answers
from rcb_env.grading.worth import Outline, Worth, faults_by_case, free_cases

REPEATS: dict[Depth, int] = {"light": 1, "quick": 1, "full": 2}  # of the reference, per seeds

_Job = tuple[Challenge, str, bool, int]  # code, whether finally, the number of the try
_Told = tuple[Outline, float, str]  # what came of it, seconds, message


def certify_joint(
    paper: Paper,
    grader: Grader,
    *,
    depth: Depth,
    progress: Progress | None = None,
    cache: Path | None = None,
    workers: int = 1,
) -> Certificate:
    """Look at the challenges of several regions of a paper.

    Args:
        paper: one whose challenges have several regions.
        grader: what judges; must not be closed before this returns.
        depth: "light" leaves out all that is no reference; "full" repeats that.
        progress: is told what is going on; called from this thread only.
        cache: folder to keep verdicts in; None: nothing is kept.
        workers: how many candidates are graded at once.

    Raises:
        SandboxUnavailable: code cannot be run here at all.
    """
    tell = progress or (lambda *_: None)
    grade = partial(_graded, grader, Verdicts(cache, paper))
    repeats = REPEATS[depth]
    references = [
        (one, one.reference, final, repeat)
        for one in paper.challenges
        for final in (True, False)
        for repeat in range(repeats)
    ]
    nothing = [(one, "", True, 0) for one in paper.challenges]
    weaker = () if depth == "light" else paper.challenges
    others = [(one, code, True, 0) for one in weaker for _, code in _lacking(one)]
    nulls = [(one, code, True, 0) for one in weaker for code in null_answers(one).values()]
    told: list[_Told] = []
    with ThreadPoolExecutor(max_workers=workers) as pool:
        jobs = [*references, *nothing, *others, *nulls]
        for number, found in enumerate(pool.map(grade, jobs)):
            tell("several parts", number, len(jobs))
            told.append(found)
        tell("several parts", len(jobs), len(jobs))
    own = told[: len(references)]
    failed = [
        Problem(
            str(paper.root),
            None,
            f"the reference of {job[0].id} does not pass: {came.status}: {why}",
        )
        for job, (came, _, why) in zip(references, own, strict=True)
        if came.status != "passed"
    ]
    bare = told[len(own) :][: len(nothing)]
    without = told[len(own) + len(bare) :][: len(others)]
    knowing_nothing = told[len(told) - len(nulls) :]
    failed += [
        Problem(
            str(paper.root), None, f"nothing written for {one.id} is not no_change: {came.status}"
        )
        for one, (came, *_) in zip(paper.challenges, bare, strict=True)
        if came.status != "no_change"
    ]
    return Certificate(
        paper=f"{paper.id}@{scope_of(paper.challenges[0].id)}",
        depth=depth,
        problems=(*failed, *_needless(weaker, str(paper.root), without)),
        reference_runs=len(references),
        regions=tuple(
            _region(one, _of(one, nulls, knowing_nothing), _of(one, others, without))
            for one in weaker
        ),
        reference_failures=sum(came.status != "passed" for came, *_ in own),
        warm_test_s=statistics.median(seconds for _, seconds, _ in own),
    )


def _of(challenge: Challenge, jobs: Sequence[_Job], told: Sequence[_Told]) -> list[Outline]:
    """What came of those of the jobs that are of one challenge."""
    pairs = zip(jobs, told, strict=True)
    return [came for (one, *_), (came, *_) in pairs if one.id == challenge.id]


def _region(challenge: Challenge, nulls: list[Outline], lacking: list[Outline]) -> RegionResult:
    none = dict.fromkeys((name for one in nulls for name in one.cases), 0)
    worth = Worth(free_cases(nulls), none | faults_by_case(lacking))
    return RegionResult(challenge.id, challenge.lines, mutants=0, killed=0, worth=worth)


def _lacking(challenge: Challenge) -> list[tuple[str, str]]:
    """For each region its name, and the reference without it."""
    assert challenge.holes is not None
    names = [hole.name for hole in challenge.holes]
    return [
        (
            name,
            challenge.holes.join(
                {each: code for each, code in challenge.holes.references.items() if each != name}
            ),
        )
        for name in names
    ]


def passes(challenge: Challenge) -> str:
    """Nothing but ``pass`` in every missing part."""
    if challenge.holes is None:
        return f"{challenge.region.indent}pass\n"
    return challenge.holes.join(
        {hole.name: f"{hole.region.indent}pass\n" for hole in challenge.holes}
    )


def _needless(challenges: Sequence[Challenge], where: str, told: Sequence[_Told]) -> list[Problem]:
    names = [(one, name) for one in challenges for name, _ in _lacking(one)]
    return [
        Problem(
            where,
            None,
            f"{one.id} passes without {name}; add a case that needs it"
            if came.status == "passed"
            else f"{one.id} could not be graded without {name}, check it again ({why})",
        )
        for (one, name), (came, _, why) in zip(names, told, strict=True)
        if came.status in ("passed", "infra_error")
    ]


def _graded(grader: Grader, verdicts: Verdicts, job: _Job) -> _Told:
    challenge, code, final, repeat = job
    key = verdicts.key(challenge, code, "joint", final, repeat)
    stored = verdicts.get(key)
    if stored is not None:
        text, seconds, message = json.loads(stored)
        return Outline.of_text(text), float(seconds), str(message)
    for _ in range(2):  # infrastructure gets a second chance
        verdict = grader.grade(challenge, code, final=final)
        told = (Outline.of(verdict), verdict.timings.get("run_s", 0.0), verdict.message)
        if verdict.status != "infra_error":
            verdicts.put(key, json.dumps((told[0].to_text(), *told[1:])))
            break
    return told
