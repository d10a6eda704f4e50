"""One episode that somebody outside plays: calls come in from another thread, answers go back.

The episode is played by the same loop as any other (`rcb_env.play.episode`): an agent that waits for calls
stands in for whoever makes them. So budgets, trajectory, verdict and the line in the run directory
are those of every other run.

Guarantees: calls are done one at a time, in the order they come; `Session.act` never raises and never
waits for ever: it says when the episode is over, and what became of it. Whoever leaves without
submitting is graded on what is there ("stopped"); where no tool was called, nothing was played, and the
challenge stays open. Boxes start in the background from the first sign of a client. A test run whose call
was cancelled uses up nothing. A wall-time budget runs out while nobody calls, too.
Not covered: how calls come here (`rcb_env.serve.mcp`); what the caller spends on models,
which nobody tells us: its cost is unknown and its tokens are not limited.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from rcb_env.env.actions import ToolCall
from rcb_env.errors import RcbError, UsageError
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import Task, Turn, Usage
from rcb_env.play.episode import play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import make_agent
from rcb_env.runs.plan import Job, RunConfig, jobs, now, planned, versions
from rcb_env.runs.playing import environment_of, task_of
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.store import RunStore

VISITOR = f"{__name__}:Visitor"
_POLL_S = 0.1


@dataclass(frozen=True)
class Answer:
    """What a call gets back."""

    text: str
    error: bool
    """Whether the call was wrong, or came too late."""
    over: bool
    """Whether the episode is over."""


@dataclass(frozen=True)
class Call:
    """What somebody outside wants done."""

    what: ToolCall
    cancelled: threading.Event
    """Set when nobody waits for the answer any more."""


@dataclass
class Visitor:
    """Whoever makes the calls, as an agent: hands on what comes until there is nothing more."""

    client: str = ""
    """What the caller wants to be called in reports."""
    session: Session | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "mcp"
    uses_model: ClassVar[bool] = False

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Needs a session, from which the calls come.

        Raises:
            UsageError: there is none.
        """
        if self.session is None:
            raise UsageError("an episode over MCP is played by its client: use `rcb serve`")
        task.spend(Usage(cost_usd=None))  # nobody tells us what the other side spends
        while True:
            try:
                call = self.session.calls.get(timeout=_POLL_S)
            except queue.Empty:
                task.spend(Usage())  # raises when time is up
                continue
            if call is None:
                return
            before = self.session.env.snapshot()
            turn = yield call.what
            if call.cancelled.is_set() and call.what.tool == "run_tests":
                self.session.env.restore(before)
                task.record("cancelled", {"tool": call.what.tool})
            self.session.turns.put(turn)


class Session:
    """An episode of a run, to be acted on from other threads.

    Args:
        config: of the run; its agent is a `Visitor`.
        store: the run, open for writing.
        challenge: id of the challenge; its first sample without a result is played.

    Raises:
        UsageError: the run does not plan the challenge, or has all results of it.
    """

    def __init__(self, config: RunConfig, store: RunStore, challenge: str) -> None:
        self._config = config
        self._store = store
        self._dataset, pairs = planned(config)
        identity = config.identity(list(dict.fromkeys(c for c, _ in pairs)))
        finished = store.finished()
        plan = jobs(pairs, identity, seed=config.seed)
        own = [job for job in plan if job.challenge.id == challenge]
        if not own:
            raise UsageError(f"{store.folder} does not plan {challenge}; choose another --out")
        still_open = [job for job in own if job.key.id not in finished]
        if not still_open:
            raise UsageError(
                f"{store.folder} has all {len(own)} results of {challenge} already;"
                " choose another --out"
            )
        self.job: Job = still_open[0]
        self._grader = Grader(config.sandbox, workers=1, run=store.folder.name)
        self.calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        """For the visitor: what is to be done, and None when nobody will call any more."""
        self.turns: queue.SimpleQueue[Turn] = queue.SimpleQueue()
        """From the visitor: what came of it."""
        self._first: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether anybody calls at all
        self._warming: threading.Thread | None = None
        self._turn_taking = threading.Lock()
        self._last_step = ""
        self._result: Episode | Exception | None = None
        self.over = threading.Event()
        """Set when the episode has its result, or none can be had."""
        self.env = environment_of(config, self.job, self._dataset, self._grader)
        self.assignment = str(self.env.reset(seed=self.job.seed)[0]["text"])
        """What is to be done, as the environment says it."""

    def play(self) -> Episode | None:
        """Play the episode; returns when it is stored. Called once, in a thread of its own.

        Returns:
            None: nobody called a tool, so nothing was played and nothing is stored.

        Raises:
            RcbError: no result can be had; calls are answered with the reason.
        """
        try:
            self._result = self._played()
            return self._result
        except Exception as error:
            self._result = error
            raise
        finally:
            self.over.set()
            self.env.close()
            self._grader.close()

    @property
    def played(self) -> bool:
        """Whether the episode has a result."""
        return isinstance(self._result, Episode)

    def expect(self) -> None:
        """Somebody is there who may call: boxes are started in the background, unless they are there."""
        with self._turn_taking:
            if self._warming is None and not self.over.is_set():
                self._warming = threading.Thread(target=self._warm, name="rcb-warm", daemon=True)
                self._warming.start()

    def act(
        self, tool: str, arguments: Mapping[str, Any], cancelled: threading.Event | None = None
    ) -> Answer:
        """Do one tool call; from any thread.

        Args:
            tool: its name.
            arguments: of the tool.
            cancelled: set by the caller when it waits no longer.
        """
        self.expect()
        with self._turn_taking:
            if self.over.is_set():
                return self._last_words(late=True)
            self._first.put(True)
            self.calls.put(Call(ToolCall(tool, arguments), cancelled or threading.Event()))
            while True:
                try:
                    turn = self.turns.get(timeout=_POLL_S)
                except queue.Empty:
                    if self.over.is_set():
                        return self._last_words(late=False)
                    continue
                left = f"[{turn.steps_left} steps and {turn.test_runs_left} test runs are left.]"
                return Answer(f"{turn.text}\n{left}", turn.error, over=False)

    def leave(self) -> None:
        """Nobody will call any more; what is there is graded, unless the episode is over."""
        self.calls.put(None)
        self._first.put(False)

    def _warm(self) -> None:
        # The tests' own answer says it better where no box can be had.
        with contextlib.suppress(RcbError):
            self._grader.grade(self.job.challenge, self.job.challenge.reference, final=False)

    def _played(self) -> Episode | None:
        config, job = self._config, self.job
        if not self._first.get():
            return None
        self._store.note_session(
            {
                "started_at": now(),
                "pid": os.getpid(),
                "workers": 1,
                "open": 1,
                "sandbox": self._grader.describe([job.challenge.paper.image]),
                "versions": versions(),
            }
        )
        visitor = cast("Visitor", make_agent(config.agent, model=None))
        visitor.session = self
        with self._store.trajectory(job.key) as trajectory:
            episode = play_episode(
                self.env, visitor, task_of(config, job), _Listening(trajectory, self)
            )
            self._store.append(job.key, episode.to_dict(), trajectory)
        return episode

    def heard(self, text: str) -> None:
        """Called with what each step tells; the last one is not handed to agents."""
        self._last_step = text

    def _last_words(self, *, late: bool) -> Answer:
        result = self._result
        if not isinstance(result, Episode):
            return Answer(f"The episode failed: {result}", error=True, over=True)
        said = f"{result.end_reason.replace('_', ' ')}, {result.status}"
        if late or not self._last_step:
            return Answer(f"The episode is over ({said}).", error=late, over=True)
        text = f"{self._last_step}\n[The episode is over: {said}.]"
        return Answer(text, error=result.status == "infra_error", over=True)


class _Listening:
    """A recorder that also tells a session what each step said."""

    def __init__(self, trajectory: Trajectory, session: Session) -> None:
        self._trajectory = trajectory
        self._session = session

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        self._trajectory.record(kind, payload)
        if kind == "step":
            self._session.heard(str(payload["text"]))
