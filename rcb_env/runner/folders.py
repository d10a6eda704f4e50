"""The folders of a box in which a run may write: what a run gets in them, what it made, and how they are emptied.

Nobody of the run is left when a folder is emptied, so nothing can be put in the way meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

TREE = Path("/work/tree")
SCRATCH = (Path("/work"), Path("/tmp"), Path("/dev/shm"))


def stage(paths: list[str], contents: list[bytes]) -> None:
    """Write the files of a run, by path below `TREE`."""
    TREE.mkdir(parents=True)
    made = {TREE}
    for path, content in zip(paths, contents, strict=True):
        target = TREE / path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        target.write_bytes(content)


def empty(folder: Path) -> bool:
    """Remove what is in a folder, whatever its modes; nobody is left who could put something in its place meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        _remove_entries(str(folder))
        return not os.listdir(folder)
    return True


def _remove_entries(folder: str) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            _remove_entries(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def attributes(folder: Path) -> tuple[object, ...]:
    """What code may change of a scratch folder where it owns it; the times are put back."""
    with contextlib.suppress(PermissionError):
        os.utime(folder, (0, 0))
    status = folder.stat()
    return status.st_mode, status.st_uid, status.st_gid, tuple(os.listxattr(folder))


def count_files() -> int:
    """How many files and folders a run has made."""
    total = 0
    for folder in SCRATCH:
        with contextlib.suppress(OSError):
            space = os.statvfs(folder)
            total += space.f_files - space.f_ffree
    return total
