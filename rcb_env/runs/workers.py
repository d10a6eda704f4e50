"""Worker threads that work off planned episodes, and how they stop.

Guarantees:
- An episode is on the disk before it is reported; memory does not grow with their number.
- An episode that infrastructure ended is tried once more; both attempts are stored.
- The first error that would hit every further episode (a wrong API key, a full disk, no sandbox)
  stops the run and is raised in the caller's thread.
- SIGINT and SIGTERM stop the run in seconds: the grader closes its boxes, workers are left to end
  on their own (they are daemons: one that waits for a model is not waited for), what is finished
  stays. An episode that the stop itself ended is not stored: it is missing, not infrastructure.
Not covered: what an episode is (`playing.py`, `regrading.py`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

from rcb_env.errors import RcbError
from rcb_env.play.agent import Usage
from rcb_env.play.record import Episode
from rcb_env.runs.plan import Job, now, versions
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.store import INFRA, RunStore
from rcb_env.runs.telling import Played, Progress, Teller

Play = Callable[[Job, Trajectory], Episode]


class Boxes(Protocol):
    """Where the code of a run runs, as far as its workers must know."""

    def describe(self, images: Iterable[str]) -> dict[str, Any]:
        """What a run records about it."""
        ...

    def close(self) -> None:
        """End everything that runs there."""
        ...


ATTEMPTS = 2
_POLL_S = 0.2
_GRACE_S = 3.0  # for workers to end after a stop


class Interrupted(RcbError):
    """A run was stopped by a signal; `exit_code` is what the process should end with."""

    def __init__(self, signum: int, folder: object, finished: int, planned: int) -> None:
        name = signal.Signals(signum).name
        super().__init__(
            f"stopped by {name}: {finished} of {planned} episodes are in {folder}; "
            "continue with --resume"
        )
        self.exit_code = 128 + signum


@dataclass
class _Shared:
    """What workers and the caller's thread share."""

    todo: queue.SimpleQueue[Job]
    done: queue.SimpleQueue[tuple[Episode, bool, list[str]] | BaseException | None] = field(
        default_factory=queue.SimpleQueue
    )
    """Finished episodes with whether they are tried again and warnings, errors, and None for a worker's end."""
    caught: list[int] = field(default_factory=list)
    """Signals that came, the first one first."""
    played: Played = field(default_factory=Played)
    over: bool = False
    """Set when the caller's thread no longer takes results."""

    @property
    def stopping(self) -> bool:
        """Whether workers are to end; true from the instant a signal is handled."""
        return self.over or bool(self.caught)


def work(
    jobs: Sequence[Job],
    make_play: Callable[[], Play],
    *,
    store: RunStore,
    boxes: Boxes,
    workers: int,
    progress: Callable[[Progress], None] | None,
    usage: Callable[[], Usage] | None = None,
) -> None:
    """Work off the jobs that the store has no result for.

    Args:
        jobs: the whole plan.
        make_play: called once in each worker; gives what plays one job.
        store: open for writing.
        boxes: used by what `make_play` gives; closed here when the run is stopped.
        workers: threads.
        progress: called in the caller's thread.
        usage: says what model calls took so far; None: no model is asked.

    Raises:
        Interrupted: SIGINT or SIGTERM came.
        RcbError: what would stop every further episode too.
    """
    states = _stored_states(store, jobs)
    todo = [job for job in jobs if states.get(job.key.id) in (None, INFRA)]
    _note_session(store, boxes, jobs, workers=workers, still_open=len(todo))
    shared = _Shared(queue.SimpleQueue())
    for job in todo:
        shared.todo.put(job)
    threads = [
        threading.Thread(
            target=_worker, args=(n, shared, make_play, store), daemon=True, name=f"rcb-worker-{n}"
        )
        for n in range(min(workers, len(todo)))
    ]
    there = ((job.challenge.paper.published_id, states.get(job.key.id, INFRA)) for job in jobs)
    told = Teller(
        progress,
        shared.played,
        planned=len(jobs),
        workers=len(threads),
        stored=[each for each in there if each[1] != INFRA],
        usage=usage,
    )
    with _signals(shared.caught):
        try:
            told.tell(None)
            for thread in threads:
                thread.start()
            _take_results(shared, len(threads), told)
        finally:
            _end(shared, threads, boxes)
        if shared.caught:
            finished = count_finished(store, jobs)
            raise Interrupted(shared.caught[0], store.folder, finished, len(jobs))


def _note_session(
    store: RunStore, boxes: Boxes, jobs: Sequence[Job], *, workers: int, still_open: int
) -> None:
    store.note_session(
        {
            "started_at": now(),
            "pid": os.getpid(),
            "workers": workers,
            "open": still_open,
            "sandbox": boxes.describe(job.challenge.paper.image for job in jobs),
            "versions": versions(),
        }
    )


def _take_results(shared: _Shared, running: int, told: Teller) -> None:
    """Take what workers have finished, until the last one ends or a signal comes.

    Raises:
        BaseException: what a worker failed of.
    """
    while running and not shared.caught:
        try:
            event = shared.done.get(timeout=_POLL_S)
        except queue.Empty:
            told.look()
            continue
        if event is None:
            running -= 1
        elif isinstance(event, BaseException):
            raise event
        else:
            episode, retrying, warnings = event
            told.tell(episode, retrying=retrying, warnings=warnings)


def _end(shared: _Shared, threads: Sequence[threading.Thread], boxes: Boxes) -> None:
    """Have workers end, and wait a moment for them."""
    stopped_early = any(thread.is_alive() for thread in threads)
    shared.over = True
    if stopped_early:
        boxes.close()
    deadline = time.monotonic() + _GRACE_S
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))


def count_finished(store: RunStore, jobs: Sequence[Job]) -> int:
    """How many of the jobs have a result that counts."""
    return sum(status != INFRA for status in _stored_states(store, jobs).values())


def _worker(me: int, shared: _Shared, make_play: Callable[[], Play], store: RunStore) -> None:
    try:
        play = make_play()
        while not shared.stopping:
            try:
                job = shared.todo.get_nowait()
            except queue.Empty:
                break
            for attempt in range(1, ATTEMPTS + 1):
                with store.trajectory(job.key) as trajectory:
                    shared.played.by_worker[me] = (job, trajectory, time.monotonic())
                    episode = play(job, trajectory)
                    del shared.played.by_worker[me]
                if shared.stopping and episode.status == INFRA:
                    return  # the boxes were closed under it: what it says is about us
                retrying = episode.status == INFRA and attempt < ATTEMPTS
                store.append(job.key, episode.to_dict(), trajectory)
                shared.done.put((episode, retrying, trajectory.warnings))
                if not retrying:
                    break
    except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
        shared.done.put(error)
    else:
        shared.done.put(None)


def _stored_states(store: RunStore, jobs: Sequence[Job]) -> dict[str, str]:
    """The state that counts for each planned key that has one."""
    planned = {job.key.id for job in jobs}
    return {
        line["key"]: str(line["episode"].get("status"))
        for line in store.lines()
        if line["key"] in planned and line["episode"].get("status")
    }


@contextlib.contextmanager
def _signals(caught: list[int]) -> Iterator[None]:
    """Collect SIGINT and SIGTERM instead of being interrupted anywhere.

    A second signal changes nothing: stopping is bounded already, and cutting it short would leave
    boxes behind. Only the main thread can do this; elsewhere the caller's handlers stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def catch(signum: int, _frame: FrameType | None) -> None:
        caught.append(signum)

    before = {signum: signal.signal(signum, catch) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
