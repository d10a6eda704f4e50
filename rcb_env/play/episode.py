"""The one loop in which every agent plays, and the episode it leaves behind.

Whatever an agent does ends as an `Episode`, which is plain data:
- submitted, out of steps, out of a budget, or simply finished: graded as the region stands;
- `NoAnswer`: graded if the region was changed before, else status "invalid" with the reason;
- a model API that gives no reply, a box that dies, an agent with a bug: "infra_error", with the
  cause in one line. None of these is ever counted as a wrong answer.
What would fail every further episode too is raised: a wrong key, model name or URL, an unknown
setting, a full disk, no sandbox.

Not covered: what an agent is (`rcb_env.play.agent`), the steps' meaning (`rcb_env.env.environment`), many episodes
at once (`rcb_env.runs`), where records go (`rcb_env.runs.store`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

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
from rcb_env.play.agent import Agent, BudgetSpent, NoAnswer, Spent, Task, Turn, Usage
from rcb_env.play.registry import agent_label

if TYPE_CHECKING:
    import gymnasium

    from rcb_env.grading.grader import Verdict

EndReason = Literal[
    "submitted",
    "steps_spent",
    "tokens_spent",
    "cost_spent",
    "wall_time_spent",
    "stopped",  # the agent finished without submitting
    "frame_changed",
    "truncated",
    "empty",
    "refused",
    "no_code",
    "context_exceeded",
    "format_errors",
    "stuck",
    "agent_error",
    "model_error",
    "sandbox_error",
]


@dataclass(frozen=True)
class Budgets:
    """Limits of one episode beside its steps and test runs; None: no limit.

    An episode ends when it has used more than a limit; the reply that went over is not used.
    """

    tokens: int | None = None
    """Prompt and completion tokens of all model calls."""
    cost_usd: float | None = None
    wall_s: float | None = None
    """Seconds from reset; looked at before every step and after every model call."""

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing.

        Raises:
            UsageError: a limit is zero, negative, or not a number.
        """
        for name, value in self.__dict__.items():
            if value is not None and not value > 0:
                raise UsageError(f"the budget {name} is {value}; it must be more than 0")


class Recorder(Protocol):
    """Where a trajectory goes, while it happens."""

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        """Keep one record; JSON-safe."""
        ...


@dataclass(frozen=True)
class Step:
    """One tool call and its answer, as the trajectory holds it."""

    index: int
    action: Any
    text: str
    error: bool
    tests: Mapping[str, Any] | None
    reward: float
    code_hash: str
    """Of the region after the step."""
    elapsed_s: float
    """Since the episode began, when the answer was there."""
    step_s: float
    """What the environment took of it."""
    tokens: int = 0
    """Of the model calls since the step before."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Episode:
    """A finished attempt: enough to score, grade and reward it again without playing it again."""

    challenge: str
    paper: str
    file: str
    sample: int
    seed: int
    agent: str
    """Name and the settings that are not the defaults, as `make_agent` reads it."""
    model: str
    """"" for an agent without one."""
    lines: int
    content_hash: str
    """Of the challenge."""
    status: str
    """A verdict's status; "invalid" also for an attempt without an answer."""
    verdict: Mapping[str, Any] | None
    """As `rcb_env.grading.grader.Verdict.from_dict` reads it; None if nothing was graded."""
    end_reason: EndReason
    code: str
    """The region's text at the end."""
    code_hash: str
    steps: int
    test_runs: int
    usage: Usage
    wall_s: float
    started_at: str
    """ISO 8601, UTC."""
    error: str = ""
    """One line: why the attempt ended without an answer, or what of the machinery failed."""

    @property
    def passed(self) -> bool:
        """Whether the challenge was solved."""
        return self.status == "passed"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `from_dict` reads it back equal."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Episode:
        """A stored episode. Fields of later versions are let be.

        Raises:
            ValueError: the data is not an episode.
        """
        names = {each.name for each in dataclasses.fields(cls)}
        try:
            if data["end_reason"] not in get_args(EndReason):
                raise ValueError(f"no episode ends with {data['end_reason']!r}")
            known = {name: value for name, value in data.items() if name in names}
            return cls(**{**known, "usage": Usage(**data["usage"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a stored episode: {error}") from None


# --- agents by name ---------------------------------------------------------------------------


class _Playing(Protocol):
    """What is read from `rcb_env.env.environment.ResearchCodeEnv` beside reset and step."""

    @property
    def code(self) -> str: ...

    @property
    def verdict(self) -> Verdict | None: ...

    def charge(self, tokens: int) -> None: ...


@dataclass
class _Meter:
    """Adds up usage and says when a budget is gone."""

    budgets: Budgets
    began: float
    usage: Usage = field(default_factory=Usage)
    told: Callable[[Usage], None] | None = None
    """Who else is told about every model call; may raise what ends more than this episode."""

    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    def seconds_left(self) -> float | None:
        limit = self.budgets.wall_s
        return None if limit is None else limit - self.elapsed_s()

    def spent(self) -> Spent | None:
        limits = self.budgets
        if limits.tokens is not None and self.usage.tokens > limits.tokens:
            return "tokens_spent"
        if limits.cost_usd is not None and (self.usage.cost_usd or 0.0) > limits.cost_usd:
            return "cost_spent"
        if limits.wall_s is not None and self.elapsed_s() > limits.wall_s:
            return "wall_time_spent"
        return None

    def spend(self, usage: Usage) -> None:
        self.usage += usage
        if self.told is not None:
            self.told(usage)
        if self.budgets.cost_usd is not None and self.usage.cost_usd is None:
            raise UsageError(
                "the price of this model is unknown, so a cost budget cannot be held:"
                " give --input-price and --output-price, or drop the budget"
            )
        if reason := self.spent():
            raise BudgetSpent(reason)


@dataclass(frozen=True)
class _End:
    reason: EndReason
    error: str = ""
    infra: bool = False
    no_answer: bool = False


class _Game:
    """One episode while it is played."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        agent: Agent,
        task: Task,
        recorder: Recorder,
        budgets: Budgets,
        on_usage: Callable[[Usage], None] | None,
    ) -> None:
        self.env = env
        self.agent = agent
        self.recorder = recorder
        self.meter = _Meter(budgets, time.monotonic(), told=on_usage)
        self.task = replace(
            task,
            limits_money=task.limits_money or budgets.cost_usd is not None,
            record=recorder.record,
            spend=self.meter.spend,
            seconds_left=self.meter.seconds_left,
        )
        self.steps = 0
        self.test_runs = 0
        self.first_hash = self.code_hash = ""
        self.verdict: Verdict | None = None
        self._test_runs_at_start = 0
        self._tokens_paid = 0

    def play(self, start: Mapping[str, object]) -> _End:
        """Play until the environment or the agent is done, then have the region graded.

        Args:
            start: to be recorded first, with what the environment told at reset.
        """
        observation, info = self.env.reset(seed=self.task.seed)
        self.recorder.record("start", {**start, "text": str(observation["text"])})
        self.first_hash = self.code_hash = str(info["code_hash"])
        self._test_runs_at_start = int(observation["test_runs_left"])
        moves: list[Generator[ToolCall, Turn, None]] = []
        try:
            end = self._rounds(moves)
        finally:
            for generator in moves:
                # A fault in an agent's clean-up must not cost an episode that is already graded.
                with contextlib.suppress(Exception):
                    generator.close()
        untouched = self.code_hash == self.first_hash
        if self.verdict is None and not end.infra and not (end.no_answer and untouched):
            _, graded = self._step(ToolCall("submit").to_dict())
            if graded is not None and graded.infra:
                return graded
        return end

    def _rounds(self, moves: list[Generator[ToolCall, Turn, None]]) -> _End:
        turn: Turn | None = None
        while True:
            action = self._next_action(moves, turn)
            if isinstance(action, _End):
                return action
            if reason := self.meter.spent():  # also for an agent that swallowed BudgetSpent
                return _End(reason)
            turn, end = self._step(action)
            if end is not None:
                return end

    def _next_action(
        self, moves: list[Generator[ToolCall, Turn, None]], turn: Turn | None
    ) -> object:
        """The agent's next tool call, or how it ended."""
        try:
            if turn is None:
                moves.append(_started(self.agent, self.task))
                return _wire_form(self.agent, next(moves[0]))
            return _wire_form(self.agent, moves[0].send(turn))
        except StopIteration:
            return _End("stopped")
        except NoAnswer as error:
            return _End(error.reason, error.detail or str(error), no_answer=True)
        except BudgetSpent as error:
            return _End(error.reason)
        except (ModelRefusedRequest, UsageError, StoreError, SandboxUnavailable):
            raise
        except ModelError as error:
            return _End("model_error", _one_line(str(error)), infra=True)
        except Exception as error:  # noqa: BLE001 - whatever an agent does wrong is data
            self.recorder.record("agent_error", {"traceback": traceback.format_exc()})
            told = str(error) if isinstance(error, AgentError) else blame(error)
            return _End("agent_error", _one_line(told), infra=True)

    def _step(self, action: object) -> tuple[Turn, _End | None]:
        began = time.monotonic()
        playing: _Playing = self.env.unwrapped  # type: ignore[assignment]
        tokens = self.meter.usage.tokens - self._tokens_paid
        self._tokens_paid += tokens
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
        if not (terminated or truncated):
            return turn, None
        self.verdict = playing.verdict
        if self.verdict is not None and self.verdict.status == "infra_error":
            return turn, _End("sandbox_error", _one_line(self.verdict.message), infra=True)
        return turn, _End("submitted" if terminated else "steps_spent")


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
        budgets: limits beside the environment's own; what went over is graded as it stands.
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
    game = _Game(env, agent, task, recorder, budgets or Budgets(), on_usage)
    try:
        end = game.play(start)
    except SandboxUnavailable:
        raise
    except SandboxError as error:
        end = _End("sandbox_error", _one_line(str(error)), infra=True)
    if end.infra:
        status = "infra_error"
    else:
        status = game.verdict.status if game.verdict is not None else "invalid"
    playing: _Playing = env.unwrapped  # type: ignore[assignment]
    episode = Episode(
        challenge=challenge.id,
        paper=challenge.paper.id,
        file=challenge.file,
        sample=task.sample,
        seed=task.seed,
        agent=label,
        model=task.model.name if task.model else "",
        lines=challenge.lines,
        content_hash=challenge.content_hash,
        status=status,
        verdict=game.verdict.to_dict() if game.verdict is not None else None,
        end_reason=end.reason,
        code=playing.code if game.code_hash else "",
        code_hash=game.code_hash,
        steps=game.steps,
        test_runs=game.test_runs,
        usage=game.meter.usage,
        wall_s=round(game.meter.elapsed_s(), 6),
        started_at=started_at,
        error=end.error,
    )
    # The episode itself is the store's; a trajectory says only how it ended.
    recorder.record(
        "end",
        {
            "status": status,
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


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
