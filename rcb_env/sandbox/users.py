"""Users for boxes that root makes: each box runs as one that no other box of this machine has.

The kernel counts processes, and other things it limits, for a user; boxes of two drivers with one user would take them
from each other. A user is held by a lock on a file, which the kernel lets go when its driver ends, however it ends.
Not covered: drivers that see different folders for temporary files (in containers, for instance). There only chance,
one in a million, and the box's user namespace (`runner/namespaces.py`) keep users apart.
"""

from __future__ import annotations

import fcntl
import os
import random
import tempfile
from pathlib import Path

_FIRST, _COUNT = (
    1_000_000,
    1_000_000,
)  # beyond people, services, and what systems give to containers first
_PLACES = ("/run", "/run/lock")
_FOLDER = "rcb-env-users"
_draw = random.SystemRandom()


class User:
    """A user for one box, held until it is let go."""

    def __init__(self) -> None:
        folder = _folder()
        while True:
            self.uid = _FIRST + _draw.randrange(_COUNT)
            self._file = folder / str(self.uid)
            self._lock = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                continue
            if _is_at(
                self._lock, self._file
            ):  # else somebody let it go, and removed it, in between
                return
            os.close(self._lock)

    def let_go(self) -> None:
        """Let others have this user; the box must have ended. Idempotent."""
        if self._lock >= 0:
            self._file.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _folder() -> Path:
    place = next((p for p in _PLACES if os.access(p, os.W_OK)), tempfile.gettempdir())
    folder = Path(place, _FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
