"""Options as a run's configuration, and back from the record of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from rcb_env.runs import RunConfig


def run_config(given: Mapping[str, Any]) -> RunConfig:
    """What the options of `rcb run` ask for.

    Raises:
        UsageError: a value is out of range.
    """
    from rcb_env.play.agent import ModelSettings
    from rcb_env.play.episode import Budgets
    from rcb_env.runs import RunConfig

    model = None
    if given["model"] is not None:
        model = ModelSettings(
            name=given["model"],
            # As an option, so that the record says who was asked, and a resumed run asks the same server.
            base_url=given["base_url"] or os.environ.get("OPENAI_BASE_URL", "").strip() or None,
            api=given["api"],
            models_file=given["models_file"],
            cache=given["cache"],
            temperature=given["temperature"],
            max_tokens=given["max_tokens"],
            reasoning_effort=given["reasoning_effort"],
            context_tokens=given["context_tokens"],
            timeout_s=given["model_timeout"],
            max_retries=given["model_retries"],
            input_usd_per_mtok=given["input_price"],
            output_usd_per_mtok=given["output_price"],
        )
    return RunConfig(
        agent=given["agent"],
        model=model,
        dataset=given["dataset"],
        papers=tuple(given["papers"]),
        challenges=tuple(given["challenges"]),
        samples=given["samples"],
        seed=given["seed"],
        workers=given["workers"],
        paper=given["paper"],
        with_hint=given["with_hint"],
        with_context=given["with_context"],
        feedback=given["feedback"],
        extractor=given["extractor"],
        protocol=given["protocol"],
        max_steps=given["max_steps"],
        max_test_runs=given["max_test_runs"],
        budgets=Budgets(
            tokens=given["budget_tokens"],
            cost_usd=given["budget_usd"],
            wall_s=given["budget_seconds"],
        ),
        run_tokens=given["run_budget_tokens"],
        run_cost_usd=given["run_budget_usd"],
        sandbox=given["sandbox"],
    )


# Options of `rcb run` by where run.json keeps them.
_IN_CONFIG = (
    *("agent", "samples", "seed", "paper", "with_hint", "with_context", "feedback"),
    *("max_steps", "max_test_runs"),
)
_OFF_BY_DEFAULT = ("extractor", "protocol")  # in the config only where they were chosen
_IN_BUDGETS = {"budget_tokens": "tokens", "budget_usd": "cost_usd", "budget_seconds": "wall_s"}
_IN_MODEL = {
    "model": "name",
    "base_url": "base_url",
    "api": "api",
    "models_file": "models_file",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "context_tokens": "context_tokens",
    "reasoning_effort": "reasoning_effort",
    "input_price": "input_usd_per_mtok",
    "output_price": "output_usd_per_mtok",
}
_IN_CONDITIONS = {
    "workers": "workers",
    "sandbox": "sandbox",
    "cache": "cache",
    "run_budget_tokens": "run_tokens",
    "run_budget_usd": "run_cost_usd",
}


def take_from_record(given: dict[str, Any], folder: Path, context: click.Context) -> None:
    """Replace the defaults of options that were not given by what the run was made with."""
    from rcb_env.runs.store import RunStore, arms_of

    folders = [folder / name for name in arms_of(folder)] or [folder]
    records = [RunStore.open(each).record for each in folders if (each / "run.json").exists()]
    if not records:
        return  # it was stopped before it began; the options must say everything
    # Arms differ in their agents, and one that takes no model says nothing of the others' model.
    record = next((r for r in records if r.get("config", {}).get("model")), records[0])
    config = record.get("config", {})
    recorded: dict[str, Any] = {
        name: config[name] for name in (*_IN_CONFIG, *_OFF_BY_DEFAULT) if name in config
    }
    for names, values in (
        (_IN_BUDGETS, config.get("budgets")),
        (_IN_MODEL, config.get("model")),
        (_IN_CONDITIONS, record.get("conditions")),
    ):
        recorded.update(_present(names, values or {}))
    explicit = {
        name for name in given if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    if not explicit & {"papers", "challenges"}:
        recorded["challenges"] = tuple(_challenges(record.get("plan", ())))
    if "source" in record.get("dataset", {}):
        recorded["dataset"] = record["dataset"]["source"]
    if len(folders) > 1 or folders[0] != folder:
        recorded.pop("agent", None)
    if "agent" in explicit and "agent" in recorded:
        _check_agent(given["agent"], recorded["agent"], folder)
    given.update({name: value for name, value in recorded.items() if name not in explicit})


def _check_agent(given: str, recorded: str, folder: Path) -> None:
    """Refuse another agent before it is asked whether the recorded model suits it."""
    from rcb_env.errors import UsageError
    from rcb_env.play.registry import same_agent

    if given != recorded and not same_agent(given, recorded):
        raise UsageError(
            f"{folder} was made with the agent {recorded}, not {given}:"
            " leave out --agent, or start another run with --out"
        )


def _present(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {option: values[key] for option, key in names.items() if key in values}


def _challenges(plan: Iterable[Mapping[str, Any]]) -> Sequence[str]:
    return [entry["challenge"] for entry in plan]
