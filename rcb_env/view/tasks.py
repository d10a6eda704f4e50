"""A run's challenges, as they are on this machine.

Guarantees: a challenge is shown with a run only if it is, by its content hash, the one that was played; else it is said why
not. Data sets are loaded once.
Not covered: what an agent was shown of it, which is the start of each trajectory.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.sections import Sections
from rcb_env.errors import RcbError
from rcb_env.view.catalog import Run

_loading = threading.Lock()


@dataclass(frozen=True)
class Known:
    """A challenge of a run, or why it cannot be shown."""

    challenge: Challenge | None
    why: str = ""


def task(run: Run, name: str) -> Known:
    """What a run's challenge is."""
    entry = run.planned.get(name)
    if entry is None:
        return Known(None, "it is not in the plan of this run")
    found = _dataset(run.dataset)
    if isinstance(found, str):
        return Known(None, found)
    try:
        challenge = found.challenge(name)
    except RcbError as error:
        return Known(None, str(error))
    if entry.get("content_hash") not in ("", None, challenge.content_hash):
        return Known(None, f"the data set {found.name} holds another version of it than was played")
    return Known(challenge)


def load(run: Run) -> None:
    """Have the run's data set ready, if it is on this machine."""
    _dataset(run.dataset)


def sections(challenge: Challenge) -> tuple[str, str]:
    """What the paper says of the missing part, and how much of it that is, in words."""
    parts = Sections(challenge.paper.text, *challenge.topic())
    best = parts.best()
    return parts.joined(best), f"{len(best)} of {len(parts.parts)} sections"


def _dataset(source: str) -> Dataset | str:
    with _loading:
        return _loaded(source)


@functools.lru_cache(maxsize=16)
def _loaded(source: str) -> Dataset | str:
    """The data set, or why there is none."""
    if not source:
        return "the run does not say which data set it is over"
    try:
        return load_dataset(source)
    except (RcbError, OSError) as error:
        return str(error)
