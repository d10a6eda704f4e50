"""`rcb export`: runs as training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import click

from rcb_env.errors import counted

_FORMS = ("sft", "preference", "rl")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    required=True,
    help="sft: solved episodes; preference: solved against failed on one challenge; rl: all.",
)
@click.option(
    "--out", required=True, metavar="FILE", help="Ends with .jsonl or .parquet (needs pyarrow)."
)
@click.option(
    "--reward",
    default="sparse",
    show_default=True,
    metavar="SPEC",
    help="What steps earn: sparse, cases, lines or shaped, with settings or without:"
    " cases:shaping=0.5,step_cost=0.01",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def export(runs: Sequence[str], form: str, out: str, reward: str, force: bool) -> None:
    """Write runs as training data: OpenAI chat messages with tool calls and masks.

    A folder that holds runs stands for all of them. The messages are the assignment, the tool calls and their answers. Of
    agents that make the calls for their model (single-shot, repair, best-of-n, plan), the prompts that the model was
    sent are not in them; `rcb trajectory` shows those. Exit code 1, and no FILE, if no episode gives a row.
    """
    from rcb_env.cli.results import expanded
    from rcb_env.env.rewards import reward_spec
    from rcb_env.report import training

    spec = reward_spec(reward)
    made = training.export(
        expanded(runs), cast("training.Form", form), out, reward=spec, force=force
    )
    if made.rows:
        click.echo(f"{counted(made.rows, 'row')} in {out}")
    for reason, count in made.left_out.items():
        click.echo(f"left out: {counted(count, 'episode')} ({reason})", err=True)
    if made.rows and made.without_prompts:
        agents = ", ".join(sorted(made.without_prompts))
        click.echo(
            f"the rows hold assignment and tool calls, not the prompts of {agents}: see docs/training.md",
            err=True,
        )
    if not made.rows:
        more = "" if form == "rl" else "; --format rl takes every finished one"
        click.echo(f"rcb: no episode gives a row, so {out} is not written{more}", err=True)
        raise click.exceptions.Exit(1)
