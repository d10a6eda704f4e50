"""`rcb import`: results that the public benchmark's harness stored, as runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import echo


@click.command(name="import")
@click.argument("file", metavar="FILE", shell_complete=completion.files)
@click.option(
    "--dataset",
    default="researchcodebench",
    show_default=True,
    metavar="NAME|FOLDER",
    shell_complete=completion.datasets,
    help="What the results are of: run `rcb pull researchcodebench` first, or name a folder.",
)
@click.option(
    "--models",
    multiple=True,
    callback=options.split_commas,
    metavar="A,B",
    help="Take only these models of the file.",
)
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=completion.folders,
    help="The folder of the runs.  [default: runs/<time>-imported]",
)
@options.as_json
def import_(file: str, dataset: str, models: Sequence[str], out: str | None, as_json: bool) -> None:
    """Make runs of results that the public benchmark's harness stored, one for each model.

    FILE is its `overall_stats.json`, or its `paper2code_answers.json`, which holds the completions too. `rcb report`,
    `compare`, `items`, `view` and `leaderboard` take the runs as any other. `rcb grade RUN` grades the completions
    again; `rcb compare` then says which verdicts differ, and why. With --json: one object.
    """
    from rcb_env.runs import default_folder
    from rcb_env.runs.importing import import_results

    folder = Path(out) if out is not None else default_folder("imported")
    made = import_results(file, folder, dataset=dataset, models=models)
    if as_json:
        echo(json.dumps({"runs": {model: str(path) for model, path in made.items()}}))
        return
    for model, path in made.items():
        echo(f"{model}: {path}")
    echo(f"More: rcb report {folder}; rcb leaderboard {folder}", err=True)
