"""Agents by name.

Agents live outside this package and are found by entry point or as ``module:Class``; an agent's
settings are the fields of its dataclass, and a spec names both: ``repair:rounds=3``.
Not covered: what an agent is (`rcb_env.play.agent`).
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rcb_env import plugins
from rcb_env.errors import AgentError, UsageError
from rcb_env.play.agent import Agent

AGENTS = "rcb_env.agents"
"""The entry point group in which agents are registered."""


def agent_names() -> list[str]:
    """The registered agents."""
    return plugins.names(AGENTS)


def make_agent(spec: str, *, model: str | None) -> Agent:
    """The agent that ``spec`` names.

    Args:
        spec: ``name`` or ``module:Class``, with settings or without: ``repair:rounds=3``. A number
            alone is the first setting: ``repair:3``.
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


def takes_model(spec: str) -> bool:
    """Whether the agent that ``spec`` names can be given a model.

    Raises:
        UsageError: there is no such agent.
    """
    maker, _, _ = _find_agent(spec)
    return getattr(maker, "uses_model", None) is not False


def uses_terminal(spec: str) -> bool:
    """Whether the agent that ``spec`` names talks to somebody at the terminal itself.

    Raises:
        UsageError: there is no such agent.
    """
    return bool(getattr(_find_agent(spec)[0], "uses_terminal", False))


def same_agent(spec: str, other: str) -> bool:
    """Whether two specs name the same agent, whatever its settings.

    Raises:
        UsageError: there is no such agent.
    """
    return _find_agent(spec)[0] is _find_agent(other)[0]


def agent_label(agent: Agent) -> str:
    """The shortest spec that makes this agent: its name, and the settings that were changed."""
    kind = type(agent)
    name = getattr(kind, "name", None) or f"{kind.__module__}:{kind.__qualname__}"
    changed = [
        f"{each.name}={_written(getattr(agent, each.name))}"
        for each in _settings_of(kind)
        if getattr(agent, each.name) != each.default
    ]
    if whole := getattr(kind, "whole_setting", None):
        return f"{name}:{getattr(agent, whole)}"
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
    return plugins.find(AGENTS, spec, kind="agent", method="play(task)", where="rcb list agents")


def _with_settings(maker: type[Any], label: str, text: str) -> Agent:
    valid = [each.name for each in _settings_of(maker)]
    listing = f"it has {', '.join(valid)}" if valid else "it has none"
    types = typing.get_type_hints(maker, include_extras=True) if valid else {}
    values: dict[str, Any] = {}
    if whole := getattr(maker, "whole_setting", None):
        values, text = {whole: text.strip()}, ""
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part.isdecimal() and valid and not values:
            part = f"{valid[0]}={part}"
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise AgentError(f"{part!r} is not a setting of the agent {label!r}: write name=value")
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
