"""`rcb compare`: what one run does better than another, and whether that is more than chance."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rcb_env.cli import completion, forms, options
from rcb_env.cli.output import console, echo

if TYPE_CHECKING:
    from rcb_env.runs.store import RunStore


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, metavar="A B | FOLDER", shell_complete=completion.folders
)
@click.option(
    "--brief", is_flag=True, help="Leave out the rates by effort and the list of challenges."
)
@click.option(
    "--power",
    is_flag=True,
    help="Say how many papers or challenges it would take to see a gap.",
)
@click.option(
    "--gap",
    "gaps",
    type=click.FloatRange(0.1, 100),
    multiple=True,
    metavar="POINTS",
    help="Say it for this gap in percentage points instead of 2, 5, 10 and 20; may be repeated.",
)
@click.option(
    "--variants",
    is_flag=True,
    help="Compare each run with itself: published papers against their variants. One run will do.",
)
@options.hierarchical
@forms.options
@options.as_json
def compare(
    runs: Sequence[str],
    brief: bool,
    power: bool,
    gaps: Sequence[float],
    variants: bool,
    hierarchical: bool,
    as_json: bool,
    **other_forms: Any,
) -> None:
    """Compare runs: B against A, on the challenges that both planned.

    It prints the pass rates of both, plain and scaled, and their difference with a 95 % interval (paired, over papers);
    the exact McNemar p-value; the challenges that only one of them solved; and pass rates by test runs, actions, model
    calls, tokens and money. It compares more than two runs, or the runs of a folder (`rcb run --arms` makes one), pair
    by pair; then each p-value stands beside what is left of it among so many comparisons (Holm). With --json: one object per line, one for each pair.

    With --variants it prints the recall gap of each run: how much more it solves of published papers than of the variants it
    planned (`rcb run --variant 0-8`) whose right answer is another one.
    """
    from rcb_env.cli.results import expanded, names_of, tell_problems
    from rcb_env.errors import UsageError
    from rcb_env.report import comparison, pair_tables, sheets
    from rcb_env.report.power import GAPS
    from rcb_env.runs.store import RunStore

    folders = expanded(runs)
    names = names_of(folders)
    stores = [RunStore.open(folder) for folder in folders]
    if variants:
        if any(other_forms.values()):
            raise UsageError(
                "--variants prints a table, or JSON with --json: leave out other forms"
            )
        _print_recall(stores, names, as_json)
        tell_problems(stores)
        return
    if len(stores) < 2:
        raise UsageError(f"{runs[0]} is one run; name another one to compare it with")
    pairs = comparison.corrected(
        [
            comparison.compare_runs(
                stores[a],
                stores[b],
                names=(names[a], names[b]),
                gaps=gaps or GAPS,
                hierarchical=hierarchical,
            )
            for a, b in itertools.combinations(range(len(stores)), 2)
        ]
    )
    by_name = dict(zip(names, stores, strict=True))
    if forms.give(
        other_forms,
        f"Comparison of {', '.join(names)}",
        lambda: [sheet for pair in pairs for sheet in sheets.pair(pair)],
        lambda document: document.comparison_sections(pairs, by_name),
    ):
        tell_problems(stores)
        return
    if as_json:
        for pair in pairs:
            echo(json.dumps(pair.to_dict()))
        tell_problems(stores)
        return
    shown = console()
    for number, pair in enumerate(pairs):
        if number:
            shown.print()
        pair_tables.print_comparison(shown, pair, brief=brief, power=power or bool(gaps))
    tell_problems(stores)


def _print_recall(stores: Sequence[RunStore], names: Sequence[str], as_json: bool) -> None:
    from rcb_env.report.pair_tables import recall_table
    from rcb_env.report.recall import recall_gap

    gaps = [recall_gap(store, name) for store, name in zip(stores, names, strict=True)]
    if as_json:
        for gap in gaps:
            echo(json.dumps(gap.to_dict()))
        return
    console().print(recall_table(gaps))
    left = sum(gap.same_answer for gap in gaps)
    if left:
        echo(f"{left} challenges of variants have the published answer, and are left out", err=True)
