"""`rcb run`: an agent plays challenges, and the run that comes of it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rcb_env.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from rcb_env.experiment import Progress as RunProgress
    from rcb_env.experiment import RunConfig
    from rcb_env.store import RunStore

_FEEDBACK = ("outcome", "counts", "names", "messages", "full")
_positive = click.IntRange(min=1)
_more_than_zero = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option(
    "--agent", metavar="NAME[:SETTING=VALUE,...]", help="Who plays; see `rcb list agents`."
)
@click.option(
    "--arms",
    multiple=True,
    metavar="AGENT,AGENT,...",
    help="Several agents instead: each plays the same challenges, with the same seeds and budgets.",
)
@click.option(
    "--model", metavar="NAME", help="The model it uses, as its server calls it, or provider/name."
)
@click.option(
    "--base-url",
    metavar="URL",
    help="An API that speaks the OpenAI protocol, with its /v1.  [default: OPENAI_BASE_URL]",
)
@click.option(
    "--api",
    type=click.Choice(("chat", "responses")),
    default="chat",
    show_default=True,
    help="Which API of the server: chat completions or responses.",
)
@click.option(
    "--models",
    "models_file",
    metavar="FILE",
    help="Prices, windows and cutoffs of models, and providers, in YAML; before the built-in ones.",
)
@click.option(
    "--cache",
    metavar="auto|off|DIR",
    default="auto",
    show_default=True,
    help="Where replies are kept, so that the same request is asked once; auto: in your cache, but"
    " nothing of servers on this machine.",
)
@click.option("--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True)
@click.option("--max-tokens", type=_positive, help="Longest reply, in tokens, reasoning included.")
@click.option("--context-tokens", type=_positive, help="The model's window, in tokens.")
@click.option("--reasoning-effort", metavar="LEVEL", help="Passed on to the model as it is.")
@click.option(
    "--model-timeout", type=_more_than_zero, default=600.0, show_default=True, metavar="S"
)
@click.option("--model-retries", type=click.IntRange(min=0), default=5, show_default=True)
@click.option(
    "--input-price", type=click.FloatRange(min=0), metavar="USD", help="Per million tokens."
)
@click.option(
    "--output-price", type=click.FloatRange(min=0), metavar="USD", help="Per million tokens."
)
@options.selection
@click.option(
    "--samples", type=_positive, default=1, show_default=True, help="Episodes for each challenge."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything random.")
@options.workers
@click.option(
    "--paper",
    type=click.Choice(("full", "sections", "none")),
    default="full",
    show_default=True,
    help="How much of the paper the agent is shown; sections: what speaks of the missing part.",
)
@click.option(
    "--hint/--no-hint", "with_hint", default=True, help="Whether it is shown what is missing."
)
@click.option(
    "--context/--no-context",
    "with_context",
    default=True,
    help="Whether it is shown the paper's other files.",
)
@click.option(
    "--feedback",
    type=click.Choice(_FEEDBACK),
    default="messages",
    show_default=True,
    help="What run_tests tells an agent.",
)
@options.extractor
@click.option(
    "--protocol",
    type=click.Choice(("own", "official")),
    default="own",
    show_default=True,
    help="Whose prompt asks for a missing piece of code: official follows the public benchmark's.",
)
@click.option("--max-steps", type=_positive, default=50, show_default=True, help="Of one episode.")
@click.option(
    "--max-test-runs",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Of one episode.",
)
@click.option("--budget-tokens", type=_positive, help="Most tokens an episode may use.")
@click.option("--budget-usd", type=_more_than_zero, help="Most an episode may cost.")
@click.option("--budget-seconds", type=_more_than_zero, help="Longest an episode may take.")
@click.option(
    "--run-budget-tokens", type=_positive, help="Most tokens all episodes may use together."
)
@click.option("--run-budget-usd", type=_more_than_zero, help="Most all episodes may cost together.")
@options.sandbox
@click.option("--out", metavar="DIR", help="The run directory.  [default: runs/<time>-<agent>]")
@click.option(
    "--resume",
    metavar="[DIR]",
    is_flag=False,
    flag_value="",
    help="Go on with the run in DIR (or --out); what is not given here is as it was.",
)
@options.quiet
@options.as_json
@click.pass_context
def run(context: click.Context, /, **given: Any) -> None:
    """Let an agent play challenges. Finished episodes are on disk at once; Ctrl-C loses none.

    Needs --agent or --arms, except with --resume. Arms make one run each, side by side in --out; `rcb report` and
    `rcb compare` take that folder. Ends with a table (stderr with --json), and with --json one object as the
    last line of stdout: run, planned, states, pass_rate and scaled_pass_rate in percent.
    """
    from rcb_env.cli.arms import play_arms
    from rcb_env.errors import ModelRefusedRequest, UsageError
    from rcb_env.experiment import default_folder, open_run, run_experiment
    from rcb_env.experiment.plan import planned
    from rcb_env.store import arms_of

    resume = given["resume"]
    if resume and given["out"] and Path(resume) != Path(given["out"]):
        raise UsageError("--resume and --out name different folders; leave out --out")
    folder = Path(resume or given["out"]) if resume or given["out"] else None
    if resume is not None:
        if folder is None:
            raise UsageError("which run? Write --resume DIR")
        take_from_record(given, folder, context)
    if given["agent"] and given["arms"]:
        raise UsageError("--agent and --arms exclude each other: make the agent one of the arms")
    there = arms_of(folder) if folder is not None else {}
    if there and given["agent"]:
        raise UsageError(
            f"{folder} holds the arms {', '.join(there.values())}:"
            " leave out --agent, or choose another --out"
        )
    if there or given["arms"]:
        play_arms(given, folder, resume=resume is not None)
        return
    if not given["agent"] and resume is not None:
        raise UsageError(f"there is no run in {folder}; to start one, name the agent with --agent")
    if not given["agent"]:
        raise UsageError("which agent? Add --agent NAME; `rcb list agents` lists them")
    if given["model"] is None and given["base_url"] is not None:
        raise UsageError("--base-url needs --model: which model is to be asked there?")
    config = run_config(given)
    if folder is None:
        folder = default_folder(
            f"{config.agent}-{config.model.name}" if config.model else config.agent
        )
    images = {challenge.paper.image for challenge, _ in planned(config)[1]}
    sandbox, why = prepare_sandbox(config.sandbox, images)
    config = replace(config, sandbox=sandbox)
    with open_run(config, folder, resume=resume is not None) as store:
        click.echo(f"run: {store.folder}", err=True)
        for problem in store.problems:
            click.echo(problem, err=True)
        title = store.record["config"]["agent"]  # in its shortest form, as in reports
        with show_progress(title, f"sandbox: {sandbox} ({why})") as tell:
            try:
                run_experiment(config, store, progress=tell)
            except (ModelRefusedRequest, UsageError):
                store.discard_if_empty()  # a wrong key or name must not take the folder
                raise
        finish(store, quiet=given["quiet"], as_json=given["as_json"])


@contextlib.contextmanager
def show_progress(title: str, opening: str) -> Iterator[Callable[[RunProgress], None]]:
    """Show how far a run is, after an opening line; yields what is to be told about each episode."""
    from rcb_env.cli.progress import Progress

    with Progress(title) as shown:

        def tell(progress: RunProgress) -> None:
            states = ", ".join(f"{count} {state}" for state, count in progress.states.items())
            last = progress.last
            if last is None:
                shown.note(opening)
            if last is None and progress.resumed:
                shown.note(f"{progress.resumed} of {progress.planned} episodes are there already")
            if last is None and progress.finished < progress.planned:
                shown.note("starting the boxes ...")  # silent for long, where nothing is cached
            if last is not None and last.status == "infra_error":
                whose, again = "", "trying again"
                if last.end_reason == "agent_error":
                    whose, again = "the agent's own error: ", "it gets one more attempt"
                again = f"; {again}" if progress.retrying else ""
                shown.note(f"{last.challenge} sample {last.sample}: {whose}{last.error}{again}")
            shown.update(states, progress.finished, progress.planned)

        yield tell


def finish(store: RunStore, *, quiet: bool, as_json: bool) -> None:
    """Say what came of a run.

    Args:
        store: the run.
        quiet: no table.
        as_json: the last line of stdout is the run's object; the table goes to stderr.

    Raises:
        click.exceptions.Exit: with code 1: infrastructure left no episode with a verdict.
    """
    from rcb_env.cli.results import print_tables
    from rcb_env.report.summary import summarize

    summary = summarize(store)
    if not quiet:
        print_tables([summary], brief=False, to_stderr=as_json)
        click.echo(f"More: rcb report {store.folder}; rcb trajectory {store.folder}", err=True)
    if as_json:
        click.echo(json.dumps(summary.brief()))
    if summary.score.coverage == 0:
        raise click.exceptions.Exit(1)


def prepare_sandbox(name: str, image_names: Iterable[str]) -> tuple[str, str]:
    """The sandbox to use, and why; its packages are installed if they are not there.

    Called in a command with the option --sandbox.
    """
    from rcb_env import sandbox

    needed = sorted(set(image_names))
    chosen, why = sandbox.choose(name, needed)
    asked = click.get_current_context().get_parameter_source("sandbox")
    if name == chosen and asked is ParameterSource.DEFAULT:
        why = "as before"  # nobody names one by default: it was taken from the record
    sandbox.make(chosen)
    if chosen == "bubblewrap":
        realise(needed)
    return chosen, why


def realise(names: Iterable[str]) -> None:
    """Install the packages of these images, where they are not there yet, and say so while it takes."""
    from rcb_env.sandbox import images

    for name in names:
        images.realise(name, lambda line: click.echo(line, err=True))


def run_config(given: Mapping[str, Any]) -> RunConfig:
    """What the options of `rcb run` ask for.

    Raises:
        UsageError: a value is out of range.
    """
    from rcb_env.agent import ModelSettings
    from rcb_env.episode import Budgets
    from rcb_env.experiment import RunConfig

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
    from rcb_env.store import RunStore, arms_of

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
    from rcb_env.agent import same_agent
    from rcb_env.errors import UsageError

    if given != recorded and not same_agent(given, recorded):
        raise UsageError(
            f"{folder} was made with the agent {recorded}, not {given}:"
            " leave out --agent, or start another run with --out"
        )


def _present(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {option: values[key] for option, key in names.items() if key in values}


def _challenges(plan: Iterable[Mapping[str, Any]]) -> Sequence[str]:
    return [entry["challenge"] for entry in plan]
