"""`rcb report` and `rcb trajectory`: read what runs left on disk."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rcb_env.cli import analyses, completion, forms, options
from rcb_env.cli.output import console, echo

if TYPE_CHECKING:
    from rcb_env.report.summary import RunSummary
    from rcb_env.runs.store import RunStore


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completion.folders
)
@click.option("--brief", is_flag=True, help="Print only the table with one row per run.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one row per planned episode of one run.")
@click.option(
    "--by",
    "question",
    type=click.Choice((*analyses.BY, *analyses.KINDS)),
    help="Answer one question instead. error: why answers were wrong, and what feedback mends. paper: what the paper"
    " is worth (of arms with and without it). sections: which ones an agent opened, and whether it helped. official: where"
    " the public benchmark's verdicts differ from ours, and why (of runs that `rcb grade --official` made). memory: what of the"
    " reference stands in answers and nowhere in what was shown, and what is solved blind. The others: rates"
    " by lines of code, by domain of the paper, by words of the hint, by nesting, by scope, and by whether a paper's code"
    " was public before the model's knowledge cutoff.",
)
@options.cutoffs
@options.hierarchical
@forms.options
@options.as_json
def report(
    runs: Sequence[str],
    brief: bool,
    as_csv: bool,
    question: str | None,
    cutoffs: Sequence[str],
    hierarchical: bool,
    as_json: bool,
    **other_forms: Any,
) -> None:
    """Report on runs: pass rate, scaled pass rate, intervals and coverage, also for each paper.

    It names the challenges that were not solved. A folder of runs stands for all of them. With --json: one object per
    line, one for each run, in the order given.

    The column "95 %" tells how far a rate may be off for other papers like these. It counts each paper as one draw,
    because the challenges of a paper tend to succeed or fail together.
    """
    from rcb_env.errors import UsageError
    from rcb_env.report import export, sheets, summary
    from rcb_env.runs.store import RunStore

    stores = [RunStore.open(run) for run in expanded(runs)]
    if as_csv and (as_json or len(stores) > 1):
        raise UsageError("--csv takes one run and no --json")
    if as_csv:
        echo(export.to_csv(stores[0]), nl=False)
        tell_problems(stores)
        return
    by_name = dict(zip(names_of([store.folder for store in stores]), stores, strict=True))
    said = options.cutoffs_of(cutoffs, by_name)
    if question is not None:
        analyses.report_by(question, by_name, other_forms, as_json=as_json, cutoffs=said)
        tell_problems(stores)
        return
    read = functools.cache(lambda: sheets.numbers(by_name, hierarchical=hierarchical, cutoffs=said))
    if forms.give(
        other_forms,
        f"Report on {', '.join(by_name)}",
        lambda: read().sheets(),
        lambda document: document.report_sections(read()),
    ):
        tell_problems(stores)
        return
    summaries = [summary.summarize(store, hierarchical=hierarchical) for store in stores]
    if as_json:
        for one in summaries:
            echo(export.to_json(one, indent=None))
        return
    print_tables(summaries, brief=brief)


def print_tables(summaries: Sequence[RunSummary], *, brief: bool, to_stderr: bool = False) -> None:
    """Print the tables of some runs.

    Args:
        summaries: one for each run.
        brief: only the table with one row a run, and what must be known to read it.
        to_stderr: stdout is for JSON.
    """
    from rcb_env.report import tables

    shown = console(to_stderr=to_stderr)
    if not brief:
        tables.print_report(shown, summaries)
        return
    tables.print_runs(shown, summaries)
    for one in summaries:
        for problem in one.problems:
            shown.print(problem, markup=False, highlight=False, soft_wrap=True)


def names_of(folders: Sequence[Path]) -> list[str]:
    """The folders' own names where they tell the runs apart, else their paths."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def expanded(runs: Sequence[str]) -> list[Path]:
    """The run directories meant: a folder of runs stands for them all, see `rcb_env.runs.folders.runs_in`.

    Raises:
        StoreError: such a folder is damaged.
    """
    from rcb_env.runs.folders import runs_in

    return [folder for run in runs for folder in runs_in(run)]


@click.command()
@click.argument("run", metavar="RUN", shell_complete=completion.folders)
@click.argument("challenge", required=False, shell_complete=completion.challenges)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Which episode of the challenge, counted from 0.",
)
@click.option("--longest", is_flag=True, help="Print the episode with the most steps.")
@click.option(
    "--max-chars",
    type=click.IntRange(min=1),
    help="Cut longer texts, and say by how much.",
)
@options.as_json
def trajectory(
    run: str,
    challenge: str | None,
    sample: int,
    longest: bool,
    max_chars: int | None,
    as_json: bool,
) -> None:
    """Print an episode of a run step by step, as Markdown. Without CHALLENGE: list the episodes.

    For code that was graded and not played, it prints the code and what is wrong with it. With --json: the stored
    records, or one object per line for each episode.
    """
    from rcb_env.report.trajectory import read_trajectory
    from rcb_env.runs.store import RunStore

    store = RunStore.open(run)
    if challenge is None and not longest:
        _list_episodes(store, as_json)
        tell_problems([store])
        return
    try:
        line = _longest(store) if challenge is None else _find(store, challenge, sample)
    finally:
        tell_problems([store])
    path = store.trajectory_of(line)
    if as_json:
        echo(path.read_text("utf-8", "replace"), nl=False)
        return
    text = read_trajectory(path, code=line["episode"]["code"], max_chars=max_chars)
    echo(f"{path}\n\n{text}", nl=False)


def tell_problems(stores: Sequence[RunStore]) -> None:
    """Say on stderr what was found damaged in some runs."""
    for store in stores:
        for problem in store.problems:
            echo(problem, err=True)


def _list_episodes(store: RunStore, as_json: bool) -> None:
    from rcb_env.report.tables import EPISODE, episodes_table

    if as_json:
        for line in store.latest():
            row = {name: line["episode"].get(name) for name in EPISODE}
            echo(json.dumps({**row, "trajectory": line["trajectory"]}))
        return
    console().print(episodes_table(line["episode"] for line in store.latest()))
    echo(f"One of them: rcb trajectory {store.folder} CHALLENGE --sample N", err=True)


def _find(store: RunStore, challenge: str, sample: int) -> dict[str, Any]:
    from rcb_env.errors import UsageError, unknown

    seen: dict[str, list[int]] = {}
    for line in store.latest():
        episode = line["episode"]
        if (episode["challenge"], episode["sample"]) == (challenge, sample):
            return line
        seen.setdefault(episode["challenge"], []).append(episode["sample"])
    if challenge not in seen:
        raise unknown("episode", challenge, seen, where=f"rcb trajectory {store.folder}")
    known = ", ".join(map(str, sorted(seen[challenge])))
    raise UsageError(
        f"{challenge} has no finished sample {sample} in {store.folder}; it has {known}"
    )


def _longest(store: RunStore) -> dict[str, Any]:
    from rcb_env.errors import UsageError

    best: dict[str, Any] | None = None
    for line in store.latest():
        if best is None or line["episode"]["steps"] > best["episode"]["steps"]:
            best = line
    if best is None:
        raise UsageError(f"{store.folder} has no finished episode yet")
    return best
