"""Options as a run's configuration, and back from the record of a run.

An option that sets a field is named in a command's values as the field is, so that they fit together without a list.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rcb_env.cli import options

if TYPE_CHECKING:
    from rcb_env.play.agent import ModelSettings
    from rcb_env.runs import RunConfig

_HOW_IT_GOES = ("workers", "quiet", "verbose", "as_json")


def run_config(given: Mapping[str, Any]) -> RunConfig:
    """What the options of a command ask for; what it has no option for is the default.

    Raises:
        UsageError: a value is out of range.
    """
    from rcb_env.dataset.scopes import in_scope, scope_of
    from rcb_env.env.settings import Rules, Shown
    from rcb_env.runs import RunConfig

    own = _present(RunConfig, given, but=("model", "shown", "rules"))
    if "dataset" in own:
        named = (scope_of(name) for name in own.get("challenges", ()))
        scope = given.get("scope") or next((one for one in named if one != "region"), None)
        own["dataset"] = in_scope(own["dataset"], scope)
        own |= options.narrowed(own["dataset"], given)
    return RunConfig(
        **{**own, "agent": given.get("agent") or ""},
        model=_model(given),
        shown=Shown.of(given),
        rules=Rules.of(given),
    )


def _model(given: Mapping[str, Any]) -> ModelSettings | None:
    from rcb_env.play.agent import ModelSettings

    if given.get("model") is None:
        return None
    # As a setting, so that the record says who was asked, and a resumed run asks the same server.
    base_url = given["base_url"] or os.environ.get("OPENAI_BASE_URL", "").strip() or None
    own = _present(ModelSettings, given, but=("name", "base_url"))
    return ModelSettings(given["model"], base_url=base_url, **own)


def _present(noun: type[Any], given: Mapping[str, Any], *, but: tuple[str, ...]) -> dict[str, Any]:
    names = {each.name for each in dataclasses.fields(noun)} - {*but}
    return {name: value for name, value in given.items() if name in names}


def with_record(given: Mapping[str, Any], folder: Path, context: click.Context) -> dict[str, Any]:
    """The values of a command, with what a run was made with in the place of options that were not given.

    Raises:
        UsageError: the run was made with another agent.
    """
    from rcb_env.runs.folders import arms_of
    from rcb_env.runs.store import RunStore

    folders = [folder / name for name in arms_of(folder)] or [folder]
    records = [RunStore.open(each).record for each in folders if (each / "run.json").exists()]
    if not records:
        return dict(given)  # it was stopped before it began; the options must say everything
    # Arms differ in their agents, and one that takes no model says nothing of the others' model.
    recorded = _values(next((r for r in records if r.get("config", {}).get("model")), records[0]))
    explicit = {
        name
        for name in given
        if context.get_parameter_source(name)
        not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    }
    given = {**given, **_without_file(given, context)}
    if explicit & {"papers", "challenges", "split", "difficulty", "difficulty_by", "variants"}:
        del recorded["challenges"]
    if folders != [folder]:
        recorded.pop("agent", None)
    if "agent" in explicit and "agent" in recorded:
        _check_agent(given["agent"], recorded["agent"], folder)
    return {**given, **{name: recorded[name] for name in recorded if name not in explicit}}


def _without_file(given: Mapping[str, Any], context: click.Context) -> Mapping[str, Any]:
    """What a run that is gone on with takes from no file: everything that makes an episode what it is."""
    built_in = context.command.make_context(context.info_name, [], resilient_parsing=True).params
    return {name: built_in[name] for name in _from_file(given, context) - {*_HOW_IT_GOES}}


def _from_file(given: Mapping[str, Any], context: click.Context) -> set[str]:
    """The options that a file of defaults has set."""
    source = context.get_parameter_source
    return {name for name in given if source(name) is ParameterSource.DEFAULT_MAP}


def fitted(given: Mapping[str, Any], context: click.Context) -> dict[str, Any]:
    """The values of `rcb run`, without those of a file of defaults that do not fit what was asked for.

    Raises:
        UsageError: there is no such agent.
    """
    from rcb_env.play.registry import takes_model
    from rcb_env.runs.arms import split_arms

    default = _from_file(given, context)
    left: dict[str, Any] = {}
    if "agent" in default and given["arms"] and "arms" not in default:
        left["agent"] = None
    if "arms" in default and given["agent"] and "agent" not in default:
        left["arms"] = ()
    written = left.get("arms", given["arms"])
    arms = split_arms(written) if written else []
    agents = [agent for agent in (left.get("agent", given["agent"]), *arms) if agent]
    if "model" in default and agents and not any(map(takes_model, agents)):
        left["model"] = None
    if "base_url" in default and {**given, **left}["model"] is None:
        left["base_url"] = None
    return {**given, **left}


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json holds, by the names of fields, as options have them."""
    config = dict(record.get("config", {}))
    model = config.pop("model", None) or {}
    budgets = config.pop("budgets", {})
    values = {
        **config,
        **budgets,
        **model,
        **record.get("conditions", {}),
        "challenges": tuple(entry["challenge"] for entry in record.get("plan", ())),
    }
    if model:
        values["model"] = model["name"]
    if "source" in record.get("dataset", {}):
        values["dataset"] = record["dataset"]["source"]
    return values


def _check_agent(given: str, recorded: str, folder: Path) -> None:
    """Refuse another agent before it is asked whether the recorded model suits it."""
    from rcb_env.errors import UsageError
    from rcb_env.play.registry import same_agent

    if given != recorded and not same_agent(given, recorded):
        raise UsageError(
            f"{folder} was made with the agent {recorded}, not {given}:"
            " leave out --agent, or start another run with --out"
        )
