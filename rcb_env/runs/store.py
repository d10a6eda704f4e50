"""A run directory: what was planned, what has been finished, and every step on the way.

    runs/<id>/
      run.json            config, versions, hashes, the plan; written once, whole
      episodes.jsonl      one line per finished episode, in the order they finished
      trajectories/…      one JSON Lines file per attempt at an episode, written step by step
      sessions.jsonl      one line per start or resume: process, versions, sandbox, workers
      lock                held by the one process that writes

Guarantees:
- A line of episodes.jsonl is there whole or not at all, see `rcb_env.runs.durable`.
- One process writes a run at a time; a second one is refused with the first one's process id.
  Readers need no lock, are never held up, and see whole lines only.
- An episode is known by `EpisodeKey`: paper, file, region, sample, agent, model, settings. The last
  line of a key counts; earlier ones (infrastructure failures that were tried again) stay on disk.
- A reader gets only lines that are sound and of this run, see `rcb_env.runs.stored`. Any other counts as missing and
  is named in `problems`, with its number.
- Resuming with another config is refused and the differing keys are named.
Holds plain dicts: the meaning of an episode is `rcb_env.play.episode`'s, scores are
`rcb_env.report.scoring`'s.
Not covered: folders of several runs (`folders`); network file systems without flock; two machines writing one directory.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rcb_env.errors import StoreError
from rcb_env.runs.durable import (
    MODE,
    SCRATCH,
    JsonLines,
    dump,
    write_whole,
    writing,
)
from rcb_env.runs.folders import FORMAT, read_record
from rcb_env.runs.steps import Trajectory, next_file
from rcb_env.runs.stored import EpisodeKey, Plan, digest, wrong_line

INFRA = "infra_error"
Steps = Iterable[tuple[str, Mapping[str, object]]]
"""Records of a trajectory: kind and fields."""
_LOCK_POLL_S = 0.1


class RunStore:
    """One run directory. Made by `create` or `resume` (to write) or `open` (to read)."""

    def __init__(self, folder: Path, record: Mapping[str, Any], lock_fd: int | None) -> None:
        """Not called directly."""
        self.folder = folder
        self.record = record
        """The content of run.json."""
        self.problems: list[str] = []
        """What was found damaged, one line each; for the user to see."""
        self._lock_fd = lock_fd
        self._is_new = False
        self._episodes = JsonLines(folder / "episodes.jsonl")

    @classmethod
    def create(cls, folder: str | Path, record: Mapping[str, Any]) -> RunStore:
        """Start a run in a new or empty folder and hold it for writing.

        Args:
            folder: the run directory.
            record: what run.json is to hold; ``config`` is compared when the run is resumed.

        Raises:
            StoreError: it cannot be written, holds a run already, holds other files, or is in use.
        """
        folder = Path(folder)
        if (folder / "run.json").exists():
            raise StoreError(f"{folder} already holds a run: add --resume, or choose another --out")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # A start that was killed leaves a lock or a scratch file: no reason to refuse the next.
            strangers = sorted(
                path.name
                for path in folder.iterdir()
                if path.name != "lock" and not path.name.startswith(SCRATCH)
            )
        if strangers:
            raise StoreError(
                f"{folder} is not empty (it holds {strangers[0]}): choose another --out"
            )
        lock_fd = _take_lock(folder)
        try:
            # Again under the lock: of two starters that both saw an empty folder one came first.
            if (folder / "run.json").exists():
                raise StoreError(f"{folder} already holds a run: choose another --out")
            write_whole(folder / "run.json", {"format": FORMAT, **record})
            store = cls(folder, read_record(folder), lock_fd)
            store._is_new = True
            return store
        except BaseException:
            os.close(lock_fd)
            raise

    @classmethod
    def resume(
        cls, folder: str | Path, config: Mapping[str, Any], *, wait_s: float = 0.0
    ) -> RunStore:
        """Hold an existing run for writing again and cut off a torn last line.

        Args:
            folder: the run directory.
            config: what this run would be made with; it must be what it was made with.
            wait_s: how long to wait for another writer to be done.

        Raises:
            StoreError: there is no run, it is in use, or the config differs; the keys are named.
        """
        folder = Path(folder)
        record = read_record(folder)
        differences = list(_differences(record.get("config", {}), json.loads(dump(config))))
        if differences:
            raise StoreError(
                f"{folder} was made with another config: {'; '.join(differences)}. "
                "Resume it with the same one, or choose another --out"
            )
        store = cls(folder, record, _take_lock(folder, wait_s))
        try:
            cut = store._episodes.repair()
        except BaseException:
            store.close()
            raise
        if cut:
            store.problems.append(
                f"{folder / 'episodes.jsonl'}: cut off a torn last line ({cut} bytes); "
                "its episode will run again"
            )
        return store

    @classmethod
    def open(cls, folder: str | Path) -> RunStore:
        """Read a run, whether it is being written or not.

        Raises:
            StoreError: there is no run, or its run.json cannot be read.
        """
        folder = Path(folder)
        return cls(folder, read_record(folder), None)

    def append(self, key: EpisodeKey, episode: Mapping[str, Any], trajectory: Trajectory) -> None:
        """Store one finished episode; when this returns it is on the disk. Thread-safe.

        Raises:
            StoreError: it cannot be written; the file is as it was before.
        """
        self._must_hold()
        cut = self._episodes.append(self._line(key, episode, trajectory))
        if cut:
            self.problems.append(
                f"{self.folder / 'episodes.jsonl'}: cut off a torn line ({cut} bytes)"
            )

    def fill(self, episodes: Iterable[tuple[EpisodeKey, Mapping[str, Any], Steps]]) -> None:
        """Store episodes that lie elsewhere already, all in one write, each with the records of its trajectory.

        Raises:
            StoreError: it cannot be written; no episode is stored then.
        """
        self._must_hold()
        lines = []
        for key, episode, steps in episodes:
            path, attempt = next_file(self.folder / "trajectories", key)
            with Trajectory(path, attempt=attempt, durable=False) as trajectory:
                for kind, payload in steps:
                    trajectory.record(kind, payload)
            lines.append(self._line(key, episode, trajectory))
        self._episodes.append(*lines)

    def _line(
        self, key: EpisodeKey, episode: Mapping[str, Any], trajectory: Trajectory
    ) -> dict[str, Any]:
        where = trajectory.path.relative_to(self.folder).as_posix()
        return {
            "key": key.id,
            "attempt": trajectory.attempt,
            "trajectory": where,
            "episode": dict(episode),
        }

    def note_session(self, session: Mapping[str, Any]) -> None:
        """Record under what conditions this process works on the run.

        Raises:
            StoreError: it cannot be written.
        """
        self._must_hold()
        JsonLines(self.folder / "sessions.jsonl").append(session)

    def trajectory(self, key: EpisodeKey) -> Trajectory:
        """A new trajectory for the next attempt at an episode.

        Raises:
            StoreError: it cannot be created.
        """
        self._must_hold()
        path, attempt = next_file(self.folder / "trajectories", key)
        return Trajectory(path, attempt=attempt)

    def discard_if_unused(self) -> None:
        """Remove the files of a run that was made here, so that its folder is free again.

        Nothing is removed of a run that was there before, that holds an episode, or for which anything was spent.
        """
        episodes = self.folder / "episodes.jsonl"
        sessions = JsonLines(self.folder / "sessions.jsonl").numbered(self.problems.append)
        paid = (self.folder / "batch").exists() or any("cut_off" in line for *_, line in sessions)
        if not self._is_new or episodes.exists() or paid:
            return
        shutil.rmtree(self.folder / "trajectories", ignore_errors=True)
        for name in ("sessions.jsonl", "run.json"):
            (self.folder / name).unlink(missing_ok=True)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every sound line, oldest first: key, attempt, trajectory, episode. Memory stays flat."""
        for _, line in self._placed():
            yield line

    def trajectory_of(self, line: Mapping[str, Any]) -> Path:
        """The trajectory that belongs to a line.

        Raises:
            StoreError: it is missing, or is no file of this run.
        """
        path = self.folder / str(line["trajectory"])
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise StoreError(f"{path} is a link out of the run's folder, so it is not read")
        if path.is_file():
            return path
        self.need_trajectories()
        raise StoreError(f"{path} is missing: it holds the steps of {line['episode']['challenge']}")

    def need_trajectories(self) -> None:
        """Refuse a run that was copied without them.

        Raises:
            StoreError: there are episodes, and no folder of trajectories.
        """
        top = self.folder / "trajectories"
        if not top.is_dir() and next(iter(self.lines()), None) is not None:
            raise StoreError(
                f"{top} is missing: it holds every step of the episodes; copy the run's whole folder"
            )

    def latest(self) -> Iterator[dict[str, Any]]:
        """The lines that count: the last one of every key, in the order they were stored."""
        offsets = self.offsets().values()
        return self._episodes.at(offsets) if offsets else iter(())

    def offsets(self) -> dict[str, int]:
        """Where the line that counts is, by key, in the order they were stored; see `at`."""
        last: dict[str, int] = {}
        for offset, line in self._placed():
            last.pop(line["key"], None)
            last[line["key"]] = offset
        return last

    def at(self, offset: int) -> dict[str, Any]:
        """The line at an offset, so that many of them need not be held in memory."""
        return next(self._episodes.at([offset]))

    def _placed(self) -> Iterator[tuple[int, dict[str, Any]]]:
        def note(problem: str) -> None:
            if problem not in self.problems:
                self.problems.append(problem)

        path = self._episodes.path
        if not path.exists():
            if self._lock_fd is None:  # whoever writes the run is about to make it
                note(f"{path} is missing: no episode has finished, or it was not copied")
            return
        plan = Plan(self.record)
        for number, offset, line in self._episodes.numbered(note):
            reason = wrong_line(line) or plan.stranger(line)
            if reason is None:
                yield offset, line
            else:
                note(f"{path}:{number}: counts as missing: {reason}")

    def finished(self) -> set[str]:
        """Ids of the keys that need no further attempt: stored, and not as infrastructure."""
        state = {line["key"]: line["episode"].get("status") for line in self.lines()}
        return {key for key, status in state.items() if status not in (None, INFRA)}

    def close(self) -> None:
        """Let go of the run; safe to call twice."""
        fd, self._lock_fd = self._lock_fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> RunStore:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the run."""
        self.close()

    def _must_hold(self) -> None:
        if self._lock_fd is None:
            raise StoreError(f"{self.folder} is open for reading only")


def _take_lock(folder: Path, wait_s: float = 0.0) -> int:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return _take_lock_now(folder)
        except StoreError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOCK_POLL_S)


def _take_lock_now(folder: Path) -> int:
    path = folder / "lock"
    with writing(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StoreError(f"cannot lock {path}: {error.strerror}") from error
        raise StoreError(
            f"{folder} is being written by process {holder}: "
            "wait until it is done, or choose another --out"
        ) from None
    try:
        with writing(path):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
    except StoreError:
        os.close(fd)
        raise
    return fd


def _differences(there: object, here: object, path: str = "") -> Iterator[str]:
    """The keys whose values differ, dotted, with both values."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys()):
            dotted = f"{path}.{key}" if path else key
            yield from _differences(there.get(key), here.get(key), dotted)
    elif there != here:
        yield f"{path} was {_short(there)} and is now {_short(here)}"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:40]}… ({digest(value)})"
