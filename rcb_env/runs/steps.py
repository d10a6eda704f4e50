"""The file of one attempt at an episode: every step, written as it happens.

Guarantees: what is written survives a kill of this process; a record is there whole or not at all.
Not covered: what a record means (`rcb_env.play.episode`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rcb_env.runs.durable import MODE, dump, take_back, write_all, writing
from rcb_env.runs.stored import EpisodeKey


class Trajectory:
    """The steps of one attempt, on disk as they happen."""

    def __init__(self, path: Path, *, attempt: int, durable: bool = True) -> None:
        """Create the file.

        Args:
            path: where.
            attempt: which one it is.
            durable: whether to wait at the end until it is on the disk.

        Raises:
            StoreError: it cannot be created.
        """
        self.path = path
        self.attempt = attempt
        self._durable = durable
        self.last_kind = ""
        """Of the record that was written last; "" before the first."""
        self.steps = 0
        """How many records are of steps."""
        self.warnings: list[str] = []
        """Texts of the records of that kind, for the user to see."""
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            self._fd: int | None = os.open(path, flags, MODE)

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        """Write one record at once; what is written survives a kill of this process.

        Raises:
            StoreError: it cannot be written.
        """
        if self._fd is None:
            raise ValueError(f"{self.path} is closed")
        with writing(self.path):
            size = os.fstat(self._fd).st_size
            try:
                write_all(self._fd, dump({"kind": kind, **payload}) + b"\n")
            except OSError:
                take_back(self._fd, size)
                raise
        self.last_kind = kind
        self.steps += kind == "step"
        if kind == "warning":
            self.warnings.append(str(payload.get("text", "")))

    def close(self) -> None:
        """Put everything on the disk; safe to call twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with writing(self.path):
                try:
                    if self._durable:
                        os.fsync(fd)
                finally:
                    os.close(fd)

    def __enter__(self) -> Trajectory:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def next_file(folder: Path, key: EpisodeKey) -> tuple[Path, int]:
    """The file for the next attempt at an episode, and the attempt's number.

    An attempt that was killed has left its file; the next one gets a file of its own with the
    attempt's number in the name, so repeated work can be seen and nothing is written over.
    """
    stem = folder / _file_stem(key)
    attempt = 1
    while (path := _attempt_path(stem, attempt)).exists():
        attempt += 1
    return path, attempt


def _file_stem(key: EpisodeKey) -> str:
    """A readable relative path that is unique for the key whatever the names hold."""
    readable = "/".join(
        re.sub(r"[^A-Za-z0-9._-]", "_", part)[:80].lstrip(".") or "_"
        for part in key.region.split("/")
    )
    if readable != key.region:
        readable = f"{readable}-{key.id}"
    return f"{readable}.{key.sample}"


def _attempt_path(stem: Path, attempt: int) -> Path:
    suffix = ".jsonl" if attempt == 1 else f".attempt{attempt}.jsonl"
    return stem.with_name(stem.name + suffix)
