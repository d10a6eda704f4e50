"""`rcb check`: are papers good enough to judge agents by?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rcb_env.cli import completion, options
from rcb_env.cli.check_output import (
    Told,
    print_certificate,
    print_open,
    print_sums,
    print_survey,
    print_variants,
    standing_of,
)

if TYPE_CHECKING:
    from rcb_env.certify import Certificate, CertificateFile, Depth
    from rcb_env.certify.certificate import Kind
    from rcb_env.certify.open import OpenReport
    from rcb_env.certify.suites import SuiteReport
    from rcb_env.certify.variants import VariantReport
    from rcb_env.dataset.papers import Dataset, Paper
    from rcb_env.grading.grader import Grader


@click.command()
@click.argument("papers", nargs=-1, metavar="[PAPER]...", shell_complete=completion.papers)
@options.dataset
@options.scope
@click.option(
    "--variants",
    "of_variants",
    is_flag=True,
    help="Look at the variants that papers declare, every choice of every knob, and not at the papers as published.",
)
@click.option(
    "--variant",
    "numbers",
    metavar="N|N-M|SPLIT",
    help="Look at these variants only, and not at every choice of every knob.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Try every mutant, more repeats, and other thread counts and hash seeds.",
)
@click.option(
    "--certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --full: write the results to FILE. Without: a paper that has not changed since gets a light check.",
)
@options.sandbox
@options.gradings
@options.cluster
@click.option(
    "--strict",
    is_flag=True,
    help="Findings about a public data set also give exit code 1.",
)
@click.option(
    "--no-cache", is_flag=True, help="Grade everything again, also what was graded before."
)
@options.quiet
@options.verbose
@options.as_json
def check(
    papers: Sequence[str],
    dataset: str,
    scope: str | None,
    of_variants: bool,
    numbers: str | None,
    full: bool,
    certificate: Path | None,
    sandbox: str,
    workers: int,
    cluster: str | None,
    strict: bool,
    no_cache: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Certify papers: all of a data set, or those you name. Exit code 1 if anything is wrong.

    A paper passes if its reference passes every time, if empty regions and nearly all small faults fail, if the answers
    in its tests/answers.yaml pass or fail as they must, if outputs
    depend on the inputs that its cases draw, and if an agent cannot read a region's code elsewhere in its files. A
    light check does the same, but tries only two faults per region.

    Partial credit (`reward="cases"`) does not count cases that an answer passes which knows nothing: a constant, an
    exception, an argument. The check says how many such cases there are, and what other answers earn without trying:
    copies of other regions, and exits.

    With --scope file, paper or library the check looks at several parts at once: the reference must pass, and fail without
    any one of its parts. With --full --certificate, and without --scope, all of these go on record beside the regions. With --scope open the check looks at open challenges: the baseline must score well below the paper's own method, two
    other answers well above it, the first idea at most half as much, and answers that do not try below the baseline. A
    light check asks only for this order, on fewer problems.

    With --variants the check looks at every choice of every knob of a paper's variants.yaml alone, and at some
    combinations: the reference must pass, answers for another choice must fail, small faults must fail, and no words
    of another choice may be in sight. Without PAPER: at all papers that declare variants.

    For a public data set (researchcodebench) the check lists the papers that work here. It also lists the regions that
    pass when they are left empty (`rcb run --agent noop` passes just these) or replaced by `pass`, those whose code can
    be read elsewhere, and those without a canary. These are findings about the data set, not errors of your
    installation. The exit code is 1 only if a reference fails, if grading fails, or if no paper works; with --strict
    also for any finding, and for any paper that does not work.
    """
    from rcb_env.certify import CertificateFile
    from rcb_env.cli.session import graded_in
    from rcb_env.dataset.scopes import in_scope, scope_of
    from rcb_env.errors import UsageError

    told = Told(quiet, verbose, as_json)
    loaded = _loaded(in_scope(dataset, scope), told)
    chosen = _chosen(loaded, papers)
    of_variants = of_variants or numbers is not None
    if of_variants and not papers:
        chosen = [paper for paper in chosen if paper.variants is not None]
    of_open = bool(chosen) and chosen[0].layout == "open"
    if certificate and numbers is not None:
        raise UsageError("all variants go on record together: leave out --variant")
    if certificate and full and scope_of(loaded.name) not in ("region", "open"):
        raise UsageError("all scopes go on record with the regions: leave out --scope")
    kind: Kind = "variants" if of_variants else "open challenges" if of_open else "regions"
    record = CertificateFile(certificate, kind=kind) if certificate else None
    cache = None if no_cache else _cache()
    certified: list[Certificate] = []
    surveyed: list[SuiteReport] = []
    measured: list[OpenReport] = []
    varied: list[VariantReport] = []
    images = {paper.image for paper in chosen}
    with graded_in(cluster, sandbox, images, workers=workers, judge_all=True) as (
        grader,
        at_once,
        _,
    ):
        job = _Job(grader, at_once, cache, record, full, told, _numbers(numbers, loaded))
        for number, paper in enumerate(chosen, 1):
            told.title = f"{paper.id} ({number} of {len(chosen)})" if chosen[1:] else paper.id
            if of_variants:
                varied.append(job.vary(paper, [one.id for one in loaded.papers]))
            elif paper.layout == "paper2code":
                surveyed.append(job.survey(paper))
            elif paper.layout == "open":
                measured.append(job.measure(paper, [one.id for one in loaded.papers]))
            else:
                certified += job.certify(paper, [one.id for one in loaded.papers])
    if surveyed and not (as_json or quiet):
        print_sums(surveyed)
    fine = all(one.ok for found in (certified, measured, varied) for one in found)
    if not (fine and _is_fine(surveyed, strict=strict)):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True)
class _Job:
    """Checks papers one by one, and says of each at once what was found."""

    grader: Grader
    workers: int
    cache: Path | None
    record: CertificateFile | None
    full: bool
    told: Told
    numbers: Sequence[int] | None = None

    def survey(self, paper: Paper) -> SuiteReport:
        """What can be found out about a folder of a public data set."""
        from rcb_env.certify.suites import survey

        with self.told.progress() as shown:
            report = survey(
                paper, self.grader, progress=shown.update, cache=self.cache, workers=self.workers
            )
        print_survey(report, self.told)
        return report

    def measure(self, paper: Paper, order: Sequence[str]) -> OpenReport:
        """Whether an open challenge is good enough; a full check goes on record."""
        from rcb_env.certify.open import certify_open

        known = self._known
        with self.told.progress() as shown:
            report = certify_open(
                paper,
                self.grader,
                light=known is not None and known.standing(paper) == "current",
                progress=shown.update,
                cache=self.cache,
                workers=self.workers,
            )
        print_open(report, standing_of(known, paper) if known else "", self.told)
        if self.record and self.full:
            self.record.put(paper, report, order)
        return report

    def vary(self, paper: Paper, order: Sequence[str]) -> VariantReport:
        """Whether the variants of a paper are good enough; a full check goes on record."""
        from rcb_env.certify.variants import certify_variants

        with self.told.progress() as shown:
            report = certify_variants(
                paper,
                self.grader,
                depth=self._depth(paper),
                numbers=self.numbers,
                progress=shown.update,
                cache=self.cache,
                workers=self.workers,
            )
        print_variants(report, standing_of(self._known, paper) if self._known else "", self.told)
        if self.record and self.full:
            self.record.put(paper, report, order)
        return report

    def _depth(self, paper: Paper) -> Depth:
        current = self._known is not None and self._known.standing(paper) == "current"
        return "full" if self.full else "light" if current else "quick"

    @property
    def _known(self) -> CertificateFile | None:
        """What may say that a light check is enough."""
        return None if self.full else self.record

    def certify(self, paper: Paper, order: Sequence[str]) -> list[Certificate]:
        """Whether a paper is good enough; a full check goes on record with all scopes, in this order of papers."""
        from rcb_env.dataset.joint import in_all_scopes

        found = self._certify(paper)
        if not self.record or not self.full:
            return [found]
        scopes = {scope: (one, self._certify(one)) for scope, one in in_all_scopes(paper).items()}
        self.record.put(paper, found, order, scopes)
        return [found, *(certificate for _, certificate in scopes.values())]

    def _certify(self, paper: Paper) -> Certificate:
        from rcb_env.certify import certify
        from rcb_env.certify.joint import certify_joint

        known = self._known
        with self.told.progress() as shown:
            look = certify if paper.challenges[0].holes is None else certify_joint
            found = look(
                paper,
                self.grader,
                depth=self._depth(paper),
                progress=shown.update,
                cache=self.cache,
                workers=self.workers,
            )
        print_certificate(found, standing_of(known, paper) if known else "", self.told)
        return found


def _numbers(said: str | None, dataset: Dataset) -> Sequence[int] | None:
    from rcb_env.dataset.selection import Selection

    return None if said is None else Selection.of({"variants": said}).numbers(dataset)


def _loaded(dataset: str, told: Told) -> Dataset:
    """The data set; one that cannot be read is a finding like any other."""
    from rcb_env.certify import Certificate, Problem
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.errors import PaperError

    try:
        return load_dataset(dataset)
    except PaperError as error:
        print_certificate(Certificate(dataset, "quick", problems=(Problem.of(error),)), "", told)
        raise click.exceptions.Exit(1) from None


def _chosen(dataset: Dataset, names: Sequence[str]) -> list[Paper]:
    """The papers of these ids, in their order; without ids, all of them."""
    from rcb_env.dataset.scopes import scope_of, without_scope
    from rcb_env.errors import UsageError

    for name in names:
        if (scope := scope_of(name)) != "region":
            papers = " ".join(without_scope(each).partition("/")[0] for each in names)
            what = "an open challenge" if scope == "open" else "a challenge"
            raise UsageError(f"{name} is no paper but {what}: `rcb check --scope {scope} {papers}`")
    return [dataset.paper(name) for name in dict.fromkeys(names)] or list(dataset.papers)


def _cache() -> Path:
    from rcb_env.caches import user_cache

    return user_cache("verdicts")


def _is_fine(reports: Sequence[SuiteReport], *, strict: bool) -> bool:
    """Whether a public data set works here; strictly, whether there is nothing to say about it either."""
    missing = [report for report in reports if report.unavailable]
    if strict and (missing or any(report.findings for report in reports)):
        return False
    return all(report.ok for report in reports) and not (reports and len(missing) == len(reports))
