"""`rcb leaderboard`: the published results of the public benchmark, and runs of one's own beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import click

from rcb_env.cli import completion, forms, options
from rcb_env.cli.output import console, echo


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=completion.folders)
@click.option(
    "--by",
    type=click.Choice(["scaled", "plain"]),
    default="scaled",
    show_default=True,
    help="The rate that ranks: by lines of code, or each challenge once.",
)
@options.papers
@click.option(
    "--models",
    multiple=True,
    callback=options.split_commas,
    metavar="A,B",
    help="Take only these of the published models.",
)
@click.option(
    "--safe",
    is_flag=True,
    help="Take only papers whose code became public after the latest knowledge cutoff in the table.",
)
@options.cutoffs
@click.option(
    "--contamination",
    is_flag=True,
    help="Also say of each row what it does on the papers that its model cannot have seen.",
)
@forms.options
@options.as_json
def leaderboard(
    runs: Sequence[str],
    by: Literal["scaled", "plain"],
    papers: Sequence[str],
    models: Sequence[str],
    safe: bool,
    cutoffs: Sequence[str],
    contamination: bool,
    as_json: bool,
    **other_forms: Any,
) -> None:
    """Print the published results of ResearchCodeBench, 32 models, and your runs of it in the same table.

    All rows are over the challenges that all of them have planned. The rank's range holds 95 % of the ranks on papers
    drawn again by chance. Prices are US dollars for a million tokens. Runs on the bundled papers do not belong here:
    their challenges are others. With --json: one object per line, one for each row, the best first.
    """
    from rcb_env.cli.results import expanded, names_of, tell_problems
    from rcb_env.errors import unknown
    from rcb_env.report import board_sheets
    from rcb_env.report import leaderboard as boards
    from rcb_env.runs.store import RunStore

    entries = {one.name: one for one in boards.published()}
    for model in models:
        if model not in entries:
            raise unknown("published model", model, entries, where="rcb leaderboard")
    chosen = [one for name, one in entries.items() if not models or name in models]
    stores = [RunStore.open(folder) for folder in expanded(runs)]
    own = dict(zip(names_of([store.folder for store in stores]), stores, strict=True))
    said = options.cutoffs_of(cutoffs, own)
    chosen += [boards.of_run(name, store, said.get(name)) for name, store in own.items()]
    made = boards.leaderboard(chosen, by=by, papers=papers, safe=safe)
    tell_problems(stores)
    sheets = [board_sheets.board(made)]
    sheets += board_sheets.contamination(made) if contamination else []
    if forms.give(
        other_forms,
        "Leaderboard",
        lambda: sheets,
        lambda document: document.board_sections(made),
    ):
        return
    if as_json:
        for row in made.rows:
            echo(json.dumps(row.to_dict()))
        for note in made.notes:
            echo(note, err=True)
        return
    forms.show(console(), sheets)
