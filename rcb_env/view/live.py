"""Whether somebody writes a run now, and which episodes are in play.

Both are read off the process that its lock names: it has the lock and the trajectories of the episodes in play open. So the
run is not touched, least of all its lock, and a process that was killed is never taken for a writer.
Not covered: writers of another user, of another machine, or on a system without /proc. Those are not seen; their episodes
appear all the same when they are stored.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Writer:
    """A process that works on a run."""

    pid: int
    trajectories: tuple[str, ...]
    """Of episodes in play: paths in the run's folder."""


def writer_of(folder: Path) -> Writer | None:
    """Who writes the run of a folder; None: nobody, as far as can be seen."""
    lock = folder.resolve() / "lock"
    try:
        with lock.open("rb") as file:
            found = re.fullmatch(rb"(\d{1,9})\n?", file.read(32))
    except OSError:
        return None
    if found is None:
        return None
    pid = int(found[1])
    opened = list(_open_files(pid))
    if str(lock) not in opened:
        return None
    top = f"{lock.parent}{os.sep}"
    inside = {path.removeprefix(top) for path in opened if path.startswith(f"{top}trajectories")}
    return Writer(pid, tuple(sorted(inside)))


def _open_files(pid: int) -> Iterator[str]:
    folder = Path(f"/proc/{pid}/fd")
    try:
        links = list(folder.iterdir())
    except OSError:
        return
    for link in links:
        with contextlib.suppress(OSError):  # closed in between
            yield str(link.readlink())
