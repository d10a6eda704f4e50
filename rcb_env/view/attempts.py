"""The attempts at an episode: those that are stored, and the one in play.

Guarantees: a trajectory is read only if the run's index or its writer names it, and only inside the run's folder; what is
damaged in it is named.
Not covered: what the records mean (`steps.py`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError, UsageError
from rcb_env.runs.durable import JsonLines
from rcb_env.view.catalog import Run
from rcb_env.view.live import Writer, writer_of


@dataclass(frozen=True)
class Found:
    """One attempt at an episode, as it was stored or as far as it is."""

    trajectory: str
    """Its path in the run's folder, or ""."""
    records: Sequence[Mapping[str, Any]]
    episode: Mapping[str, Any]
    """As stored; empty while it is in play."""
    number: int | None
    offset: int | None
    problems: Sequence[str]

    @property
    def verdict(self) -> Mapping[str, Any]:
        """On the answer, or nothing."""
        verdict = self.episode.get("verdict")
        return verdict if isinstance(verdict, Mapping) else {}

    @property
    def in_play(self) -> bool:
        """Whether it is not stored yet."""
        return not self.episode


def chosen(run: Run, row: sqlite3.Row, tried: Sequence[sqlite3.Row], asked: str | None) -> Found:
    """The attempt that is asked for: by its number; else the one that counts; else the one in play."""
    those = [each for each in tried if str(each["number"]) == asked] if asked else tried
    if asked and not those:
        raise UsageError(f"there is no attempt {asked} at {row['challenge']} in {run.name}")
    if those:
        line = run.store.at(those[-1]["offset"])
        try:
            path = run.store.trajectory_of(line)
        except StoreError as error:
            return Found(
                "", (), line["episode"], line["attempt"], those[-1]["offset"], [str(error)]
            )
        problems: list[str] = []
        records = list(JsonLines(path).read(problems.append))
        return Found(
            line["trajectory"],
            records,
            line["episode"],
            line["attempt"],
            those[-1]["offset"],
            problems,
        )
    for name, start in in_play(run, writer_of(run.store.folder)):
        if (start.get("challenge"), start.get("sample")) == (row["challenge"], row["sample"]):
            records = list(JsonLines(trajectory(run, name)).read(lambda _problem: None))
            return Found(name, records, {}, None, None, ())
    return Found("", (), {}, None, None, ())


def in_play(run: Run, writer: Writer | None) -> list[tuple[str, Mapping[str, Any]]]:
    """Trajectories that are being written, each with its first record."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for path in writer.trajectories if writer else ():
        start = next(JsonLines(run.store.folder / path).read(lambda _problem: None), None)
        if start is not None and isinstance(start.get("challenge"), str):
            found.append((path, start))
    return found


def trajectory(run: Run, name: str) -> Path:
    """The file of a trajectory that the run has, by its path there.

    Raises:
        UsageError: it has none of that path.
    """
    with run.index.reading() as db:
        known = db.execute("SELECT 1 FROM attempt WHERE trajectory = ?", [name]).fetchone()
    writer = writer_of(run.store.folder)
    if known is None and not (writer and name in writer.trajectories):
        raise UsageError(f"{run.name} has no such trajectory")
    return run.store.trajectory_of({"trajectory": name, "episode": {"challenge": name}})
