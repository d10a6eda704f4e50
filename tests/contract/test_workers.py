"""Worker threads: what they store, what stops them, and what they never lose."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.errors import ModelRefusedRequest, StoreError
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import Usage
from rcb_env.play.record import Episode
from rcb_env.runs.plan import Job, episode_seed, jobs, own_lines, run_record
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.store import RunStore
from rcb_env.runs.telling import Progress
from rcb_env.runs.workers import Play, work

CONFIG = {"agent": "test", "model": None}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset("bundled")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:  # no box starts before something is graded
        yield made


def plan(dataset: Dataset, samples: int) -> list[Job]:
    pairs = [(c, sample) for c in dataset.challenges[:4] for sample in range(samples)]
    return jobs(pairs, CONFIG)


def new_store(folder: Path, dataset: Dataset, planned: list[Job]) -> RunStore:
    pairs = [(job.challenge, job.sample) for job in planned]
    return RunStore.create(folder, run_record(CONFIG, pairs, dataset, "bundled"))


def episode(job: Job, status: str = "passed") -> Episode:
    return Episode(
        challenge=job.challenge.id,
        paper=job.challenge.paper.id,
        file=job.challenge.file,
        sample=job.sample,
        seed=job.seed,
        agent="test",
        model="",
        lines=job.challenge.lines,
        content_hash=job.challenge.content_hash,
        status=status,
        verdict=None,
        end_reason="sandbox_error" if status == "infra_error" else "submitted",
        code="    return x\n" * 100,
        code_hash="",
        steps=1,
        test_runs=0,
        usage=Usage(),
        wall_s=0.0,
        started_at="",
        error="no space left on device" if status == "infra_error" else "",
    )


def run(
    planned: list[Job], play: Play, store: RunStore, grader: Grader, *, workers: int = 3
) -> list[Progress]:
    told: list[Progress] = []
    work(
        planned,
        lambda: play,
        store=store,
        boxes=grader,
        workers=workers,
        progress=told.append,
    )
    return told


def test_infrastructure_gets_a_second_chance_and_both_attempts_are_stored(
    tmp_path: Path, dataset: Dataset, grader: Grader
) -> None:
    """Case C071: trouble of the machine is stored as such, tried once more, and open for a resume."""
    planned = plan(dataset, 2)
    unlucky, broken = planned[1].key.id, planned[5].key.id
    tries: Counter[str] = Counter()

    def play(job: Job, _trajectory: Trajectory) -> Episode:
        tries[job.key.id] += 1
        fails = job.key.id == broken or (job.key.id == unlucky and tries[unlucky] == 1)
        return episode(job, "infra_error" if fails else "passed")

    with new_store(tmp_path / "run", dataset, planned) as store:
        told = run(planned, play, store, grader)
        assert tries[unlucky] == tries[broken] == 2
        assert sum(1 for _ in store.lines()) == 10
        assert sum(each.retrying for each in told) == 2
        assert told[-1].finished == told[-1].planned == 8
        assert told[-1].states == {"passed": 7, "infra_error": 1}
        assert store.finished() == {job.key.id for job in planned} - {broken}

        tries.clear()
        told = run(
            planned, lambda job, _: tries.update([job.key.id]) or episode(job), store, grader
        )
        assert tries == {broken: 1}  # a resume runs only what infrastructure lost
        assert told[0].resumed == 7
        assert told[-1].states == {"passed": 8}


def test_the_first_refused_request_stops_the_run(
    tmp_path: Path, dataset: Dataset, grader: Grader
) -> None:
    planned = plan(dataset, 50)
    turn = itertools.count(1)  # hands each thread a number of its own

    def play(job: Job, _trajectory: Trajectory) -> Episode:
        if next(turn) > 5:
            raise ModelRefusedRequest("the key is wrong")
        return episode(job)

    with new_store(tmp_path / "run", dataset, planned) as store:
        with pytest.raises(ModelRefusedRequest, match="the key is wrong"):
            run(planned, play, store, grader)
        assert next(turn) < 20
        assert len(store.finished()) == 5


def test_a_bug_in_a_worker_is_raised_where_the_run_was_started(
    tmp_path: Path, dataset: Dataset, grader: Grader
) -> None:
    planned = plan(dataset, 1)
    with (
        new_store(tmp_path / "run", dataset, planned) as store,
        pytest.raises(ZeroDivisionError),
    ):
        run(planned, lambda _job, _trajectory: 1 // 0, store, grader)  # type: ignore[arg-type, return-value]


def test_a_folder_that_vanishes_stops_the_run_in_one_line(
    tmp_path: Path, dataset: Dataset, grader: Grader
) -> None:
    planned = plan(dataset, 1)

    def play(job: Job, _trajectory: Trajectory) -> Episode:
        (store.folder / "episodes.jsonl").unlink(missing_ok=True)
        (store.folder / "episodes.jsonl").mkdir(exist_ok=True)
        return episode(job)

    with new_store(tmp_path / "run", dataset, planned) as store:
        with pytest.raises(StoreError, match=r"cannot write .*episodes.jsonl") as raised:
            run(planned, play, store, grader, workers=1)
        assert "\n" not in str(raised.value)


def test_memory_does_not_grow_with_the_number_of_episodes(
    tmp_path: Path, dataset: Dataset, grader: Grader
) -> None:
    peaks = []
    for number, samples in enumerate((25, 250, 250)):
        planned = plan(dataset, samples)
        with new_store(tmp_path / f"run{number}", dataset, planned) as store:
            tracemalloc.start()
            work(
                planned,
                lambda: lambda job, _trajectory: episode(job),
                store=store,
                boxes=grader,
                workers=2,
                progress=None,
            )
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    # 900 more episodes of 1.1 KB of code each; what stays is their keys. The less of two: the interpreter's own table of
    # interned strings doubles now and then, by megabytes.
    assert min(peaks[1:]) - peaks[0] < 900 * 1000


def test_the_seed_of_an_episode_depends_on_nothing_but_run_challenge_and_sample() -> None:
    seeds = {
        episode_seed(run, challenge, sample)
        for run in range(3)
        for challenge in ("A/a", "A/b", "A/a1")
        for sample in range(11)
    }
    assert len(seeds) == 99
    assert episode_seed(0, "DyT/forward", 0) == episode_seed(0, "DyT/forward", 0)
    assert all(0 <= seed < 2**48 for seed in seeds)


def test_own_lines_add_up_to_the_lines_of_the_outermost_regions(dataset: Dataset) -> None:
    own = own_lines(dataset.challenges)
    outermost = sum(c.lines for c in dataset.challenges if c.region.parent is None)
    assert sum(own.values()) == outermost


def test_lines_of_a_nested_region_that_is_not_selected_stay_its_parents(dataset: Dataset) -> None:
    """A rate over a subset subtracted regions that were not in the run: 67.6 beside 46.9 percent."""
    nested = [c for c in dataset.challenges if c.region.parent is not None]
    assert nested
    for inner in nested:
        regions = [c for c in inner.paper.challenges if c.file == inner.file]
        outer = regions[inner.region.parent or 0]
        assert own_lines([outer]) == {outer.id: outer.lines}
        assert own_lines([inner, outer]) == {
            outer.id: outer.lines - inner.lines,
            inner.id: inner.lines,
        }
        if outer.region.parent is not None:  # with the region between them left out
            outermost = regions[outer.region.parent]
            assert own_lines([outermost, inner])[outermost.id] == outermost.lines - inner.lines


def test_progress_names_what_is_in_play_and_what_it_waits_for(
    tmp_path: Path, dataset: Dataset, grader: Grader
) -> None:
    """A run that waited ten minutes for a model said nothing but how many episodes were done."""
    planned = plan(dataset, 1)[:1]
    waiting, told = threading.Event(), []

    def play(job: Job, trajectory: Trajectory) -> Episode:
        trajectory.record("start", {"text": ""})
        assert waiting.wait(60)
        return episode(job)

    def hear(progress: Progress) -> None:
        told.append(progress)
        if progress.playing:
            waiting.set()

    with new_store(tmp_path / "run", dataset, planned) as store:
        work(planned, lambda: play, store=store, boxes=grader, workers=1, progress=hear)
    between = next(each for each in told if each.playing)
    assert between.between
    assert between.last is None
    (one,) = between.playing
    assert (one.challenge, one.waits_for) == (planned[0].challenge.id, "its agent")
    assert one.elapsed_s >= 0
    assert not told[-1].playing
