"""Graded completions per second on the public data set's folders, beside the public harness's way.

The public harness copies a paper's folder for a completion and runs ``cd folder && python paper2code_test.py`` in a
fresh interpreter, with the packages of the paper's image. Ours is grading in a warm box: as feedback, one run of the
suite, and as the final score, with further runs: where the suite is split one, for the public rule; where it is guarded those
that find disabled suites (the canaries). Completions are right and wrong by turns: the reference, which is the dearest case
for us, as only what passes is run again, and faults of it. Both ways have to say the same of each. What can be split is found
out, and canaries are made, once for a paper, before.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks.measure import Job, Result, Row, median, take_turns
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.dataset.published import RESEARCHCODEBENCH, folder_of
from rcb_env.errors import UsageError
from rcb_env.grading.grader import Grader
from rcb_env.grading.official import WORDS
from rcb_env.mutation import mutants
from rcb_env.sandbox import images

_MAKER = "bubblewrap"  # its boxes use the very environment that the fresh interpreter uses
ALL, FRESH, GRADED = "all papers", "fresh interpreter", "graded"
_AGAIN, _TWO = " with canaries", "two workers over one"
_DIFFER = "completions with other verdicts"
_FAULTS = 2  # beside the reference, of each paper
_PATIENCE_S = 60  # of the public harness
_TARGETS = {
    f"{ALL}: times faster without canaries, median": ">= 15",
    f"{ALL}: times faster without canaries, geometric mean": ">= 10",
    f"{ALL}: {_TWO}": ">= 1.8",
    f"{ALL}: {_DIFFER}": "0",
}
_AT_LEAST_S = 2.0  # for how long two workers are watched


def run(folder: Path | None, papers: Sequence[str], *, quick: bool) -> Result:
    """Every paper's first region (quick: one paper); of the copy that was pulled where no folder is given."""
    about = "completions of the public data set's folders"
    try:
        folder = folder or folder_of(RESEARCHCODEBENCH.name)
        if not folder.is_dir():
            raise UsageError(f"there is none at {folder}")
    except UsageError as error:
        note = f"Skipped: the public data set; {error}, or say where it is with --public."
        return Result("folders", about, notes=(note,))
    if (folder / "pset").is_dir():
        folder = folder / "pset"
    chosen = load_dataset(folder).select(papers=list(papers) or (["LEN"] if quick else None))
    by_paper: dict[str, Challenge] = {}
    for challenge in chosen:
        by_paper.setdefault(challenge.paper.id, challenge)
    rows: list[Row] = []
    figures: dict[str, float] = {}
    notes: list[str] = []
    graded: list[str] = []
    workers = 1 if quick else 2
    for paper, challenge in by_paper.items():
        with Grader(_MAKER, workers=workers) as grader:
            found = _one(challenge, grader, workers, quick=quick)
        if isinstance(found, str):
            notes.append(f"{paper} is left out: {found}")
            continue
        rows += found[0]
        figures |= found[1]
        graded.append(paper)
    if graded:
        figures |= _together(graded, rows, figures)
    return Result("folders", about, tuple(rows), figures, tuple(notes), _TARGETS)


def _together(
    papers: Sequence[str], rows: Sequence[Row], figures: Mapping[str, float]
) -> dict[str, float]:
    """The figures of all papers: rates are of a round with one completion of each."""
    middle = {row.what: median(row.samples_s) for row in rows}
    told: dict[str, float] = {}
    for way in (FRESH, GRADED, f"{GRADED}{_AGAIN}"):
        told[f"{ALL}: {way}, per second"] = len(papers) / sum(middle[f"{p}: {way}"] for p in papers)
    for kind, way in (("without canaries", GRADED), ("with canaries", f"{GRADED}{_AGAIN}")):
        ratios = [middle[f"{p}: {FRESH}"] / middle[f"{p}: {way}"] for p in papers]
        told[f"{ALL}: times faster {kind}, median"] = statistics.median(ratios)
        told[f"{ALL}: times faster {kind}, geometric mean"] = statistics.geometric_mean(ratios)
    over = [figures[name] for p in papers if (name := f"{p}: {_TWO}") in figures]
    if over:
        told[f"{ALL}: {_TWO}"] = statistics.median(over)
    told[f"{ALL}: {_DIFFER}"] = sum(figures[f"{paper}: {_DIFFER}"] for paper in papers)
    return told


def _one(
    challenge: Challenge, grader: Grader, workers: int, *, quick: bool
) -> tuple[list[Row], dict[str, float]] | str:
    """The rows and figures of one paper, or why there are none."""
    paper = challenge.paper.id
    started = time.monotonic()
    for final in (False, True):
        for _ in range(2):
            verdict = grader.grade(challenge, challenge.reference, final=final)
            if not verdict.passed:
                return f"its reference does not pass here: {verdict.message}"
    warm_s = verdict.timings["run_s"]
    faults = mutants(challenge.reference, limit=1 if quick else _FAULTS)
    codes = [challenge.reference, *(fault.code for fault in faults)]
    rounds = 1 if quick else max(1, min(5, int(2 / max(warm_s, 0.1))))
    names = [f"{paper}: {way}" for way in (FRESH, GRADED, f"{GRADED}{_AGAIN}")]
    ways: list[Callable[[str], bool]] = [
        _public_way(challenge),
        lambda code: grader.grade(challenge, code, final=False).passed,
        lambda code: grader.grade(challenge, code, final=True).passed,
    ]
    said: list[dict[str, bool]] = [{} for _ in ways]
    jobs: list[tuple[Job, int]] = [
        (_by_turns(way, codes, notes), len(codes) * (1 if number == 0 else rounds))
        for number, (way, notes) in enumerate(zip(ways, said, strict=True))
    ]
    warming_s = time.monotonic() - started
    samples = take_turns(dict(zip(names, jobs, strict=True)))
    rows = [Row(n, samples[n], "" if n == names[0] else names[0]) for n in names]
    differ = sum(len({notes[code] for notes in said}) > 1 for code in codes)
    figures = {
        f"{paper}: warming up and making canaries, s": warming_s,
        f"{paper}: {_DIFFER}": float(differ),
    }
    if workers > 1:
        rates: dict[int, list[float]] = {1: [], workers: []}
        for count in (1, workers) * 3:
            job = partial(_passed, grader, challenge, final=False)
            rates[count].append(_per_second(job, count))
        one, two = median(rates[1]), median(rates[workers])
        figures[f"{paper}: graded per second, one worker"] = one
        figures[f"{paper}: graded per second, two workers"] = two
        figures[f"{paper}: {_TWO}"] = two / one
    return rows, figures


def _passed(grader: Grader, challenge: Challenge, *, final: bool) -> None:
    verdict = grader.grade(challenge, challenge.reference, final=final)
    if not verdict.passed:
        raise RuntimeError(f"{challenge.id}: {verdict.message}")


def _by_turns(way: Callable[[str], bool], codes: Sequence[str], notes: dict[str, bool]) -> Job:
    """A job that grades the next completion each time, and notes whether it passes."""
    turn = cycle(codes)

    def grade_next() -> None:
        code = next(turn)
        notes[code] = way(code)

    return grade_next


def _public_way(challenge: Challenge) -> Callable[[str], bool]:
    python = images.realise(challenge.paper.image).executable
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ.get('PATH', '')}"}

    def passes(code: str) -> bool:
        with _copy(challenge.paper.root) as folder:
            (folder / challenge.file).write_text(challenge.splice(code), encoding="utf-8")
            try:
                done = subprocess.run(
                    f"cd {folder} && exec python paper2code_test.py",
                    shell=True,
                    env=environment,
                    capture_output=True,
                    check=False,
                    timeout=_PATIENCE_S,
                )
            except subprocess.TimeoutExpired:
                return False
        said = (done.stdout + done.stderr).decode(errors="replace")
        return done.returncode == 0 and not any(word in said for word in WORDS)

    return passes


@contextlib.contextmanager
def _copy(folder: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="rcb-benchmark-"))
    try:
        yield shutil.copytree(folder, place / folder.name)
    finally:
        shutil.rmtree(place)


def _per_second(job: Callable[[], None], workers: int) -> float:
    """How often a job is done in a second when several threads do it at once."""

    def work() -> int:
        done = 0
        while time.monotonic() < stop:
            job()
            done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        stop = time.monotonic() + 0.5
        list(pool.map(lambda _: work(), range(workers)))  # starts the other boxes
        started = time.monotonic()
        stop = started + _AT_LEAST_S
        done = sum(pool.map(lambda _: work(), range(workers)))
        return done / (time.monotonic() - started)
