"""`rcb grade`: judge code that is there already, and make a run of it like any other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from rcb_env.cli import completion, options
from rcb_env.env.settings import Extractor, Rules


@click.command()
@click.argument("source", metavar="FILE.jsonl|RUN", shell_complete=completion.files)
@click.option(
    "--dataset",
    metavar="NAME|FOLDER",
    shell_complete=completion.datasets,
    help="The data set.  [default: `bundled`; for a RUN, the one it was made with]",
)
@options.scope
@click.option(
    "--variant",
    type=click.IntRange(min=0),
    metavar="N",
    help="Grade the answers of a file in this variant of their papers, where an id does not name another (ID~N).",
)
@options.papers
@options.challenges
@options.settings(Rules, only=("extractor",))
@options.gradings
@options.cluster
@options.sandbox
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=completion.folders,
    help="The folder of the new run.  [default: runs/<time>-<name>]",
)
@click.option(
    "--official",
    is_flag=True,
    help="Also run each suite as the public benchmark does, and put its verdict beside ours. Only for the public data set.",
)
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@options.quiet
@options.verbose
@options.as_json
def grade(
    source: str,
    dataset: str | None,
    scope: str | None,
    variant: int | None,
    papers: Sequence[str],
    challenges: Sequence[str],
    extractor: Extractor,
    workers: int,
    cluster: str | None,
    sandbox: str,
    out: str | None,
    official: bool,
    resume: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Grade the completions in a file, or grade the code of a run again.

    Each line of the file is a JSON object with `challenge`, `sample`, and either `completion` (a model's whole reply;
    the code is extracted from it) or `code` (put into the region as it is). With --papers or --challenges, a challenge
    that the file lacks counts as missing.
    """
    from rcb_env.cli.session import finish, graded_in, show_progress
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.dataset.scopes import in_scope
    from rcb_env.errors import UsageError
    from rcb_env.runs import default_folder, grade_completions, regrade

    path = Path(source)
    if not path.exists():
        raise UsageError(f"{source}: no such file or run directory")
    if resume and out is None:
        raise UsageError("--resume needs --out: which run?")
    again = path.is_dir()
    if again and (papers or challenges):
        raise UsageError("a run is graded again as a whole: leave out --papers and --challenges")
    if again and variant is not None:
        raise UsageError("the answers of a run are of its own variants: leave out --variant")
    if again and extractor != "robust":
        raise UsageError(
            "--extractor is only for files of replies: the code of a run is extracted already"
        )
    if again:
        made_with = _made_with(path)
        dataset = dataset or made_with
    elif scope is None:
        scope = _scope_of(path)
    if scope is not None or dataset is None:
        dataset = in_scope(dataset or "bundled", scope)
    images = {paper.image for paper in load_dataset(dataset).papers}
    folder = Path(out) if out is not None else default_folder(f"graded-{path.resolve().stem}")
    with (
        graded_in(
            cluster, sandbox, images, workers=workers, run=folder.name, official=official
        ) as (
            grader,
            at_once,
            where,
        ),
        show_progress("grading", f"run: {folder}\n{where}", verbose=verbose) as tell,
    ):
        if again:
            store = regrade(
                path,
                folder,
                dataset=dataset,
                official=official,
                workers=at_once,
                resume=resume,
                progress=tell,
                grader=grader,
            )
        else:
            store = grade_completions(
                path,
                folder,
                dataset=dataset,
                papers=papers,
                challenges=challenges,
                variant=variant,
                rules=Rules(extractor=extractor),
                official=official,
                workers=at_once,
                resume=resume,
                progress=tell,
                grader=grader,
            )
    finish(store, quiet=quiet, as_json=as_json)


def _scope_of(path: Path) -> str | None:
    """The scope of the challenges that a file names, None: regions; those who grade tell what is wrong with a line.

    Raises:
        UsageError: it names challenges of several scopes.
    """
    from rcb_env.dataset.scopes import scope_of
    from rcb_env.errors import UsageError
    from rcb_env.runs.regrading import MAX_LINE_BYTES

    lines: dict[str, int] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                try:
                    name = json.loads(line)["challenge"]
                except (ValueError, TypeError, LookupError, RecursionError):
                    continue
                lines.setdefault(scope_of(str(name)), number)
    except OSError:
        return None
    if len(lines) > 1:
        if "open" in lines:
            other = next(number for scope, number in lines.items() if scope != "open")
            told = f"line {lines['open']} is of an open challenge, line {other} is not"
        else:
            told = ", ".join(f"line {number} is of scope {one}" for one, number in lines.items())
        raise UsageError(f"{path}: {told}: write two files, and grade them one by one")
    scope = next(iter(lines), "region")
    return None if scope == "region" else scope


def _made_with(run: Path) -> str:
    """The data set of a run; what is damaged in the run is told."""
    from rcb_env.cli.results import tell_problems
    from rcb_env.runs.store import RunStore

    stored = RunStore.open(run)
    stored.finished()  # reads every line, and so finds what is damaged
    tell_problems([stored])
    return str(stored.record.get("dataset", {}).get("source", "bundled"))
