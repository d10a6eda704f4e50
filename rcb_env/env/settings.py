"""What an agent is shown, and the rules it plays by: a setting of an episode has its one home here.

A setting is a field of `Shown`, `Rules` or `Budgets`: a type, a default, a docstring. From the field are made the option
of `rcb run`, `rcb serve` and `rcb grade` (its help is the docstring), the keyword of `gymnasium.make`, and the key in
run.json. The nouns are carried whole from there to the workspace.
Guarantees: a noun holds only values that can be. A setting that is not among the first ones is recorded only where it is
not the default, so a run of before it existed can still be resumed.
Not covered: what makes an option of a field (`rcb_env.cli.options`); what else a run is told (`rcb_env.runs.plan`).
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self, TypeVar

from rcb_env.errors import UsageError, unknown

PaperShown = Literal["full", "sections", "none"]
PromptProtocol = Literal["own", "official"]
Extractor = Literal["robust", "official"]
AgentSandbox = Literal["bubblewrap", "none"]
Feedback = Literal["outcome", "counts", "names", "messages", "full"]

_FIRST = frozenset(
    ("paper", "with_hint", "with_context", "feedback", "max_steps", "max_test_runs", "budgets")
)
"""Keys that every run.json has."""


@dataclass(frozen=True)
class Mark:
    """What the type of a field does not say, as ``Annotated[int, Mark(least=1)]``."""

    least: int | None = None
    """The smallest value."""
    more_than: float | None = None
    """What the value must be more than."""
    option: str = ""
    """Name of the option; "": made from the name of the field."""
    ours: bool = False
    """Whether it means something only for an agent that we run, and not for one that plays from outside."""


@dataclass(frozen=True)
class Setting:
    """A field of a noun, as options, keywords and records are made from it."""

    name: str
    default: Any
    about: str
    """Its docstring, on one line."""
    kind: type[Any]
    """bool, int, float, str, tuple (of texts), or another noun with settings of its own."""
    choices: tuple[str, ...]
    """Where only certain texts may be written; else empty."""
    optional: bool
    """Whether it may be None, which means no limit."""
    mark: Mark

    @property
    def is_noun(self) -> bool:
        """Whether it holds further settings."""
        return issubclass(self.kind, Settings)

    @property
    def is_keyword(self) -> bool:
        """Whether the environment itself heeds it, and takes it by name."""
        return not self.is_noun and not self.mark.ours

    def check(self, value: Any) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: with the setting's name and what it may be.
        """
        if self.is_noun or (value is None and self.optional):
            return
        if self.choices and value not in self.choices:
            raise unknown(self.name.replace("_", " "), str(value), self.choices)
        if self.kind is bool and not isinstance(value, bool):
            raise UsageError(f"{self.name} is {value!r}; it must be True or False")
        least, more_than = self.mark.least, self.mark.more_than
        if least is not None:
            at_least(self.name, value, least)
        if more_than is not None and not value > more_than:
            raise UsageError(
                f"the budget {self.name} is {value}; it must be more than {more_than:g}"
            )


@dataclass(frozen=True)
class Settings:
    """What all nouns of settings can do."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be.

        Raises:
            UsageError: with the setting's name and what it may be.
        """
        for each in settings_of(type(self)):
            each.check(getattr(self, each.name))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Those of its fields that are among these values, the rest by default.

        Args:
            values: by the names of fields, as options or run.json have them. What belongs to a noun inside lies under
                its name, as in run.json, or beside the others, as options do.

        Raises:
            UsageError: a value cannot be.
        """
        own: dict[str, Any] = {}
        for each in settings_of(cls):
            if each.is_noun:
                own[each.name] = each.kind.of(values.get(each.name, values))
            elif each.name in values:
                value = values[each.name]
                own[each.name] = tuple(value) if each.kind is tuple else value
        return cls(**own)

    def chosen(self) -> dict[str, Any]:
        """Its values that are not the defaults, by name."""
        own = ((each, getattr(self, each.name)) for each in settings_of(type(self)))
        return {each.name: value for each, value in own if value != each.default}

    def record(self) -> dict[str, Any]:
        """Its keys in run.json."""
        kept: dict[str, Any] = {}
        for each in settings_of(type(self)):
            value = getattr(self, each.name)
            if each.name in _FIRST or value != each.default:
                kept[each.name] = dataclasses.asdict(value) if each.is_noun else _plain(value)
        return kept


@dataclass(frozen=True)
class Shown(Settings):
    """What an agent is shown."""

    paper: PaperShown = "full"
    """How much of the paper the agent can read. sections: only those about the missing part."""
    with_hint: bool = True
    """Whether the agent is told in a few words what is missing."""
    with_context: bool = True
    """Whether the agent can read the paper's other files."""
    interface: bool = True
    """Whether the agent is told which names of the missing part later code uses."""
    protocol: Annotated[PromptProtocol, Mark(ours=True)] = "own"
    """Which prompt asks for the missing code. official: like the public benchmark's."""

    @property
    def with_paper(self) -> bool:
        """Whether the paper can be read at all."""
        return self.paper != "none"

    @property
    def with_interface(self) -> bool:
        """Whether those names are told; the public benchmark tells none."""
        return self.interface and self.protocol == "own"


@dataclass(frozen=True)
class Budgets(Settings):
    """Limits of one episode beside its steps and test runs; None: no limit.

    An episode ends when it has used up a limit; the reply that went over, or was cut short for it, is not used.
    """

    tokens: Annotated[int | None, Mark(more_than=0, option="--budget-tokens", ours=True)] = None
    """Most tokens of an episode, prompts and replies together. Prompts are estimated before each call."""
    cost_usd: Annotated[float | None, Mark(more_than=0, option="--budget-usd", ours=True)] = None
    """Most US dollars of an episode. The call that goes over is the last one."""
    wall_s: Annotated[float | None, Mark(more_than=0, option="--budget-seconds")] = None
    """Longest time of an episode, in seconds. Model calls and programs are cut off then, tests are not."""


@dataclass(frozen=True)
class Rules(Settings):
    """The rules an agent plays by."""

    feedback: Feedback = "messages"
    """What run_tests tells the agent."""
    extractor: Annotated[Extractor, Mark(ours=True)] = "robust"
    """How code is extracted from replies. official: by the public benchmark's rule."""
    max_steps: Annotated[int, Mark(least=1)] = 50
    """Most steps of an episode."""
    max_test_runs: Annotated[int, Mark(least=0)] = 10
    """Most test runs of an episode."""
    agent_sandbox: Annotated[AgentSandbox, Mark(ours=True)] = "bubblewrap"
    """Where the program of a command agent runs. none: on this machine, as you."""
    agent_mounts: Annotated[tuple[str, ...], Mark(option="--agent-mount", ours=True)] = ()
    """A path that the program of a command agent can read; with :rw at the end it can write there."""
    budgets: Budgets = field(default_factory=Budgets)
    """What else an episode may use. Held by whoever plays it, not by the environment."""


_Shown = TypeVar("_Shown", bound=Shown)
_Rules = TypeVar("_Rules", bound=Rules)


def with_keywords(
    shown: _Shown, rules: _Rules, keywords: Mapping[str, Any], *, others: Sequence[str] = ()
) -> tuple[_Shown, _Rules]:
    """Both nouns, changed by the environment's keywords: the names of their fields, and ``with_paper``.

    Args:
        shown: one noun.
        rules: the other.
        keywords: as they were given.
        others: further keywords of the environment, for messages.

    Raises:
        UsageError: a keyword is unknown, or its value cannot be.
    """
    given = dict(keywords)
    if "with_paper" in given:
        if "paper" in given:
            raise UsageError("paper and with_paper say the same: leave out with_paper")
        given["paper"] = "full" if given.pop("with_paper") else "none"
    names = [
        [one.name for one in settings_of(type(noun)) if one.is_keyword] for noun in (shown, rules)
    ]
    for name in given:
        if not any(name in own for own in names):
            raise unknown("setting", name, [*others, *itertools.chain(*names)])
    of_shown, of_rules = ({name: given[name] for name in own if name in given} for own in names)
    return replace(shown, **of_shown), replace(rules, **of_rules)


def at_least(name: str, value: object, least: int) -> int:
    """An integer that must not be smaller.

    Raises:
        UsageError: it is smaller, or no integer; with its name.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} is {value!r}; it must be an integer of at least {least}")
    return value


@functools.cache
def keywords_of(environment: type[Any]) -> tuple[str, ...]:
    """The keywords that an environment takes by name; the rest are settings."""
    given = inspect.signature(environment).parameters.values()
    return tuple(one.name for one in given if one.kind is not one.VAR_KEYWORD)


def _plain(value: Any) -> Any:
    """As JSON gives it back, so that a record that is read equals one that is made."""
    return list(value) if isinstance(value, tuple) else value


@functools.lru_cache(maxsize=64)
def fingerprint(noun: Settings) -> str:
    """Of all that an environment heeds of a noun: two that differ in it are shown or told something else."""
    heeded = [each.name for each in settings_of(type(noun)) if each.is_keyword]
    return json.dumps({name: getattr(noun, name) for name in heeded}, sort_keys=True)


def settings_of(kind: type[Settings]) -> tuple[Setting, ...]:
    """The settings of a noun, in the order of its fields."""
    key: Any = kind  # which mypy does not take for hashable
    return _read(key)


@functools.cache
def _read(kind: type[Settings]) -> tuple[Setting, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    about = _docstrings(kind)
    return tuple(_setting(each, hints[each.name], about) for each in dataclasses.fields(kind))


def _setting(each: dataclasses.Field[Any], hint: Any, about: Mapping[str, str]) -> Setting:
    mark = Mark()
    if typing.get_origin(hint) is Annotated:
        hint, *marks = typing.get_args(hint)
        mark = next((one for one in marks if isinstance(one, Mark)), mark)
    optional = isinstance(hint, types.UnionType)
    if optional:
        hint = next(one for one in typing.get_args(hint) if one is not types.NoneType)
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    factory = each.default_factory
    return Setting(
        each.name,
        default=each.default if factory is dataclasses.MISSING else factory(),
        about=about.get(each.name, ""),
        kind=str if choices else typing.get_origin(hint) or hint,
        choices=choices,
        optional=optional,
        mark=mark,
    )


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """What stands under each field, its bases' included."""
    told: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(definition, ast.ClassDef)
        for line, below in itertools.pairwise(definition.body):
            match line, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    told[name] = " ".join(text.split())
    return told
