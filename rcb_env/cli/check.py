"""`rcb check`: are papers good enough to judge agents by?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rcb_env.cli import options
from rcb_env.errors import counted

if TYPE_CHECKING:
    from rcb_env.certify import Certificate, CertificateFile, Depth
    from rcb_env.certify.suites import Kind, SuiteReport
    from rcb_env.dataset.papers import Paper


@click.command()
@click.argument("papers", nargs=-1, metavar="[PAPER]...")
@options.dataset
@click.option(
    "--full", is_flag=True, help="Every mutant, more repeats, other threads and hash seeds."
)
@click.option(
    "--certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --full: write what was found to FILE. Without: papers that FILE certifies as they are get a light check.",
)
@options.sandbox
@options.workers
@click.option(
    "--strict",
    is_flag=True,
    help="Findings about a public data set are wrong as well: exit code 1.",
)
@click.option("--no-cache", is_flag=True, help="Judge again what was judged before.")
@options.as_json
def check(
    papers: Sequence[str],
    dataset: str,
    full: bool,
    certificate: Path | None,
    sandbox: str,
    workers: int,
    strict: bool,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Certify papers: all of a data set, or those named by id. Exit code 1 if anything is wrong.

    A paper passes when its reference passes again and again, its emptied regions and nearly all small faults in them
    fail, its outputs depend on what cases draw, and no region's code stands elsewhere in what an agent sees. A light check grades the reference and emptied
    regions as ever, but only two faults a region.

    Of a public data set (researchcodebench) it is said which papers work here, and which regions pass when they are left
    empty (just those that `rcb run --agent noop` passes) or emptied to `pass`, have their code in sight, or have no
    canary. These are findings and no faults of this installation: the exit code is 1 only if a reference does not pass,
    a grading failed, or no paper works; with --strict, also for any finding and any paper that does not work.
    """
    from rcb_env import sandbox as sandboxes
    from rcb_env.certify import Certificate, CertificateFile, Problem, certify
    from rcb_env.certify.suites import survey
    from rcb_env.cli.progress import Progress
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.errors import PaperError, unknown
    from rcb_env.grading.grader import Grader

    try:
        loaded = load_dataset(dataset)
    except PaperError as error:
        _print(Certificate(dataset, "quick", (Problem.of(error),)), "", as_json)
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
    record = CertificateFile(certificate) if certificate else None
    all_fine = True
    surveyed: list[SuiteReport] = []
    where, _ = sandboxes.choose(sandbox, {paper.image for paper in chosen})
    with Grader(where, workers=workers, judge_all=True) as grader:
        for paper in chosen:
            if paper.layout == "paper2code":
                with Progress(paper.id) as progress:
                    report = survey(
                        paper, grader, progress=progress.update, cache=cache, workers=workers
                    )
                _print_survey(report, as_json)
                surveyed.append(report)
                continue
            known = record is not None and not full and record.standing(paper) == "current"
            depth: Depth = "full" if full else "light" if known else "quick"
            with Progress(paper.id) as progress:
                found = certify(
                    paper,
                    grader,
                    depth=depth,
                    progress=progress.update,
                    cache=cache,
                    workers=workers,
                )
            _print(found, _standing(record, paper) if record and not full else "", as_json)
            if record and full:
                record.put(paper, found, by_id)
            all_fine = all_fine and found.ok
    if surveyed:
        if not as_json:
            _print_sums(surveyed)
        missing = [report for report in surveyed if report.unavailable]
        all_fine = all_fine and all(report.ok for report in surveyed) and missing != surveyed
        if strict:
            all_fine = all_fine and not missing and not any(one.findings for one in surveyed)
    if not all_fine:
        raise click.exceptions.Exit(1)


def _standing(record: CertificateFile, paper: Paper) -> str:
    """What a file of certificates has to say of a paper."""
    standing = record.standing(paper)
    if standing == "current":
        return f"light check, {record.path} certifies it as it is: {record.summary(paper)}"
    return (
        f"{'not' if standing == 'missing' else 'changed since it was'} certified in {record.path}"
    )


def _print(certificate: Certificate, standing: str, as_json: bool) -> None:
    if as_json:
        told = {**certificate.to_dict(), "ok": certificate.ok, "standing": standing}
        click.echo(json.dumps(told))
        return
    for problem in certificate.problems:
        click.echo(str(problem))
    excused = sum(1 for survivor in certificate.survivors if survivor.reason)
    facts = [counted(len(certificate.problems), "problem") if certificate.problems else "certified"]
    if standing:
        facts.append(standing)
    if certificate.mutants:
        facts.append(f"{certificate.killed} of {certificate.mutants} mutants fail")
    if excused:
        facts.append(f"{counted(excused, 'survivor')} with a written reason")
    if certificate.reference_runs:
        passed = certificate.reference_runs - certificate.reference_failures
        facts.append(f"the reference passes {passed} of {certificate.reference_runs} runs")
    if certificate.warm_test_s is not None:
        facts.append(f"a warm test run takes {certificate.warm_test_s * 1000:.0f} ms")
    for note in certificate.notes:
        click.echo(f"{certificate.paper}: {note}")
    click.echo(f"{certificate.paper}: {'; '.join(facts)}")


def _print_survey(report: SuiteReport, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**report.to_dict(), "ok": report.ok}))
        return
    if report.unavailable:
        click.echo(f"{report.paper}: not available here: {report.unavailable}")
        return
    for problem in (*report.problems, *(finding.where for finding in report.findings)):
        click.echo(str(problem))
    facts = [f"the reference passes {report.passed} of {report.challenges} challenges"]
    facts += _counts([report])
    if report.warm_test_s is not None:
        facts.append(f"a warm test run takes {report.warm_test_s * 1000:.0f} ms")
    click.echo(f"{report.paper}: {'; '.join(facts)}")


def _print_sums(reports: Sequence[SuiteReport]) -> None:
    able = [report for report in reports if not report.unavailable]
    missing = [report.paper for report in reports if report.unavailable]
    without = f" (not {', '.join(missing)})" if missing else ""
    passed = sum(report.passed for report in able)
    planned = sum(report.challenges for report in able)
    facts = [
        f"{len(able)} of {len(reports)} papers work here{without}",
        f"the reference passes {passed} of their {planned} challenges",
        *_counts(able),
    ]
    click.echo("\n" + "\n".join(facts))


def _counts(reports: Sequence[SuiteReport]) -> list[str]:
    """What was found, in numbers."""
    kinds: tuple[tuple[Kind, str], ...] = (
        ("empty", "pass when left empty"),
        ("pass", "pass when emptied to `pass`"),
        ("leak", "have their code in sight"),
        ("no_canary", "have no canary"),
    )
    told = []
    for kind, words in kinds:
        found = [finding for report in reports for finding in report.of_kind(kind)]
        lines = sum(finding.lines for finding in found)
        told.append(f"{len(found)} {words}" + (f" ({lines} lines)" if found else ""))
    return told
