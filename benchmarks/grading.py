"""One warm grading of a right DyT candidate against the same cases in a fresh interpreter."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.measure import Job, Result, Row, take_turns
from benchmarks.plain import Plain
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.grader import Grader

_FRESH = "fresh interpreter"
_TARGET = "p50 <= 50 ms"


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Every DyT challenge in turn (quick: one), per maker; the phases are the verdicts' own timings."""
    challenges = load_dataset().select(papers=["DyT"])
    if quick:
        challenges = challenges[1:2]
    rounds = len(challenges) * (2 if quick else 10)
    phases: dict[str, list[float]] = {}

    def graded(maker: str, grader: Grader, challenge: Challenge) -> None:
        verdict = grader.grade(challenge, challenge.reference, final=True)
        if not verdict.passed:
            raise RuntimeError(f"{challenge.id}: {verdict.message}")
        for phase, name in (("run_s", "in the candidate's box"), ("judge_s", "at the judge")):
            phases.setdefault(f"{maker}: {name}", []).append(verdict.timings[phase])

    with contextlib.ExitStack() as stack:
        graders = {maker: stack.enter_context(Grader(maker)) for maker in makers}
        plain = {each.id: stack.enter_context(Plain(each)) for each in challenges}
        for maker, grader in graders.items():
            for challenge in (*challenges, *challenges):
                graded(maker, grader, challenge)
        phases.clear()
        jobs: dict[str, tuple[Job, int]] = {}
        for maker, grader in graders.items():
            job = partial(_in_turn, partial(graded, maker, grader), itertools.cycle(challenges))
            jobs[f"{maker}: one grading"] = (job, rounds)
        fresh = itertools.cycle(challenges)
        jobs[_FRESH] = (lambda: plain[next(fresh).id].fresh(), min(rounds, 2 * len(challenges)))
        samples = take_turns(jobs)
    rows = [
        Row(
            name,
            times,
            beside="" if name == _FRESH else _FRESH,
            target="" if name == _FRESH else _TARGET,
        )
        for name, times in samples.items()
    ]
    rows += [Row(name, tuple(times)) for name, times in phases.items()]
    return Result(
        "grading",
        f"a right candidate, all its cases, both boxes warm ({len(challenges)} DyT challenges in turn)",
        tuple(rows),
        notes=("Two idle processors are meant by the target.",),
    )


def _in_turn(job: Callable[[Challenge], None], challenges: Iterator[Challenge]) -> None:
    job(next(challenges))
