"""`rcb items`: how hard each challenge is, and whether it tells strong agents from weak ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import console, echo

if TYPE_CHECKING:
    from rcb_env.report.items import ItemAnalysis


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN... | TABLE.csv | researchcodebench",
    shell_complete=completion.files,
)
@click.option("--all", "every", is_flag=True, help="Print all challenges, not the first ones only.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print one row per challenge, for spreadsheets."
)
@options.as_json
def items(runs: Sequence[str], every: bool, as_csv: bool, as_json: bool) -> None:
    """Say of each challenge how hard it is, and whether it tells strong agents from weak ones.

    Every run is one agent; a folder of runs stands for all of them. TABLE.csv holds published results instead, one row
    for each challenge and model; `researchcodebench` stands for those of the public benchmark, 32 models. Suspicious challenges come first: those that stronger agents fail more often, that only
    weaker ones solve, that nobody solves, that everybody solves.

    Discrimination is the correlation of a challenge with the pass rate on all the others, over agents; it needs five of
    them. With --json: one object.
    """
    from rcb_env.errors import UsageError
    from rcb_env.report import export, item_tables

    if as_csv and as_json:
        raise UsageError("--csv and --json cannot both be printed: choose one")
    found = _analysis(runs)
    if as_json:
        echo(json.dumps(found.to_dict()))
    elif as_csv:
        echo(export.items_csv(found), nl=False)
        for note in found.notes:
            echo(note, err=True)
    else:
        item_tables.print_items(console(), found, every=every)


def _analysis(runs: Sequence[str]) -> ItemAnalysis:
    from rcb_env.cli.results import expanded, names_of, tell_problems
    from rcb_env.errors import UsageError
    from rcb_env.report import item_sources, public_results
    from rcb_env.runs.store import RunStore

    if public_results.NAME in runs and not Path(public_results.NAME).exists():
        if len(runs) > 1:
            raise UsageError(f"{public_results.NAME} is a table of results: name it alone")
        return item_sources.of_published()
    tables = [run for run in runs if run.endswith(".csv")]
    if tables:
        if len(runs) > 1:
            raise UsageError(f"{tables[0]} is a table of results: name it alone, without runs")
        return item_sources.of_table(tables[0])
    stores = [RunStore.open(folder) for folder in expanded(runs)]
    if len(stores) < 2:
        raise UsageError(
            f"{stores[0].folder} is one run: what a challenge tells of agents shows between two or more; name more runs"
            " (`rcb report` lists what one of them did not solve)"
        )
    names = names_of([store.folder for store in stores])
    found = item_sources.of_runs(dict(zip(names, stores, strict=True)))
    tell_problems(stores)
    return found
