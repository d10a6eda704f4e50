"""How far a run is: told before its first episode, after each, and now and then between.

Guarantees: telling costs no more with many episodes than with few.
Not covered: who shows it (`rcb_env.cli.session`), and where its episodes come from (`workers.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rcb_env.play.agent import Usage
from rcb_env.play.record import Episode
from rcb_env.runs.plan import Job
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.store import INFRA

_TELL_S = 1.0  # between two looks at what is in play
_WAITS_FOR = {
    "": "its start",
    **dict.fromkeys(("start", "model", "prompt_plan"), "its agent"),
    **dict.fromkeys(("model_call", "extraction"), "its tests"),
}
_WAITS_FOR_EITHER = "its agent or its tests"  # after a step, nothing tells which


@dataclass(frozen=True)
class InPlay:
    """An episode that somebody works on."""

    worker: int
    """Whose it is, from 0."""
    challenge: str
    elapsed_s: float
    """Since it began."""
    steps: int
    """How many it has made."""
    waits_for: str
    """As far as its last record tells: its start, its agent, its tests."""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    planned: int
    finished: int
    """Episodes with a result that counts, those of earlier sessions included."""
    resumed: int
    """Of them, finished in earlier sessions."""
    states: Mapping[str, int]
    """Of the finished episodes."""
    papers: Mapping[str, tuple[int, int]]
    """By paper: how many episodes passed, and how many have a verdict."""
    elapsed_s: float
    """Of this session."""
    workers: int
    """How many episodes can be in play at once."""
    last: Episode | None
    """What was just finished; None before the first."""
    retrying: bool = False
    """Whether ``last`` was ended by infrastructure and is tried again."""
    warnings: tuple[str, ...] = ()
    """What its agent warned of while ``last`` was played."""
    between: bool = False
    """Nothing has finished since the last time; ``playing`` may have changed."""
    playing: tuple[InPlay, ...] = ()
    """The episodes in play, the longest first."""
    usage: Usage | None = None
    """What model calls took, in all sessions; None where no agent plays."""


@dataclass
class Played:
    """What each worker plays: the job, its record, and when it began."""

    by_worker: dict[int, tuple[Job, Trajectory, float]] = field(default_factory=dict)

    def now(self) -> tuple[InPlay, ...]:
        """What is played now, the longest first."""
        began = sorted(self.by_worker.copy().items(), key=lambda each: each[1][2])
        now = time.monotonic()
        return tuple(
            InPlay(
                worker,
                job.challenge.id,
                now - since,
                trajectory.steps,
                _WAITS_FOR.get(trajectory.last_kind, _WAITS_FOR_EITHER),
            )
            for worker, (job, trajectory, since) in began
        )


class Teller:
    """Counts what has finished, and tells it.

    Args:
        tell: is told; None: nobody is.
        played: what is in play.
        planned: as in `Progress`.
        workers: likewise.
        stored: paper and state of each episode that has a result already.
        usage: says what model calls took so far; None: no model is asked.
    """

    def __init__(
        self,
        tell: Callable[[Progress], None] | None,
        played: Played,
        *,
        planned: int,
        workers: int,
        stored: Iterable[tuple[str, str]],
        usage: Callable[[], Usage] | None = None,
    ) -> None:
        self._tell = tell
        self._played = played
        self._planned = planned
        self._workers = workers
        self._usage = usage
        self._states: dict[str, int] = {}
        self._papers: dict[str, tuple[int, int]] = {}
        for paper, state in stored:
            self._count(paper, state)
        self._resumed = self._finished
        self._began = self._told_at = time.monotonic()

    @property
    def _finished(self) -> int:
        return sum(self._states.values())

    def _count(self, paper: str, state: str) -> None:
        self._states[state] = self._states.get(state, 0) + 1
        if state != INFRA:
            passed, judged = self._papers.get(paper, (0, 0))
            self._papers[paper] = passed + (state == "passed"), judged + 1

    def look(self) -> None:
        """Tell what is in play, if nothing has been told for a while."""
        if time.monotonic() - self._told_at >= _TELL_S:
            self.tell(None, between=True)

    def tell(
        self,
        last: Episode | None,
        *,
        retrying: bool = False,
        warnings: Sequence[str] = (),
        between: bool = False,
    ) -> None:
        """Tell of an episode that has finished, if one has."""
        if last is not None and not retrying:
            self._count(last.paper, last.status)
        self._told_at = time.monotonic()
        if self._tell:
            self._tell(
                Progress(
                    planned=self._planned,
                    finished=self._finished,
                    resumed=self._resumed,
                    states=dict(self._states),
                    papers=dict(self._papers),
                    elapsed_s=self._told_at - self._began,
                    workers=self._workers,
                    last=last,
                    retrying=retrying,
                    warnings=tuple(warnings),
                    between=between,
                    playing=self._played.now(),
                    usage=self._usage() if self._usage else None,
                )
            )
