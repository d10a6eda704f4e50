"""Temporary folders that are removed also after a kill.

A folder is locked as long as its maker lives; one that nobody locks is the rest of a process that was killed, and
`remove_leftovers` takes it away. The same holds for environments of boxes whose build was cut short.
Not covered: what boxes write. It lies in memory of theirs and ends with them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rcb_env.sandbox import images

_PREFIX = "rcb-scratch-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new temporary folder for the length of a ``with`` block."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_leftovers() -> list[Path]:
    """Remove what killed processes left, where this user may; returns the folders that are gone."""
    found = [(folder, folder) for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")]
    found += [(folder, lock) for folder, lock in images.unfinished()]
    gone = []
    for folder, lock in found:
        with contextlib.suppress(OSError), _locked(lock):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                gone.append(folder)
    return sorted(gone)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that nobody holds; OSError when somebody does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
