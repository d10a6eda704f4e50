"""Files that outlive whatever ends their writer: JSON Lines that grow record by record, and JSON written whole.

- A record is in the file whole or not at all: one write, then fsync, under a file lock. A write that the disk cuts short is
  taken back and raised as `StoreError`.
- What a killed writer left of a line is cut off by the next writer and reported, never parsed.
- Readers need no lock, are never held up, and see whole records only.
Not covered: network file systems without flock; two machines writing one file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError

MODE = 0o644
SCRATCH = ".unfinished."
"""How the names of files begin that are not whole yet."""

_TAIL_BLOCK_BYTES = 1 << 16
_DEEPEST = (
    200  # a record nested deeper is damage: whoever walks through it would overflow the stack
)


class JsonLines:
    """An append-only file of JSON objects that several processes may append to at once."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before the first append or read."""
        self.path = path
        self._thread_lock = threading.Lock()

    def append(self, *records: Mapping[str, object]) -> int:
        """Add a record, or several at once, and wait until they are on the disk.

        Returns:
            Bytes of a torn line that an earlier writer left and that were cut off first.

        Raises:
            StoreError: no space, no permission, a size limit; the file is as it was before.
        """
        lines = b"".join(dump(record) + b"\n" for record in records)
        with self._thread_lock, writing(self.path):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, MODE)
            try:
                # Held for this one write only, so writers take turns and readers need no lock.
                fcntl.flock(fd, fcntl.LOCK_EX)
                cut = _cut_torn_tail(fd)
                size = os.fstat(fd).st_size
                try:
                    write_all(fd, lines)
                    os.fsync(fd)
                    if size == 0:
                        sync_folder(self.path.parent)
                except OSError:
                    take_back(fd, size)
                    raise
            finally:
                os.close(fd)
        return cut

    def repair(self) -> int:
        """Cut off what a killed writer left of a line; returns the number of bytes cut."""
        if not self.path.exists():
            return 0
        with self._thread_lock, writing(self.path):
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                return _cut_torn_tail(fd)
            finally:
                os.close(fd)

    def read(self, on_problem: Callable[[str], None] | None = None) -> Iterator[dict[str, Any]]:
        """Every whole record, one at a time; a line without its newline is not there yet.

        Args:
            on_problem: told about lines that are no JSON object (a damaged disk, an edit by hand),
                as ``path:line: reason``; they are passed over. By default they raise.

        Raises:
            StoreError: the file cannot be read, or a line is damaged and nobody is told.
        """
        for _, _, record in self.numbered(on_problem):
            yield record

    def numbered(
        self, on_problem: Callable[[str], None] | None = None
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """As `read`, each record with the number of its line, from 1, and the byte offset that `at` takes."""
        offset = 0
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if not line.endswith(b"\n"):
                        return
                    record = _object(line)
                    if record is not None:
                        yield number, offset, record
                    else:
                        problem = (
                            f"{self.path}:{number}: not a JSON object, so it counts as missing"
                        )
                        if on_problem is None:
                            raise StoreError(problem)
                        on_problem(problem)
                    offset += len(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error

    def at(self, offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The records at some offsets from `numbered`.

        Raises:
            StoreError: they cannot be read, or the file was changed.
        """
        try:
            with self.path.open("rb") as file:
                for offset in offsets:
                    file.seek(offset)
                    record = _object(file.readline())
                    if record is None:
                        raise StoreError(f"{self.path} was changed while it was read: start again")
                    yield record
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error


def write_whole(path: Path, value: object) -> None:
    """Write a file so that a reader, or a power cut, sees all of it or nothing."""
    scratch = path.with_name(f"{SCRATCH}{os.getpid()}")
    with writing(path):
        try:
            fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
            try:
                write_all(fd, json.dumps(value, indent=2).encode("ascii") + b"\n")
                os.fsync(fd)
            finally:
                os.close(fd)
            scratch.replace(path)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the names of new files last; without it a power cut can lose a file that was fsynced."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def dump(value: object, *, sort_keys: bool = False) -> bytes:
    """A JSON-like value on one line."""
    # ASCII only: text from models may hold lone surrogates, which UTF-8 cannot carry.
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":")).encode("ascii")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system says about a write into one line with the next move.

    Raises:
        StoreError: for any OSError of the block.
    """
    try:
        yield
    except OSError as error:
        move = {
            errno.ENOSPC: "free some space, then resume the run",
            errno.EDQUOT: "free some space, then resume the run",
            errno.EFBIG: "raise the file size limit (ulimit -f), then resume the run",
        }.get(error.errno or 0, "choose a folder you can write to with --out")
        reason = error.strerror or str(error)
        raise StoreError(f"cannot write {path}: {reason}; {move}") from error


def write_all(fd: int, data: bytes) -> None:
    """One write; only when the system takes less than all of it, more, until it says why."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def take_back(fd: int, size: int) -> None:
    """Undo a write that was cut short; if even that fails, the next writer cuts the torn tail."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, size)


def _cut_torn_tail(fd: int) -> int:
    """Truncate a file to its last newline; returns the number of bytes cut."""
    size = end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - _TAIL_BLOCK_BYTES)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(fd, end)
        os.fsync(fd)
    return size - end


def _object(line: bytes) -> dict[str, Any] | None:
    record = parsed(line)
    return record if isinstance(record, dict) else None


def parsed(text: bytes) -> Any:
    """The value of a JSON text; None if it is none, or nested too deeply to be worked with."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if text.count(b"[") + text.count(b"{") <= _DEEPEST:
        return value
    layer = [value]
    for _ in range(_DEEPEST):
        layer = [
            item
            for each in layer
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return None if any(isinstance(each, dict | list) for each in layer) else value
