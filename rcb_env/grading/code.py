"""Which code decides scores, as one hash: records and caches of verdicts name it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_PLACES = ("flow", "holes", "imports", "joint", "layout", "markers", "papers", "regions", "surface")
"""Modules of `dataset/` that say where an answer goes, and what else lies in the tree."""
_DECIDES = (
    "grading/*.py",
    "runner/*.py",
    *(f"dataset/{name}.py" for name in _PLACES),
    "cases.py",
    "outputs.py",
    "judging.py",
    "mutation.py",
    "edits.py",
)


def deciding() -> tuple[Path, ...]:
    """The files of that code."""
    return tuple(path for pattern in _DECIDES for path in sorted(_PACKAGE.glob(pattern)))


@functools.cache  # one process has one answer, also when somebody edits the code meanwhile
def grading_code() -> str:
    """Hash of the code that turns a candidate into a verdict; the same on every machine."""
    state = hashlib.sha256()
    for path in deciding():
        state.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
        state.update(path.read_bytes())
    return state.hexdigest()
