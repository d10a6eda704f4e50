"""Which code decides scores, as one hash: records and caches of verdicts name it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_DECIDES = (
    "grading/*.py",
    "runner/*.py",
    "dataset/imports.py",
    "cases.py",
    "judging.py",
    "mutation.py",
)


@functools.cache  # one process has one answer, also when somebody edits the code meanwhile
def grading_code() -> str:
    """Hash of the code that turns a candidate into a verdict; the same on every machine."""
    state = hashlib.sha256()
    for pattern in _DECIDES:
        for path in sorted(_PACKAGE.glob(pattern)):
            state.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
            state.update(path.read_bytes())
    return state.hexdigest()
