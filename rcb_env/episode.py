"""What an agent is, what it is given, and the one loop in which every agent plays.

An agent is any object with ``play(task)``, a generator that yields tool calls and gets a `Turn`
back for each::

    def play(self, task):
        turn = yield ToolCall("write_region", {"code": "    return x"})
        yield ToolCall("submit")

Greedy baselines, repair loops and tool users all go through `play_episode`, so their episodes can
be compared pair by pair. Whatever an agent does ends as an `Episode`, which is plain data:
- submitted, out of steps, out of a budget, or simply finished: graded as the region stands;
- `NoAnswer`: graded if the region was changed before, else status "invalid" with the reason;
- a model API that gives no reply, a box that dies, an agent with a bug: "infra_error", with the
  cause in one line. None of these is ever counted as a wrong answer.
What would fail every further episode too is raised: a wrong key, model name or URL, an unknown
setting, a full disk, no sandbox.

Not covered: the steps' meaning (`rcb_env.env`), many episodes at once (`rcb_env.experiment`), where
records go (`rcb_env.store`). Agents themselves live outside and are found by `make_agent`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib
import importlib.metadata
import time
import traceback
import typing
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from pydantic import TypeAdapter, ValidationError

from rcb_env.actions import ToolCall
from rcb_env.errors import (
    AgentError,
    ModelError,
    ModelRefusedRequest,
    SandboxError,
    SandboxUnavailable,
    StoreError,
    UsageError,
    unknown,
)
from rcb_env.markers import Masked
from rcb_env.papers import Challenge

if TYPE_CHECKING:
    import gymnasium

    from rcb_env.grading import Verdict

AGENTS = "rcb_env.agents"
"""The entry point group in which agents are registered."""

NoAnswerReason = Literal["truncated", "empty", "refused", "no_code", "context_exceeded"]
EndReason = Literal[
    "submitted",
    "steps_spent",
    "tokens_spent",
    "cost_spent",
    "wall_time_spent",
    "stopped",  # the agent finished without submitting
    "truncated",
    "empty",
    "refused",
    "no_code",
    "context_exceeded",
    "agent_error",
    "model_error",
    "sandbox_error",
]
_Spent = Literal["tokens_spent", "cost_spent", "wall_time_spent"]


class NoAnswer(Exception):
    """Raised by an agent whose model gave nothing that can be graded.

    Args:
        reason: one of `NoAnswerReason`.
        detail: one line for the record.
    """

    def __init__(self, reason: NoAnswerReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: NoAnswerReason = reason
        self.detail = detail


class BudgetSpent(Exception):
    """Raised inside an agent, by ``task.spend``, when the episode's budget is gone.

    An agent lets it pass. One that does not is stopped at its next step.
    """

    def __init__(self, reason: _Spent) -> None:
        super().__init__(reason.replace("_", " "))
        self.reason: _Spent = reason


@dataclass(frozen=True)
class Usage:
    """What model calls took."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Everything generated, reasoning included."""
    reasoning_tokens: int = 0
    """The part of the completion tokens that was reasoning, where the server says so."""
    cost_usd: float | None = 0.0
    """None: the price of at least one call is unknown."""
    calls: int = 0
    estimated: bool = False
    """Whether some of these numbers are counted here because the server gave none."""

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        """Both together; an unknown cost makes the sum unknown."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            calls=self.calls + other.calls,
            estimated=self.estimated or other.estimated,
        )


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


@dataclass(frozen=True)
class ModelSettings:
    """Which model an agent talks to and how; never holds a key."""

    name: str
    """As the server calls it, or ``simulated:skill=0.5``."""
    base_url: str | None = None
    """Address of an OpenAI-compatible API, with its ``/v1``; None: OPENAI_BASE_URL, else OpenAI."""
    temperature: float | None = 0.0
    """None: the server's own default."""
    max_tokens: int | None = None
    """Longest completion, reasoning included; None: the server's own limit."""
    reasoning_effort: str | None = None
    """Passed on as it is; None: not sent."""
    context_tokens: int | None = None
    """The model's window; None: unknown, so the server is the one to refuse."""
    timeout_s: float = 600.0
    """Longest wait for one reply."""
    max_retries: int = 5
    """How often one request is sent again after 429, 5xx, a time-out or a lost connection."""
    max_wait_s: float = 60.0
    """Longest single wait before a retry; a server that asks for more ends the episode."""
    input_usd_per_mtok: float | None = None
    """Price of a million prompt tokens; None: the built-in table."""
    output_usd_per_mtok: float | None = None
    """Price of a million completion tokens; None: the built-in table."""

    def __post_init__(self) -> None:
        """Refuse settings no server can work with.

        Raises:
            UsageError: with the setting's name and what it may be.
        """
        if not self.name.strip():
            raise UsageError("the model has an empty name; pass one with --model")
        at_least: dict[str, float] = {
            "temperature": 0,
            "max_tokens": 1,
            "context_tokens": 1,
            "max_retries": 0,
            "max_wait_s": 0,
            "input_usd_per_mtok": 0,
            "output_usd_per_mtok": 0,
        }
        for name, least in at_least.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise UsageError(f"the model's {name} is {value}; it must be at least {least:g}")
        if not self.timeout_s > 0:
            raise UsageError(f"the model's timeout_s is {self.timeout_s}; it must be more than 0")

    def to_dict(self) -> dict[str, Any]:
        """As a run records it; a user name or password inside the address is left out."""
        base_url = self.base_url and without_credentials(self.base_url)
        return {**dataclasses.asdict(self), "base_url": base_url}


def without_credentials(url: str) -> str:
    """An address without the ``user:password@`` it may hold, for messages and records."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return url
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _ignore_record(kind: str, payload: Mapping[str, object]) -> None:
    pass


def _ignore_usage(usage: Usage) -> None:
    pass


@dataclass(frozen=True)
class Task:
    """What an agent is given: the challenge, and where to report to.

    Agents that are judged use the properties below; only oracles look into ``challenge``.
    """

    challenge: Challenge
    seed: int = 0
    """One per (run seed, challenge, sample): all of an agent's randomness comes from it."""
    sample: int = 0
    model: ModelSettings | None = None
    with_paper: bool = True
    record: Callable[[str, Mapping[str, object]], None] = _ignore_record
    """Put something into the trajectory now, for instance ``("model_call", {...})``."""
    spend: Callable[[Usage], None] = _ignore_usage
    """Report a model call; raises `BudgetSpent` when the budget is gone."""

    @property
    def hint(self) -> str:
        """The short phrase that says what is missing."""
        return self.challenge.hint

    @property
    def file(self) -> str:
        """Path of the file with the missing part, relative to the workspace."""
        return self.challenge.file

    @property
    def masked(self) -> Masked:
        """The file around the missing part."""
        return self.challenge.masked()

    @property
    def masked_file(self) -> str:
        """The file with the placeholder, as text that any encoding of Unicode can carry."""
        return _readable(self.masked.text.encode("utf-8", "surrogateescape"))

    @property
    def context_files(self) -> dict[str, str]:
        """The paper's context files, then its other files with challenges, all without tags."""
        paper = self.challenge.paper
        others = (path for path in paper.annotated if path != self.challenge.file)
        return {path: _readable(paper.visible[path]) for path in (*paper.context, *others)}

    @property
    def paper_text(self) -> str:
        """The paper, or "" when the task is set without it."""
        return self.challenge.paper.text if self.with_paper else ""


def _readable(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Turn:
    """The environment's answer to one tool call."""

    text: str
    error: bool
    """Whether the call itself was wrong; ``text`` says how. Failing tests are no error."""
    tests: Mapping[str, Any] | None
    """After run_tests: ``status``, and what else the feedback level tells; else None."""
    steps_left: int
    test_runs_left: int


class Agent(Protocol):
    """Anything that plays; a frozen dataclass whose fields are its settings.

    Class attributes that are read where they exist: ``name`` (how records call it) and
    ``uses_model`` (True: it needs one; False: it takes none; None or missing: it may have one).
    """

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Yield tool calls until done. May raise `NoAnswer`."""
        ...


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
    """As `rcb_env.grading.Verdict.from_dict` reads it; None if nothing was graded."""
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


def agent_names() -> list[str]:
    """The registered agents."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=AGENTS)})


def make_agent(spec: str, *, model: str | None) -> Agent:
    """The agent that ``spec`` names.

    Args:
        spec: ``name`` or ``module:Class``, with settings or without: ``repair:rounds=3,paper=no``.
        model: name of the model it is to use; only checked here, the task carries it.

    Raises:
        UsageError: there is no such agent, or it needs a model, or it takes none.
        AgentError: a setting is unknown or has no valid value.
    """
    maker, label, settings = _find_agent(spec)
    uses_model = getattr(maker, "uses_model", None)
    if uses_model is True and not model:
        raise UsageError(f"the agent {label!r} needs a model: add --model NAME")
    if uses_model is False and model:
        raise UsageError(f"the agent {label!r} takes no model: leave out --model {model}")
    return _with_settings(maker, label, settings)


def agent_label(agent: Agent) -> str:
    """The shortest spec that makes this agent: its name, and the settings that were changed."""
    kind = type(agent)
    name = getattr(kind, "name", None) or f"{kind.__module__}:{kind.__qualname__}"
    changed = [
        f"{each.name}={_written(getattr(agent, each.name))}"
        for each in _settings_of(kind)
        if getattr(agent, each.name) != each.default
    ]
    return f"{name}:{','.join(changed)}" if changed else str(name)


def agent_settings(agent: Agent) -> dict[str, Any]:
    """All settings of an agent with their values, defaults included."""
    return {each.name: getattr(agent, each.name) for each in _settings_of(type(agent))}


def _settings_of(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(kind):
        return []
    return [each for each in dataclasses.fields(kind) if each.init]


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _find_agent(spec: str) -> tuple[type[Any], str, str]:
    """The agent's class, its name in messages, and the text of its settings."""
    name, _, rest = spec.strip().partition(":")
    for point in importlib.metadata.entry_points(group=AGENTS):
        if point.name == name:
            return _load_agent(point.module, point.attr, name), name, rest
    class_name, _, settings = rest.partition(":")
    if class_name.isidentifier() and all(part.isidentifier() for part in name.split(".")):
        label = f"{name}:{class_name}"
        return _load_agent(name, class_name, label), label, settings
    raise unknown("agent", name, agent_names(), where="rcb list agents")


def _load_agent(module: str, class_name: str, label: str) -> type[Any]:
    try:
        found = getattr(importlib.import_module(module), class_name)
    except ImportError as error:
        raise UsageError(f"the agent {label!r} cannot be imported: {error}") from error
    except AttributeError:
        raise UsageError(f"the module {module!r} has no class {class_name!r}") from None
    if not isinstance(found, type) or not callable(getattr(found, "play", None)):
        raise UsageError(f"{label!r} is no agent: it must be a class with a method play(task)")
    return found


def _with_settings(maker: type[Any], label: str, text: str) -> Agent:
    valid = [each.name for each in _settings_of(maker)]
    listing = f"it has {', '.join(valid)}" if valid else "it has none"
    types = typing.get_type_hints(maker, include_extras=True) if valid else {}
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise AgentError(f"{part!r} is no setting of the agent {label!r}: write name=value")
        if key not in valid:
            raise AgentError(f"the agent {label!r} has no setting {key!r}; {listing}")
        if key in values:
            raise AgentError(f"the setting {key!r} of the agent {label!r} is given twice")
        try:
            values[key] = TypeAdapter(types[key]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise AgentError(
                f"the agent {label!r} cannot take {key}={value}: {reason[:1].lower()}{reason[1:]}"
            ) from None
    try:
        made: Agent = maker(**values)
    except (TypeError, ValueError) as error:
        raise AgentError(f"the agent {label!r} cannot be made: {error}") from error
    return made


# --- the loop ---------------------------------------------------------------------------------


class _Playing(Protocol):
    """What is read from `rcb_env.env.ResearchCodeEnv` beside reset and step."""

    @property
    def code(self) -> str: ...

    @property
    def verdict(self) -> Verdict | None: ...


@dataclass
class _Meter:
    """Adds up usage and says when a budget is gone."""

    budgets: Budgets
    began: float
    usage: Usage = field(default_factory=Usage)

    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    def spent(self) -> _Spent | None:
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
        if self.budgets.cost_usd is not None and self.usage.cost_usd is None:
            raise UsageError(
                "the price of this model is unknown, so a cost budget cannot be held:"
                " set input_usd_per_mtok and output_usd_per_mtok, or drop the budget"
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
    ) -> None:
        self.env = env
        self.agent = agent
        self.recorder = recorder
        self.meter = _Meter(budgets, time.monotonic())
        self.task = replace(task, record=recorder.record, spend=self.meter.spend)
        self.steps = 0
        self.test_runs = 0
        self.first_hash = self.code_hash = ""
        self.verdict: Verdict | None = None
        self._test_runs_at_start = 0

    def play(self) -> _End:
        """Play until the environment or the agent is done, then have the region graded."""
        observation, info = self.env.reset(seed=self.task.seed)
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
                moves.append(self.agent.play(self.task))
                call: object = next(moves[0])
            else:
                call = moves[0].send(turn)
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
            return _End("agent_error", _blame(error), infra=True)
        # Anything else goes on as it is: the environment tells the agent what is wrong with it.
        return call.to_dict() if isinstance(call, ToolCall) else call

    def _step(self, action: object) -> tuple[Turn, _End | None]:
        began = time.monotonic()
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
        )
        self.steps += 1
        self.recorder.record("step", step.to_dict())
        if not (terminated or truncated):
            return turn, None
        playing: _Playing = self.env.unwrapped  # type: ignore[assignment]
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
) -> Episode:
    """Let ``agent`` play ``task`` in ``env``, from reset to the verdict.

    Args:
        env: a `rcb_env.env.ResearchCodeEnv` for the task's challenge, wrapped or not.
        agent: who plays.
        task: what; its ``record`` and ``spend`` are set here.
        recorder: gets a "start" record, every step and everything the agent records, each when it
            happens, and an "end" record.
        budgets: limits beside the environment's own; what went over is graded as it stands.

    Raises:
        ModelRefusedRequest: key, model name or address are wrong.
        UsageError: something was asked for that cannot be done.
        SandboxUnavailable: no code can be run on this machine.
        StoreError: the recorder cannot write.
    """
    challenge = task.challenge
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    label = agent_label(agent)
    recorder.record(
        "start",
        {
            "challenge": challenge.id,
            "sample": task.sample,
            "seed": task.seed,
            "agent": label,
            "model": task.model.to_dict() if task.model else None,
            "started_at": started_at,
        },
    )
    game = _Game(env, agent, task, recorder, budgets or Budgets())
    try:
        end = game.play()
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


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _blame(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return _one_line(f"{type(error).__name__}: {error}{where}")
