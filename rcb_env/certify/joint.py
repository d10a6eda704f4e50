"""`rcb check --scope file`, `paper` and `library`: can several parts at once be graded?

The reference of each challenge passes with either seeds, twice in a full check, and nothing written is no change. With any one
of its parts left out and the reference in all others it fails. How many cases pass where every part is ``pass`` is told: so
much of a share of cases is free. A light check, of a paper that is on record as it is, looks at the reference and at nothing
written only.
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

from rcb_env.certify.certificate import Certificate, Depth
from rcb_env.certify.problem import Problem
from rcb_env.certify.run import Progress
from rcb_env.certify.verdicts import Verdicts
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.dataset.scopes import scope_of
from rcb_env.grading.grader import Grader

REPEATS: dict[Depth, int] = {"light": 1, "quick": 1, "full": 2}  # of the reference, per seeds

_Told = tuple[str, int, int, float, str]  # status, passed cases, all of them, seconds, message


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
    of_pass = [(one, passes(one), True, 0) for one in weaker]
    told: list[_Told] = []
    with ThreadPoolExecutor(max_workers=workers) as pool:
        jobs = [*references, *nothing, *others, *of_pass]
        for number, found in enumerate(pool.map(grade, jobs)):
            tell("several parts", number, len(jobs))
            told.append(found)
        tell("several parts", len(jobs), len(jobs))
    own = told[: len(references)]
    failed = [
        Problem(
            str(paper.root), None, f"the reference of {job[0].id} does not pass: {status}: {why}"
        )
        for job, (status, _, _, _, why) in zip(references, own, strict=True)
        if status != "passed"
    ]
    bare = told[len(own) :][: len(nothing)]
    without = told[len(own) + len(bare) :][: len(others)]
    free = told[len(told) - len(of_pass) :]
    failed += [
        Problem(str(paper.root), None, f"nothing written for {one.id} is not no_change: {status}")
        for one, (status, *_) in zip(paper.challenges, bare, strict=True)
        if status != "no_change"
    ]
    notes = [
        f"{one.id}: {passed} of {planned} cases pass with `pass` in every part"
        for one, (_, passed, planned, _, _) in zip(weaker, free, strict=True)
        if passed
    ]
    return Certificate(
        paper=f"{paper.id}@{scope_of(paper.challenges[0].id)}",
        depth=depth,
        problems=(*failed, *_needless(weaker, str(paper.root), without)),
        reference_runs=len(references),
        reference_failures=sum(status != "passed" for status, *_ in own),
        warm_test_s=statistics.median(seconds for _, _, _, seconds, _ in own),
        notes=tuple(notes),
    )


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
            if status == "passed"
            else f"{one.id} could not be graded without {name}, check it again ({why})",
        )
        for (one, name), (status, _, _, _, why) in zip(names, told, strict=True)
        if status in ("passed", "infra_error")
    ]


def _graded(grader: Grader, verdicts: Verdicts, job: tuple[Challenge, str, bool, int]) -> _Told:
    challenge, code, final, repeat = job
    key = verdicts.key(challenge, code, "joint", final, repeat)
    stored = verdicts.get(key)
    if stored is not None:
        status, passed, planned, seconds, message = json.loads(stored)
        return str(status), int(passed), int(planned), float(seconds), str(message)
    for _ in range(2):  # infrastructure gets a second chance
        verdict = grader.grade(challenge, code, final=final)
        seconds = verdict.timings.get("run_s", 0.0)
        told = (verdict.status, *verdict.counts(), seconds, verdict.message)
        if verdict.status != "infra_error":
            verdicts.put(key, json.dumps(told))
            break
    return told
