"""`rcb run`: an agent plays challenges, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo
from rcb_env.cli.session import finish, prepare_sandbox, show_progress
from rcb_env.cli.settings import run_config, with_record
from rcb_env.env.settings import Rules, Shown

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
    help="A server's address, with its /v1.  [default: OPENAI_BASE_URL]",
)
@click.option(
    "--api",
    type=click.Choice(("auto", "chat", "responses", "anthropic", "google")),
    default="auto",
    show_default=True,
    help="What it is spoken to in: OpenAI's chat completions or responses, Anthropic's or Google's own; auto: the"
    " own one for anthropic/ and google/, chat completions for all others and wherever an address is given.",
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
    "--model-timeout",
    "timeout_s",
    type=_more_than_zero,
    default=600.0,
    show_default=True,
    metavar="S",
)
@click.option(
    "--model-retries", "max_retries", type=click.IntRange(min=0), default=5, show_default=True
)
@click.option(
    "--input-price",
    "input_usd_per_mtok",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Per million tokens.",
)
@click.option(
    "--output-price",
    "output_usd_per_mtok",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Per million tokens.",
)
@options.selection
@click.option(
    "--samples", type=_positive, default=1, show_default=True, help="Episodes for each challenge."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything random.")
@options.workers
@options.settings(Shown, Rules)
@click.option(
    "--run-budget-tokens",
    "run_tokens",
    type=options.OrNone(_positive),
    metavar="N|none",
    help="Most tokens all episodes may use together, by an estimate of each prompt; calls at once can go over.",
)
@click.option(
    "--run-budget-usd",
    "run_cost_usd",
    type=options.OrNone(_more_than_zero),
    metavar="USD|none",
    help="Most all episodes may cost together; the calls under way can go over.",
)
@click.option(
    "--batch/--no-batch",
    help="Ask all questions of --agent single-shot at once, at half the price, through the batch API of OpenAI,"
    " Anthropic or Google. They take up to a day: leave, and collect them with --resume.",
)
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
    from rcb_env.runs.folders import arms_of

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
    from rcb_env.errors import ModelError, ModelRefusedRequest, UsageError
    from rcb_env.runs import ask_ahead, default_folder, open_run, run_experiment
    from rcb_env.runs.plan import planned
    from rcb_env.runs.spending import RunBudgetSpent

    config = run_config(given)
    if folder is None:
        folder = default_folder(
            f"{config.agent}-{config.model.name}" if config.model else config.agent
        )
    images = {challenge.paper.image for challenge, _ in planned(config)[1]}
    sandbox, why = prepare_sandbox(config.sandbox, images)
    config = replace(config, sandbox=sandbox)
    with open_run(config, folder, resume=resume) as store:
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
        with show_progress(title, f"sandbox: {sandbox} ({why})") as tell:
            try:
                run_experiment(config, store, progress=tell)
            except RunBudgetSpent:
                raise  # it is to be gone on with
            except (ModelRefusedRequest, UsageError):
                store.discard_if_unused()  # a wrong key or name must not take the folder
                raise
        finish(store, quiet=given["quiet"], as_json=given["as_json"])
