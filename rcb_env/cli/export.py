"""`rcb export`: runs as training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import echo
from rcb_env.errors import counted

_FORMS = ("sft", "preference", "rl")


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completion.folders
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    required=True,
    help="sft: solved episodes. preference: pairs of a solved and a failed episode of one challenge. rl: all episodes.",
)
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    shell_complete=completion.files,
    help="The file to write. Its name ends with .jsonl or .parquet (which needs pyarrow).",
)
@click.option(
    "--reward",
    default="sparse",
    show_default=True,
    metavar="SPEC",
    help="How steps are rewarded: sparse, cases, weighted, lines or shaped. Settings may follow:"
    " cases:shaping=0.5,step_cost=0.01",
)
@click.option(
    "--arguments",
    type=click.Choice(("objects", "text")),
    default="objects",
    show_default=True,
    help="How arguments of tool calls are written. objects: as chat templates need them. text: as JSON text, as in OpenAI's API.",
)
@options.narrowing
@click.option(
    "--tokenizer",
    metavar="FOLDER|NAME",
    help="Add the tokens of a model (input_ids) and which of them it is to learn (labels). Needs the extra `trl`.",
)
@click.option(
    "--chat-template",
    metavar="FILE",
    help="With --tokenizer: the chat template to use instead of its own.",
)
@click.option(
    "--prompts",
    is_flag=True,
    help="Rows are what agents sent to their models and what these answered, instead of the conversation with the environment.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def export(
    runs: Sequence[str],
    form: str,
    out: str,
    reward: str,
    arguments: str,
    tokenizer: str | None,
    chat_template: str | None,
    prompts: bool,
    force: bool,
    **chosen: Any,
) -> None:
    """Write runs as training data: chat messages with tool calls and masks.

    A folder of runs stands for all of them. The messages are the assignment, the tool calls and their answers, with the
    model's reasoning if the server showed it. The mask is 1 for what the model wrote. Some agents make the tool calls
    for their model (single-shot, repair, best-of-n, plan). Their prompts are in the rows of --prompts only. If no
    episode gives a row, FILE is not written and the exit code is 1.
    """
    from rcb_env.cli.results import expanded
    from rcb_env.env.rewards import reward_spec
    from rcb_env.errors import UsageError
    from rcb_env.report import training
    from rcb_env.report.tokens import RowTokenizer

    if chat_template and not tokenizer:
        raise UsageError("--chat-template is for --tokenizer: add it")
    spec = reward_spec(reward)
    made = training.export(
        expanded(runs),
        cast("training.Form", form),
        out,
        reward=spec,
        arguments=cast("training.Arguments", arguments),
        selection=options.selected(chosen),
        tokenizer=RowTokenizer(tokenizer, chat_template) if tokenizer else None,
        prompts=prompts,
        force=force,
    )
    for problem in made.problems:
        echo(problem, err=True)
    if made.rows:
        echo(f"{counted(made.rows, 'row')} in {out}")
    for reason, count in made.left_out.items():
        echo(f"left out: {counted(count, 'episode')} ({reason})", err=True)
    if made.rows and made.without_prompts:
        agents = ", ".join(sorted(made.without_prompts))
        echo(
            f"the rows hold assignment and tool calls, not the prompts of {agents}: --prompts has these",
            err=True,
        )
    if made.rows and made.without_reasoning:
        echo(
            f"reasoning that servers did not show, or that agents asked for, is missing in"
            f" {counted(made.without_reasoning, 'row')}",
            err=True,
        )
    if made.cut_off:
        echo(
            f"{counted(made.cut_off, 'message')} with a call that was cut off: the mask is 0 there",
            err=True,
        )
    if not made.rows:
        more = "" if form == "rl" else "; --format rl takes every finished one"
        echo(f"rcb: no episode gives a row, so {out} is not written{more}", err=True)
        raise click.exceptions.Exit(1)
