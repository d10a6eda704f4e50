"""`rcb compare`: what one run does better than another, and whether that is more than chance."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import click

from rcb_env.cli import options


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="A B | FOLDER")
@click.option("--brief", is_flag=True, help="No rates by effort and no list of challenges.")
@options.as_json
def compare(runs: Sequence[str], brief: bool, as_json: bool) -> None:
    """Compare runs: B against A, on the challenges that both planned.

    Prints both rates, plain and scaled, the difference with its interval (paired, papers resampled), the exact McNemar
    p, the discordant challenges, and pass rates by test runs, actions, model calls, tokens and money. More than two
    runs, or a folder that holds runs (as `rcb run --arms` makes it), are compared pair by pair. With --json one object for each pair, one a line.
    """
    from rcb_env.cli.results import console_for, expanded
    from rcb_env.errors import UsageError
    from rcb_env.report import comparison, tables
    from rcb_env.runs.store import RunStore

    folders = expanded(runs)
    names = _names(folders)
    stores = [RunStore.open(folder) for folder in folders]
    if len(stores) < 2:
        raise UsageError(f"{runs[0]} is one run: with which other one is it to be compared?")
    pairs = [
        comparison.compare_runs(stores[a], stores[b], names=(names[a], names[b]))
        for a, b in itertools.combinations(range(len(stores)), 2)
    ]
    if as_json:
        for pair in pairs:
            click.echo(json.dumps(pair.to_dict()))
        return
    console = console_for(to_stderr=False)
    for number, pair in enumerate(pairs):
        if number:
            console.print()
        tables.print_comparison(console, pair, brief=brief)
    for store in stores:
        for problem in store.problems:
            click.echo(problem, err=True)


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names where they tell the runs apart, else their paths."""
    short = [folder.name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]
