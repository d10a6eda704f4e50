"""The one loop in which every agent plays, and the episode it leaves behind.

Whatever an agent does ends as an `Episode`, which is plain data:
- submitted, out of steps, out of a budget, or simply finished: graded as the region stands;
- `NoAnswer`: graded if the region was changed before, else status "invalid" with the reason;
- a model API that gives no reply, a box that dies, an agent with a bug: "infra_error", with the
  cause in one line. None of these is ever counted as a wrong answer.
What would fail every further episode too is raised: a wrong key, model name or URL, an unknown
setting, a full disk, no sandbox.

Not covered: what an agent is (`rcb_env.play.agent`), the steps' meaning (`rcb_env.env.environment`), many episodes
at once (`rcb_env.runs`), where records go (`rcb_env.runs.steps`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from rcb_env.env.actions import ToolCall
from rcb_env.errors import (
    AgentError,
    ModelError,
    ModelRefusedRequest,
    SandboxError,
    SandboxUnavailable,
    StoreError,
    UsageError,
    blame,
)
from rcb_env.play.agent import Agent, BudgetSpent, NoAnswer, Task, Turn, Usage
from rcb_env.play.meter import Meter
from rcb_env.play.record import EndReason, Episode, Step
from rcb_env.play.registry import agent_label

if TYPE_CHECKING:
    import gymnasium

    from rcb_env.env.settings import Budgets
    from rcb_env.grading.grader import Verdict


class Recorder(Protocol):
    """Where a trajectory goes, while it happens."""

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        """Keep one record; JSON-safe."""
        ...


class _Playing(Protocol):
    """What is read from `rcb_env.env.environment.ResearchCodeEnv` beside reset and step."""

    @property
    def code(self) -> str: ...

    @property
    def verdict(self) -> Verdict | None: ...

    def charge(self, tokens: int) -> None: ...


class _Over(Exception):
    """How an episode ended."""

    def __init__(
        self, reason: EndReason, error: str = "", *, infra: bool = False, no_answer: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason: EndReason = reason
        self.error = " ".join(error.split())[:500]
        self.infra = infra
        self.no_answer = no_answer


class _Game:
    """One episode while it is played."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        agent: Agent,
        task: Task,
        recorder: Recorder,
        meter: Meter,
    ) -> None:
        self.env = env
        self.agent = agent
        self.recorder = recorder
        self.meter = meter
        self._room_in_run = task.room_for_reply
        self.task = replace(
            task,
            limits_money=task.limits_money or meter.budgets.cost_usd is not None,
            record=recorder.record,
            spend=meter.spend,
            seconds_left=meter.seconds_left,
            room_for_reply=self._room_for_reply,
        )
        self.steps = 0
        self.test_runs = 0
        self.first_hash = self.code_hash = ""
        self.verdict: Verdict | None = None
        self._moves: Generator[ToolCall, Turn, None] | None = None
        self._test_runs_at_start = 0

    def play(self, start: Mapping[str, object]) -> _Over:
        """Play until the environment or the agent is done, then have the region graded.

        Args:
            start: to be recorded first, with what the environment told at reset.
        """
        self._begin(start)
        turn: Turn | None = None
        try:
            while True:
                turn = self._act(self._ask(turn))
        except _Over as over:
            end = over
        finally:
            self._dismiss()
        if self.verdict is None and self._can_be_graded(end):
            end = self._submit(end)
        return end

    def _room_for_reply(self, prompt_tokens: int) -> int | None:
        """As the episode and its run together leave it."""
        rooms = self._room_in_run(prompt_tokens), self.meter.room_for_reply(prompt_tokens)
        return min((room for room in rooms if room is not None), default=None)

    def _begin(self, start: Mapping[str, object]) -> None:
        observation, info = self.env.reset(seed=self.task.seed)
        self.recorder.record("start", {**start, "text": str(observation["text"])})
        self.first_hash = self.code_hash = str(info["code_hash"])
        self._test_runs_at_start = int(observation["test_runs_left"])

    def _ask(self, turn: Turn | None) -> Mapping[str, Any]:
        """The agent's next tool call.

        Raises:
            _Over: it has none, or a budget is spent.
        """
        try:
            call = self._next_call(turn)
        except StopIteration:
            raise _Over("stopped") from None
        except NoAnswer as error:
            raise _Over(error.reason, error.detail or str(error), no_answer=True) from None
        except BudgetSpent as error:
            raise _Over(error.reason) from None
        except (ModelRefusedRequest, UsageError, StoreError, SandboxUnavailable):
            raise
        except ModelError as error:
            raise _Over("model_error", str(error), infra=True) from None
        except Exception as error:  # noqa: BLE001 - whatever an agent does wrong is data
            self.recorder.record("agent_error", {"traceback": traceback.format_exc()})
            told = str(error) if isinstance(error, AgentError) else blame(error)
            raise _Over("agent_error", told, infra=True) from None
        if reason := self.meter.spent():  # also for an agent that swallowed BudgetSpent
            raise _Over(reason)
        return call

    def _next_call(self, turn: Turn | None) -> Mapping[str, Any]:
        if self._moves is None or turn is None:
            self._moves = _started(self.agent, self.task)
            return _wire_form(self.agent, next(self._moves))
        return _wire_form(self.agent, self._moves.send(turn))

    def _act(self, action: Mapping[str, Any]) -> Turn:
        """Do a tool call, and put it on record.

        Raises:
            _Over: it was the last one.
        """
        began = time.monotonic()
        playing: _Playing = self.env.unwrapped  # type: ignore[assignment]
        tokens = self.meter.new_tokens()
        playing.charge(tokens)
        observation, reward, terminated, truncated, info = self.env.step(action)
        turn = Turn(
            text=str(observation["text"]),
            error=bool(info["error"]),
            tests=info["tests"] or None,
            steps_left=int(observation["steps_left"]),
            test_runs_left=int(observation["test_runs_left"]),
        )
        self.code_hash = str(info["code_hash"])
        self.test_runs = self._test_runs_at_start - turn.test_runs_left
        step = Step(
            index=self.steps,
            action=action,
            text=turn.text,
            error=turn.error,
            tests=turn.tests,
            reward=float(reward),
            code_hash=self.code_hash,
            elapsed_s=round(self.meter.elapsed_s(), 6),
            step_s=round(time.monotonic() - began, 6),
            tokens=tokens,
        )
        self.steps += 1
        self.recorder.record("step", step.to_dict())
        if terminated or truncated:
            self.verdict = playing.verdict
            if self.verdict is not None and self.verdict.status == "infra_error":
                raise _Over("sandbox_error", self.verdict.message, infra=True)
            raise _Over("submitted" if terminated else "steps_spent")
        return turn

    def _dismiss(self) -> None:
        if self._moves is not None:
            # A fault in an agent's clean-up must not cost an episode that is already graded.
            with contextlib.suppress(Exception):
                self._moves.close()

    def _can_be_graded(self, end: _Over) -> bool:
        """Whether there is anything to grade: an answer, or a region that was changed before there was none."""
        return not end.infra and not (end.no_answer and self.code_hash == self.first_hash)

    def _submit(self, end: _Over) -> _Over:
        """Have the region graded as it stands; the end stays what it was, unless that fails."""
        try:
            self._act(ToolCall("submit").to_dict())
        except _Over as graded:
            return graded if graded.infra else end
        return end


def play_episode(
    env: gymnasium.Env[Any, Any],
    agent: Agent,
    task: Task,
    recorder: Recorder,
    *,
    budgets: Budgets | None = None,
    on_usage: Callable[[Usage], None] | None = None,
) -> Episode:
    """Let ``agent`` play ``task`` in ``env``, from reset to the verdict.

    Args:
        env: a `rcb_env.env.environment.ResearchCodeEnv` for the task's challenge, wrapped or not.
        agent: who plays.
        task: what; its ``record`` and ``spend`` are set here.
        recorder: gets a "start" record, every step and everything the agent records, each when it
            happens, and an "end" record.
        budgets: limits beside the environment's own; what went over is graded as it stands. None: those of the task.
        on_usage: told about every model call before the budgets are looked at; a `UsageError` it
            raises ends the episode without a result.

    Raises:
        ModelRefusedRequest: key, model name or address are wrong.
        UsageError: something was asked for that cannot be done.
        SandboxUnavailable: no code can be run on this machine.
        StoreError: the recorder cannot write.
    """
    challenge = task.challenge
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    label = agent_label(agent)
    start = {
        "challenge": challenge.id,
        "sample": task.sample,
        "seed": task.seed,
        "agent": label,
        "model": task.model.to_dict() if task.model else None,
        "started_at": started_at,
    }
    meter = Meter(budgets or task.rules.budgets, on_usage)
    game = _Game(env, agent, task, recorder, meter)
    try:
        end = game.play(start)
    except SandboxUnavailable:
        raise
    except SandboxError as error:
        end = _Over("sandbox_error", str(error), infra=True)
    playing: _Playing = env.unwrapped  # type: ignore[assignment]
    episode = Episode.of(
        challenge,
        game.verdict,
        status="infra_error" if end.infra else None,
        end_reason=end.reason,
        code=playing.code if game.code_hash else None,
        sample=task.sample,
        seed=task.seed,
        agent=label,
        model=task.model.name if task.model else "",
        steps=game.steps,
        test_runs=game.test_runs,
        usage=meter.usage,
        wall_s=round(meter.elapsed_s(), 6),
        started_at=started_at,
        error=end.error,
    )
    # The episode itself is the store's; a trajectory says only how it ended.
    recorder.record(
        "end",
        {
            "status": episode.status,
            "end_reason": end.reason,
            "error": end.error,
            "wall_s": episode.wall_s,
            "usage": dataclasses.asdict(episode.usage),
        },
    )
    return episode


def _started(agent: Agent, task: Task) -> Generator[ToolCall, Turn, None]:
    moves: object = agent.play(task)
    if not isinstance(moves, Generator):
        raise AgentError(
            f"{type(agent).__qualname__}.play returned {_a(moves)}; make it a generator: it must"
            " yield rcb_env.ToolCall(name, arguments)"
        )
    return moves


def _wire_form(agent: Agent, call: object) -> Mapping[str, Any]:
    """What an agent yielded, as the environment takes it, which tells the agent of wrong tools and arguments.

    Raises:
        AgentError: it is no tool call at all, or none that can be put on record.
    """
    who = f"{type(agent).__qualname__}.play yielded"
    if isinstance(call, ToolCall) and not isinstance(call.arguments, Mapping):
        raise AgentError(f"{who} a ToolCall whose arguments are {_a(call.arguments)}, not a dict")
    wire = call.to_dict() if isinstance(call, ToolCall) else call
    if not isinstance(wire, dict):
        raise AgentError(f"{who} {_a(call)}; yield rcb_env.ToolCall(name, arguments)")
    try:
        json.dumps(wire)
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentError(f"{who} a ToolCall that cannot be written as JSON: {error}") from None
    return wire


def _a(value: object) -> str:
    """The kind of a value, for messages."""
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
