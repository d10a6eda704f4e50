"""What feedback on a whole library costs, beside that on one region of the same paper.

A region's test run is that of the cases which cover its file; a paper's regions count alike. The library's runs each of the
paper's cases, with one seed. Both are of right code, and take turns, so a busy machine slows both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from benchmarks.measure import Job, Result, Row, median, take_turns
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.grading.grader import Grader

ALL = "all papers: a library's run_tests over a region's"
_TARGETS = {f"{ALL}, largest": "<= 3", f"{ALL}, median": "<= 3"}


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Every paper with the first sandbox (quick: one paper)."""
    about = "run_tests of right code, all of a paper's library beside its mean region"
    if not makers:
        return Result("scopes", about, notes=("Skipped: no sandbox works here.",))
    regions, libraries = load_dataset(), load_dataset("bundled@library")
    rows: list[Row] = []
    for paper in regions.papers[3:4] if quick else regions.papers:
        with Grader(makers[0]) as grader:
            library = libraries.challenge(f"{paper.id}@library")
            rows += _one(paper, library, grader, turns=2 if quick else 11)
    over = {
        library.what: median(library.samples_s) / median(region.samples_s)
        for region, library in zip(rows[::2], rows[1::2], strict=True)
    }
    figures = {f"{what} over region": ratio for what, ratio in over.items()}
    figures |= {f"{ALL}, largest": max(over.values()), f"{ALL}, median": median([*over.values()])}
    return Result("scopes", about, tuple(rows), figures, targets=_TARGETS)


def _one(paper: Paper, library: Challenge, grader: Grader, *, turns: int) -> list[Row]:
    """A paper's mean region, and its library."""
    regions = Counter(challenge.file for challenge in paper.challenges)
    one_of = {challenge.file: challenge for challenge in paper.challenges}
    jobs: dict[str, tuple[Job, int]] = {
        name: (partial(_tested, grader, challenge), turns)
        for name, challenge in {**one_of, library.id: library}.items()
    }
    for job, _ in (*jobs.values(), *jobs.values()):
        job()
    samples = take_turns(jobs)
    mean = tuple(
        sum(regions[file] * samples[file][turn] for file in regions) / regions.total()
        for turn in range(turns)
    )
    region = f"{paper.id}: region"
    return [Row(region, mean), Row(f"{paper.id}: library", samples[library.id], region)]


def _tested(grader: Grader, challenge: Challenge) -> None:
    verdict = grader.grade(challenge, challenge.reference, final=False)
    if not verdict.passed:
        raise RuntimeError(f"{challenge.id}: {verdict.message}")
