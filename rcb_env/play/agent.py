"""What an agent is, and what it is given.

An agent is any object with ``play(task)``, a generator that yields tool calls and gets a `Turn`
back for each::

    def play(self, task):
        turn = yield ToolCall("write_region", {"code": "    return x"})
        yield ToolCall("submit")

Greedy baselines, repair loops and tool users are all of this form, so one loop (`rcb_env.play.episode`)
plays them and their episodes can be compared pair by pair.
Not covered: how one is found by its name (`rcb_env.play.registry`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from rcb_env.dataset import bundled
from rcb_env.dataset.markers import Masked
from rcb_env.dataset.papers import Challenge
from rcb_env.dataset.parts import Part, parts
from rcb_env.dataset.published import cache_folder
from rcb_env.dataset.sections import Sections
from rcb_env.env.actions import ToolCall
from rcb_env.env.settings import PaperShown, Rules, Shown
from rcb_env.errors import UsageError, unknown, without_credentials
from rcb_env.play.extraction import Extracted
from rcb_env.play.joint_extraction import extract_for

NoAnswerReason = Literal[
    "frame_changed",  # of a file that was edited by other means than the tools
    "truncated",
    "empty",
    "refused",
    "no_code",
    "context_exceeded",
    "format_errors",  # too many replies in a row without a usable tool call
    "stuck",  # the same tool calls, again and again
]
Spent = Literal["tokens_spent", "cost_spent", "wall_time_spent"]


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

    def __init__(self, reason: Spent) -> None:
        super().__init__(reason.replace("_", " "))
        self.reason: Spent = reason


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
    replayed_calls: int = 0
    """How many of the calls were answered from the cache of replies; they cost nothing."""
    replayed_tokens: int = 0
    """Prompt and completion tokens of those calls; they count for an episode, not for a bill."""
    complete: bool = True
    """Whether every call is counted; False: some were not reported, and the numbers are the least."""
    cached_tokens: int = 0
    """The part of the prompt tokens that the server had in its own cache, where it says so."""

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
            replayed_calls=self.replayed_calls + other.replayed_calls,
            replayed_tokens=self.replayed_tokens + other.replayed_tokens,
            complete=self.complete and other.complete,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True)
class ModelSettings:
    """Which model an agent talks to and how; never holds a key."""

    name: str
    """As the server calls it, ``provider/name``, or ``simulated:skill=0.5``."""
    base_url: str | None = None
    """Address of an API, with its ``/v1``; None: OPENAI_BASE_URL, else the address of the provider
    that the name begins with, else OpenAI."""
    api: Literal["auto", "chat", "responses", "anthropic", "google"] = "auto"
    """What the server is spoken to in: OpenAI's chat completions or responses, Anthropic's messages,
    Google's Gemini API; auto: the provider's own where no address is given, else chat completions."""
    temperature: float | None = 0.0
    """None: the server's own default."""
    max_tokens: int | None = None
    """Longest completion, reasoning included; None: the server's own limit."""
    reasoning_effort: str | None = None
    """Passed on as it is; None: not sent."""
    token_ids: bool = False
    """Whether a server of chat completions is asked for the ids and log-probabilities of its tokens, as vLLM gives them;
    they stand in the trajectory."""
    context_tokens: int | None = None
    """The model's window; None: the table of models, and where that knows none, the server is the
    one to refuse."""
    timeout_s: float = 600.0
    """Longest wait for one reply."""
    max_retries: int = 5
    """How often one request is sent again after 429, 5xx, a time-out or a lost connection."""
    max_wait_s: float = 60.0
    """Longest single wait before a retry; a server that asks for more ends the episode."""
    input_usd_per_mtok: float | None = None
    """Price of a million prompt tokens; None: the table of models."""
    output_usd_per_mtok: float | None = None
    """Price of a million completion tokens; None: the table of models."""
    models_file: str | None = None
    """A YAML file of models and providers that goes before the built-in tables."""
    cache: str = "auto"
    """Where replies are kept and found again: a folder, "off", or "auto" (the user's cache, but
    nothing for servers on this machine)."""

    def __post_init__(self) -> None:
        """Refuse settings no server can work with.

        Raises:
            UsageError: with the setting's name and what it may be.
        """
        if not self.name.strip():
            raise UsageError("the model has an empty name; pass one with --model")
        apis = ("auto", "chat", "responses", "anthropic", "google")
        if self.api not in apis:
            raise unknown("model API", self.api, apis)
        if not self.cache.strip():
            raise UsageError("the cache of replies has an empty name; write a folder, auto or off")
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


def _ignore_record(kind: str, payload: Mapping[str, object]) -> None:
    pass


def _ignore_usage(usage: Usage) -> None:
    pass


def _no_limit() -> float | None:
    return None


def _any_length(prompt_tokens: int) -> int | None:  # noqa: ARG001 - the form of the field
    return None


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
    shown: Shown = field(default_factory=Shown)
    """What of the challenge prompts may hold."""
    rules: Rules = field(default_factory=Rules)
    """By which it is played."""
    batch: Path | None = None
    """Folder of a run for what a batch API has answered; None: nothing was asked in one."""
    batch_only: bool = False
    """Whether a question that a batch has not answered yet waits, and is not asked when it comes up."""
    limits_money: bool = False
    """Whether a limit in money is to be held: then a model whose price is unknown is not asked."""
    record: Callable[[str, Mapping[str, object]], None] = _ignore_record
    """Put something into the trajectory now, for instance ``("model_call", {...})``."""
    spend: Callable[[Usage], None] = _ignore_usage
    """Report a model call; raises `BudgetSpent` when the budget is gone."""
    seconds_left: Callable[[], float | None] = _no_limit
    """Of the episode's wall-time budget; None: there is none."""
    room_for_reply: Callable[[int], int | None] = _any_length
    """Most tokens that budgets leave for the reply to a prompt of so many; None: no budget is set. Raises
    `BudgetSpent` where such a prompt leaves no room at all: then the call is not made."""

    def extract(self, reply: str | None, *, finish_reason: str | None = None) -> Extracted:
        """The code in a model's reply, by the rule of the task; see `rcb_env.play.extraction`."""
        return extract_for(
            self.challenge,
            reply,
            extractor=self.rules.extractor,
            with_hint=self.shown.with_hint,
            finish_reason=finish_reason,
        )

    @property
    def hint(self) -> str:
        """The short phrase that says what is missing, or "" when the task is set without it."""
        return self.challenge.hint if self.shown.with_hint else ""

    @property
    def defines(self) -> tuple[str, ...]:
        """What later code reads from the missing part; empty when the task is set without it."""
        return self.challenge.defines if self.shown.with_interface else ()

    @property
    def answer_folders(self) -> tuple[Path, ...]:
        """Folders that hold solutions, which no program that plays may see."""
        folders = (self.challenge.paper.root, bundled.folder("papers"), cache_folder().parent)
        return tuple(dict.fromkeys(folder.resolve() for folder in folders))

    @property
    def file(self) -> str:
        """Path of the file with the missing part, relative to the workspace; of several files their folder."""
        return self.challenge.file

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where there are several missing parts, each of them; () where there is one."""
        shown = self.shown
        return parts(self.challenge, with_hint=shown.with_hint, with_interface=shown.with_interface)

    @property
    def masked(self) -> Masked:
        """The file around the missing part; where there is one."""
        masked = self.challenge.masked()
        return masked if self.shown.with_hint else masked.without_hint()

    @property
    def placeholder(self) -> str:
        """What stands in the missing part at first; of several the answer that changes nothing."""
        holes = self.challenge.holes
        if holes is None:
            return self.masked.placeholder
        return holes.join(holes.placeholders(with_hint=self.shown.with_hint))

    def answer_in(self, path: str, text: str) -> str | None:
        """What stands in the missing parts of a file; None: it is not what it was around them.

        Answers of several files, one behind the other, are one answer.
        """
        holes = self.challenge.holes
        if holes is None:
            return self.masked.region_of(text)
        before = holes.placeholders(with_hint=self.shown.with_hint)
        names = [hole.name for hole in holes.of(path)]
        found = holes.files[path].codes_of(text, [before[name] for name in names])
        return None if found is None else holes.join(dict(zip(names, found, strict=True)))

    def merged(self, code: str, before: str) -> str:
        """An answer with the missing parts that it does not name as in another one; where there is one part, the answer."""
        holes = self.challenge.holes
        return code if holes is None else holes.merged(code, before)

    @property
    def masked_file(self) -> str:
        """The file with the placeholder, as text that any encoding of Unicode can carry; where there is one."""
        return _readable(self.masked.text.encode("utf-8", "surrogateescape"))

    @property
    def masked_files(self) -> dict[str, str]:
        """The files with placeholders by their paths, as such texts."""
        masked = self.challenge.masked_files(with_hint=self.shown.with_hint)
        return {
            path: _readable(text.encode("utf-8", "surrogateescape"))
            for path, text in masked.items()
        }

    @property
    def files(self) -> dict[str, bytes]:
        """Every file of the workspace by its path, with placeholders where something is missing."""
        return self.challenge.workspace(with_hint=self.shown.with_hint)

    @property
    def context_files(self) -> dict[str, str]:
        """The paper's context files, then its other files with challenges, all without tags.

        Empty when the task is set without them; the statement of an open challenge is always among them.
        """
        if not (self.shown.with_context or self.challenge.is_open):
            return {}
        paper = self.challenge.paper
        masked = self.challenge.files
        others = [path for path in paper.annotated if path not in masked]
        if self.shown.protocol == "official":  # which shows none of them
            others = []
        return {
            path: _readable(paper.visible[path])
            for path in (*paper.context, *others)
            if path not in masked
        }

    @property
    def paper_text(self) -> str:
        """The paper, or "" when the task is set without it."""
        return self.challenge.paper.text if self.shown.with_paper else ""

    @property
    def paper_shown(self) -> PaperShown:
        """How much of the paper prompts may hold."""
        return self.shown.paper

    @property
    def sections(self) -> Sections:
        """The paper in parts, ranked by what they say about the missing part."""
        return Sections(self.paper_text, *self.challenge.topic(with_hint=self.shown.with_hint))


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

    Class attributes that are read where they exist: ``name`` (how records call it),
    ``uses_model`` (True: it needs one; False: it takes none; None or missing: it may have one),
    ``uses_terminal`` (True: it talks to somebody there, so nothing else is drawn on it), and
    ``whole_setting`` (the one setting that gets all that follows the name in a spec, as it is).
    """

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Yield tool calls until done. May raise `NoAnswer`."""
        ...
