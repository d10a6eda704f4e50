"""`rcb run`: an agent plays challenges, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import echo
from rcb_env.cli.session import finish, played_in, show_progress
from rcb_env.cli.settings import fitted, run_config, with_record
from rcb_env.env.settings import Rules, Shown

if TYPE_CHECKING:
    from rcb_env.runs import RunConfig
    from rcb_env.runs.playing import Place

_positive = click.IntRange(min=1)
_more_than_zero = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option(
    "--agent",
    metavar="NAME[:SETTING=VALUE,...]",
    shell_complete=completion.agents,
    help="The agent that plays. `rcb list agents` lists them.",
)
@click.option(
    "--arms",
    multiple=True,
    metavar="AGENT,AGENT,...",
    shell_complete=completion.agent_list,
    help="Several agents instead of one. Each plays the same challenges, with the same seeds and budgets. AGENT@paper=none is one"
    " without the paper.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="The model that the agent asks: its name at the server, or provider/name.",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="The address of the model's server, which ends with /v1.  [default: $OPENAI_BASE_URL]",
)
@click.option(
    "--api",
    type=click.Choice(("auto", "chat", "responses", "anthropic", "google")),
    default="auto",
    show_default=True,
    help="The API that the server speaks: OpenAI's chat completions or responses, Anthropic's or Google's. auto: the"
    " provider's own for anthropic/ and google/ models without --base-url, chat completions for all others.",
)
@click.option(
    "--models",
    "models_file",
    metavar="FILE",
    shell_complete=completion.files,
    help="A YAML file of providers, and of prices, context windows and cutoffs of models. It overrides the built-in ones.",
)
@click.option(
    "--cache",
    metavar="auto|off|DIR",
    shell_complete=completion.folders,
    default="auto",
    show_default=True,
    help="Where replies are kept, so that the same request is sent only once. auto: your cache folder, but nothing from"
    " servers on this machine.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="The model's sampling temperature.",
)
@click.option("--max-tokens", type=_positive, help="Longest reply in tokens, reasoning included.")
@click.option(
    "--context-tokens", type=_positive, help="Size of the model's context window in tokens."
)
@click.option("--reasoning-effort", metavar="LEVEL", help="Passed to the model unchanged.")
@click.option(
    "--token-ids",
    is_flag=True,
    help="Ask the server for the ids and log-probabilities of its tokens, as vLLM gives them. `rcb export` has them in its rows.",
)
@click.option(
    "--model-timeout",
    "timeout_s",
    type=_more_than_zero,
    default=600.0,
    show_default=True,
    metavar="S",
    help="Longest wait for one reply, in seconds.",
)
@click.option(
    "--model-retries",
    "max_retries",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How often a request is sent again if no reply comes.",
)
@click.option(
    "--input-price",
    "input_usd_per_mtok",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Price of a million prompt tokens.",
)
@click.option(
    "--output-price",
    "output_usd_per_mtok",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Price of a million reply tokens.",
)
@options.selection
@click.option(
    "--samples", type=_positive, default=1, show_default=True, help="Episodes per challenge."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")
@options.workers
@options.cluster
@options.settings(Shown, Rules)
@click.option(
    "--run-budget-tokens",
    "run_tokens",
    type=options.OrNone(_positive),
    metavar="N|none",
    help="Most tokens of all episodes together. Prompts are estimated, and calls made in parallel can go over.",
)
@click.option(
    "--run-budget-usd",
    "run_cost_usd",
    type=options.OrNone(_more_than_zero),
    metavar="USD|none",
    help="Most US dollars of all episodes together. Calls under way can go over.",
)
@click.option(
    "--batch/--no-batch",
    help="Send all questions of --agent single-shot at once, through the batch API of OpenAI, Anthropic or Google, at half"
    " the price. The answers take up to a day: collect them with --resume.",
)
@options.sandbox
@options.boxes
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=completion.folders,
    help="The run's folder.  [default: runs/<time>-<agent>]",
)
@click.option(
    "--resume",
    metavar="[DIR]",
    shell_complete=completion.folders,
    is_flag=False,
    flag_value="",
    help="Continue the run in DIR (or --out). Options that you leave out keep their values.",
)
@options.quiet
@options.verbose
@options.as_json
@click.pass_context
def run(context: click.Context, /, **given: Any) -> None:
    """Let an agent play challenges. Each finished episode is saved at once, so Ctrl-C loses none.

    Give --agent or --arms, unless you give --resume. Each arm gets a run of its own, side by side in --out; `rcb
    report` and `rcb compare` take that folder. The command ends with a table. With --json the table goes to stderr, and
    the last line of stdout is one object: run, planned, states, pass_rate and scaled_pass_rate (in percent).
    """
    from rcb_env.cli.arms import play_arms
    from rcb_env.runs.folders import arms_of

    given = fitted(given, context)
    folder, resume = _folder(given), given["resume"] is not None
    if folder is not None and resume:
        given = with_record(given, folder, context)
    there = arms_of(folder) if folder is not None else {}
    _check(given, folder, list(there.values()), resume=resume)
    if there or given["arms"]:
        play_arms(given, folder, resume=resume)
    else:
        _play(given, folder, resume=resume)


def _folder(given: Mapping[str, Any]) -> Path | None:
    """The run directory that was named."""
    from rcb_env.errors import UsageError

    resume, out = given["resume"], given["out"]
    if resume and out and Path(resume) != Path(out):
        raise UsageError("--resume and --out name different folders; leave out --out")
    if resume == "" and not out:
        raise UsageError("which run? Write --resume DIR")
    return Path(resume or out) if resume or out else None


def _check(
    given: Mapping[str, Any], folder: Path | None, there: Sequence[str], *, resume: bool
) -> None:
    """Refuse options that do not go together, or not with the arms that are there."""
    from rcb_env.errors import UsageError

    agent, arms = given["agent"], given["arms"]
    if given["batch"] and given["cluster"]:
        raise UsageError("a batch is asked by this machine: leave out --cluster, or --batch")
    if given["cluster"] and (arms or there):
        raise UsageError("--cluster is for one agent, not for --arms: make a run for each arm")
    if given["batch"] and (arms or there):
        raise UsageError("--batch is for one agent, not for --arms")
    if agent and arms:
        raise UsageError("--agent and --arms exclude each other: make the agent one of the arms")
    if there and agent:
        raise UsageError(
            f"{folder} holds the arms {', '.join(there)}:"
            " leave out --agent, or choose another --out"
        )
    if there or arms:
        return
    if not agent and resume:
        raise UsageError(f"there is no run in {folder}; to start one, name the agent with --agent")
    if not agent:
        raise UsageError("which agent? Add --agent NAME; `rcb list agents` lists them")
    if given["model"] is None and given["base_url"] is not None:
        raise UsageError("--base-url needs --model: which model is to be asked there?")


def _play(given: Mapping[str, Any], folder: Path | None, *, resume: bool) -> None:
    """Play or go on with the run of one agent."""
    from rcb_env.runs import default_folder
    from rcb_env.runs.plan import planned

    config = run_config(given)
    if folder is None:
        folder = default_folder(
            f"{config.agent}-{config.model.name}" if config.model else config.agent
        )
    images = {challenge.paper.image for challenge, _ in planned(config)[1]}
    with played_in(given["cluster"], config, images) as (config, place, where):
        _play_in(place, where, config, folder, given, resume=resume)


def _play_in(
    place: Place | None,
    where: str,
    config: RunConfig,
    folder: Path,
    given: Mapping[str, Any],
    *,
    resume: bool,
) -> None:
    """Play or go on with a run in a place; None: here."""
    from rcb_env.errors import ModelError, ModelRefusedRequest, SandboxUnavailable, UsageError
    from rcb_env.runs import ask_ahead, open_run, run_experiment
    from rcb_env.runs.spending import RunBudgetSpent

    with open_run(config, folder, resume=resume, elsewhere=place is not None) as store:
        echo(f"run: {store.folder}", err=True)
        for problem in store.problems:
            echo(problem, err=True)
        try:
            waits = ask_ahead(config, store)
        except (ModelError, UsageError):
            store.discard_if_unused()
            raise
        if waits is not None:
            echo(waits, err=True)
            if config.batch:
                return
        title = store.record["config"]["agent"]  # in its shortest form, as in reports
        if config.model is not None:
            title += f" ({config.model.name})"
        with show_progress(title, where, verbose=given["verbose"], agent=config.agent) as tell:
            try:
                run_experiment(config, store, progress=tell, elsewhere=place)
            except RunBudgetSpent:
                raise  # it is to be gone on with
            except (ModelRefusedRequest, SandboxUnavailable, UsageError):
                store.discard_if_unused()  # a wrong key or name must not take the folder
                raise
        finish(store, quiet=given["quiet"], as_json=given["as_json"])
