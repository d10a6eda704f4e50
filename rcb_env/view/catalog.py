"""The runs below a folder, by the names that addresses have.

A run is named by its path below the folder, such as ``demo/repair``; the folder itself, where it is a run, by its own name.
A name is looked up among the runs that are there and never made into a path, so no address leads anywhere else.

Guarantees: links that lead out of the folder are not followed. A run that appears later is found by itself. One that
cannot be read is listed with the reason.
Not covered: what the runs hold (`index.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError, UsageError
from rcb_env.runs.store import RunStore
from rcb_env.view.index import Index

_DEEPEST = 4  # folders below the one that is shown
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True)
class Run:
    """One run, as far as it was read."""

    name: str
    """In addresses."""
    store: RunStore
    index: Index

    @property
    def agent(self) -> str:
        """Who played."""
        return str(self.store.record.get("config", {}).get("agent", ""))

    @property
    def model(self) -> str:
        """Whom it asked, or ""."""
        model = self.store.record.get("config", {}).get("model") or ""
        return str(model.get("name", "") if isinstance(model, dict) else model)

    @property
    def label(self) -> str:
        """Agent and model in one short text."""
        return f"{self.agent} ({self.model})" if self.model else self.agent

    @property
    def created_at(self) -> str:
        """ISO 8601, UTC, or ""."""
        return str(self.store.record.get("created_at") or "")

    @property
    def dataset(self) -> str:
        """What loads the data set it is over, or ""."""
        return str(self.store.record.get("dataset", {}).get("source") or "")

    @cached_property
    def planned(self) -> dict[str, dict[str, Any]]:
        """The plan's entries by challenge id."""
        return {entry["challenge"]: entry for entry in self.store.record.get("plan", ())}


class Catalog:
    """What `rcb view` shows: the runs below one folder.

    Args:
        root: a run, or a folder that holds runs, up to four folders deep.
        cache: where their indexes are kept; None: in the user's cache.
    """

    def __init__(self, root: str | Path, *, cache: Path | None = None) -> None:
        self.root = Path(root)
        self._cache = cache
        self._lock = threading.Lock()
        self._runs: dict[str, tuple[tuple[int, ...], Run]] = {}
        self._broken: dict[str, str] = {}
        self._looked_at = float("-inf")

    def runs(self) -> list[Run]:
        """The runs that can be read, the newest first."""
        self._look()
        found = [run for _, run in self._runs.values()]
        return sorted(found, key=lambda run: (run.created_at, run.name), reverse=True)

    def broken(self) -> dict[str, str]:
        """Those that cannot, with the reason."""
        self._look()
        return dict(self._broken)

    def run(self, name: str) -> Run:
        """The run of a name.

        Raises:
            UsageError: there is none.
            StoreError: it cannot be read.
        """
        self._look()
        if name in self._broken:
            raise StoreError(self._broken[name])
        if name not in self._runs:
            raise UsageError(
                f"there is no run {name!r} below {self.root}; see the list of all runs"
            )
        return self._runs[name][1]

    def _look(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at < _LOOK_AGAIN_S:
                return
            if not self.root.is_dir():
                raise UsageError(f"{self.root}: no such folder; name one that holds runs")
            found, broken = {}, {}
            for name, folder in self._folders():
                try:
                    there = (folder / "run.json").stat()
                    known = (there.st_ino, there.st_size, there.st_mtime_ns)
                    before = self._runs.get(name)
                    if before is None or before[0] != known:
                        store = RunStore.open(folder)
                        before = known, Run(name, store, Index(store, cache=self._cache))
                    found[name] = before
                except (StoreError, OSError) as error:
                    broken[name] = str(error)
            self._runs, self._broken, self._looked_at = found, broken, now

    def _folders(self) -> Iterator[tuple[str, Path]]:
        """Name and folder of each run."""
        top = self.root.resolve()
        if (top / "run.json").is_file():
            yield top.name or "run", self.root
            return
        for folder, inner, files in os.walk(self.root):
            path = Path(folder)
            depth = len(path.relative_to(self.root).parts)
            if "run.json" in files:
                inner.clear()
                parts = (path / file for file in ("run.json", "episodes.jsonl"))
                if all(part.resolve().is_relative_to(top) for part in parts):
                    yield path.relative_to(self.root).as_posix(), path
            elif depth >= _DEEPEST:
                inner.clear()
            else:
                inner[:] = sorted(name for name in inner if not name.startswith("."))
