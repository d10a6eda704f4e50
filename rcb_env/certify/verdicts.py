"""Verdicts by content, so that what was judged once is not judged again.

Guarantees: a verdict is found again only if the graded tree, the paper's tests and limits, the code
that grades, and the versions of Python, numpy and torch are the same.
Not covered: what is asked and what follows from the answers (run.py, `rcb_env.certify.suites`).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
import threading
from pathlib import Path

from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.grading.code import grading_code


class Verdicts:
    """Verdicts by content, in memory and in one file of the cache folder. Thread-safe.

    Args:
        folder: the cache folder; None: memory only.
        paper: whose.
    """

    def __init__(self, folder: Path | None, paper: Paper) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._path = None if folder is None else folder / f"{paper.id}.jsonl"
        fixed = hashlib.sha256(machinery().encode())
        for path, data in paper.tests.items():
            fixed.update(f"{path}\0{len(data)}\0".encode() + data)
        fixed.update(f"{paper.id} {paper.image}".encode())
        fixed.update(f"{paper.time_limit_s} {paper.memory_limit_mb}".encode())
        self._fixed = fixed
        if self._path is not None and self._path.is_file():
            for line in self._path.read_text().splitlines():
                try:
                    record = json.loads(line)
                    self._known[record["key"]] = record["value"]
                except (ValueError, KeyError, TypeError):
                    continue  # a torn line of a run that was killed

    def key(self, challenge: Challenge, code: str, *more: object) -> str:
        """Equal if the file to be graded and all that grades it are equal, whatever the region."""
        state = self._fixed.copy()
        state.update(f"{' '.join(challenge.files)}\0{more!r}".encode())
        for path, data in challenge.tree(code).items():
            state.update(f"{path}\0{len(data)}\0".encode() + data)
        return state.hexdigest()

    def get(self, key: str) -> str | None:
        """What was put under a key; None: nothing yet."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: str, value: str) -> None:
        """Keep a verdict."""
        with self._lock:
            self._known[key] = value
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a") as file:
                    file.write(json.dumps({"key": key, "value": value}) + "\n")


@functools.cache
def machinery() -> str:
    """Hash of all that turns any candidate into a verdict here: the code, and the versions in use."""
    state = hashlib.sha256(f"{grading_code()} {platform.python_version()}".encode())
    for name in ("numpy", "torch"):
        try:
            state.update(f"{name} {importlib.metadata.version(name)}".encode())
        except importlib.metadata.PackageNotFoundError:
            continue
    return state.hexdigest()
