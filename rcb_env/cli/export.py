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
def export(runs: Sequence[str], form: str, out: str, reward: str) -> None:
    """Write runs as training data: OpenAI chat messages with tool calls and masks.

    A folder that holds runs stands for all of them.
    """
    from rcb_env.cli.results import expanded
    from rcb_env.report import training
    from rcb_env.rewards import reward_spec

    spec = reward_spec(reward)
    made = training.export(expanded(runs), cast("training.Form", form), out, reward=spec)
    click.echo(f"{counted(made.rows, 'row')} in {out}")
    for reason, count in made.left_out.items():
        click.echo(f"left out: {counted(count, 'episode')} ({reason})", err=True)
