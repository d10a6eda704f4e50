"""`rcb check`: are papers good enough to judge agents by?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rcb_env.cli import options

if TYPE_CHECKING:
    from rcb_env.certify import Certificate


@click.command()
@click.argument("papers", nargs=-1, metavar="[PAPER]...")
@options.dataset
@click.option(
    "--full", is_flag=True, help="Every mutant, more repeats, other threads and hash seeds."
)
@options.sandbox
@options.workers
@click.option("--no-cache", is_flag=True, help="Judge again what was judged before.")
@options.as_json
def check(
    papers: Sequence[str],
    dataset: str,
    full: bool,
    sandbox: str,
    workers: int,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Certify papers: all of a data set, or those named by id. Exit code 1 if anything is wrong.

    A paper passes when its reference passes again and again, its emptied regions and nearly all small faults in them
    fail, and no region's code stands elsewhere in what an agent sees.
    """
    from rcb_env.certify import Certificate, Problem, certify
    from rcb_env.cli.progress import Progress
    from rcb_env.errors import PaperError, unknown
    from rcb_env.grading import Grader
    from rcb_env.papers import load_dataset

    try:
        loaded = load_dataset(dataset)
    except PaperError as error:
        certificate = Certificate(dataset, full, (Problem.of(error),))
        _print(certificate, as_json)
        raise click.exceptions.Exit(1) from None
    by_id = {paper.id: paper for paper in loaded.papers}
    for name in papers:
        if name not in by_id:
            raise unknown("paper", name, by_id, where="rcb list papers")
    chosen = [by_id[name] for name in dict.fromkeys(papers)] or list(loaded.papers)
    cache = None
    if not no_cache:
        from platformdirs import user_cache_dir

        cache = Path(user_cache_dir("rcb-env")) / "verdicts"
    all_fine = True
    with Grader(sandbox, workers=workers) as grader:
        for paper in chosen:
            with Progress(paper.id) as progress:
                certificate = certify(
                    paper, grader, full=full, progress=progress.update, cache=cache, workers=workers
                )
            _print(certificate, as_json)
            all_fine = all_fine and certificate.ok
    if not all_fine:
        raise click.exceptions.Exit(1)


def _print(certificate: Certificate, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**certificate.to_dict(), "ok": certificate.ok}))
        return
    for problem in certificate.problems:
        click.echo(str(problem))
    excused = sum(1 for survivor in certificate.survivors if survivor.reason)
    facts = [f"{len(certificate.problems)} problems" if certificate.problems else "certified"]
    if certificate.mutants:
        facts.append(f"{certificate.killed} of {certificate.mutants} mutants fail")
    if excused:
        facts.append(f"{excused} survivors with a written reason")
    if certificate.reference_runs:
        passed = certificate.reference_runs - certificate.reference_failures
        facts.append(f"the reference passes {passed} of {certificate.reference_runs} runs")
    if certificate.warm_test_s is not None:
        facts.append(f"a warm test run takes {certificate.warm_test_s * 1000:.0f} ms")
    for note in certificate.notes:
        click.echo(f"{certificate.paper}: {note}")
    click.echo(f"{certificate.paper}: {'; '.join(facts)}")
