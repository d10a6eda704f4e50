"""What `rcb check` says of what was found: a line for each problem, and one for each paper.

Not covered: what is looked at (`check.py`, `rcb_env.certify`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rcb_env.cli.output import echo
from rcb_env.errors import counted

if TYPE_CHECKING:
    from rcb_env.certify import Certificate, CertificateFile
    from rcb_env.certify.open import OpenReport
    from rcb_env.certify.problem import Found
    from rcb_env.certify.suites import Kind, SuiteReport
    from rcb_env.certify.variants import VariantReport
    from rcb_env.cli.progress import Progress
    from rcb_env.dataset.papers import Paper


@dataclass
class Told:
    """What is to be said, and of which paper."""

    quiet: bool
    verbose: bool
    as_json: bool
    title: str = ""

    def progress(self) -> Progress:
        """How far the check of the paper is."""
        from rcb_env.cli.progress import Progress

        return Progress(self.title, verbose=self.verbose)


def standing_of(record: CertificateFile, paper: Paper) -> str:
    """What a file of certificates has to say of a paper."""
    standing = record.standing(paper)
    if standing == "current":
        return f"light check, {record.path} certifies it as it is: {record.summary(paper)}"
    return (
        f"{'not' if standing == 'missing' else 'changed since it was'} certified in {record.path}"
    )


def _begun(found: Found, standing: str, told: Told) -> list[str] | None:
    """Print the problems; returns what the line of the paper begins with, or None where all is said."""
    if told.as_json:
        echo(json.dumps({**found.to_dict(), "ok": found.ok, "standing": standing}))
        return None
    for problem in found.problems:
        echo(str(problem))
    if told.quiet:
        return None
    first = counted(len(found.problems), "problem") if found.problems else "certified"
    return [first, standing] if standing else [first]


def print_certificate(certificate: Certificate, standing: str, told: Told) -> None:
    """What was found about a paper."""
    facts = _begun(certificate, standing, told)
    if facts is None:
        return
    excused = sum(1 for survivor in certificate.survivors if survivor.reason)
    if certificate.mutants:
        facts.append(f"{certificate.killed} of {certificate.mutants} mutants fail")
    if excused:
        facts.append(f"{counted(excused, 'survivor')} with a written reason")
    accepted = sum(region.accepted for region in certificate.regions)
    refused = sum(region.refused for region in certificate.regions)
    if accepted or refused:
        facts.append(
            f"of other answers {accepted} are accepted and {refused} refused, as they must"
        )
    if certificate.depth != "light" and certificate.regions:
        facts.append(_credit(certificate))
    if certificate.reference_runs:
        passed = certificate.reference_runs - certificate.reference_failures
        facts.append(f"the reference passes {passed} of {certificate.reference_runs} runs")
    if certificate.warm_test_s is not None:
        facts.append(f"a warm test run takes {certificate.warm_test_s * 1000:.0f} ms")
    for note in certificate.notes:
        echo(f"{certificate.paper}: {note}")
    echo(f"{certificate.paper}: {'; '.join(facts)}")


def _credit(certificate: Certificate) -> str:
    """How much of partial credit is to be had for nothing."""
    worths = [region.worth for region in certificate.regions]
    free, cases = (
        sum(map(len, each))
        for each in zip(*((w.free, w.faults or {}) for w in worths), strict=True)
    )
    told = f"{free} of {counted(cases, 'case')} are free (an answer passes that knows nothing)"
    gained = [(one.for_nothing, one.challenge) for one in certificate.regions if one.for_nothing]
    if not gained:
        return told
    best, challenge = max(gained, key=lambda one: one[0].earned)
    return f"{told}; without trying at most {best.earned:.2f} ({challenge}: {best.answer})"


def print_open(report: OpenReport, standing: str, told: Told) -> None:
    """What was found about an open challenge."""
    facts = _begun(report, standing, told)
    if facts is None:
        return
    ranked = sorted(report.witnesses, key=lambda one: -(one.value or 0.0))
    facts += [str(one) for one in ranked if one.value is not None]
    failed = [one.name for one in report.witnesses if one.value is None]
    facts += [f"failed: {', '.join(failed)}"] if failed else []
    if report.run_s is not None:
        facts.append(f"a measurement takes {report.run_s:.1f} s")
    echo(f"{report.challenge}: {'; '.join(facts)}")


def print_survey(report: SuiteReport, told: Told) -> None:
    """What was found about a folder of a public data set."""
    if told.as_json:
        echo(json.dumps({**report.to_dict(), "ok": report.ok}))
        return
    if report.unavailable:
        echo(f"{report.paper}: not available here: {report.unavailable}")
        return
    for problem in (*report.problems, *(finding.where for finding in report.findings)):
        echo(str(problem))
    if told.quiet:
        return
    facts = [f"the reference passes {report.passed} of {report.challenges} challenges"]
    facts.append(f"{report.split} are graded split")
    if report.split:
        compared = len(report.split_tests) + len(report.weak_tests)
        facts.append(f"{len(report.split_tests)} of {counted(compared, 'test')} compare values")
    if report.weak_tests:
        echo(f"{report.paper}: only flags or exceptions: {', '.join(report.weak_tests)}")
    if report.unseeded:
        facts.append("its suite seeds nothing and is seeded by rcb")
    facts += _counts([report])
    if report.warm_test_s is not None:
        facts.append(f"a warm test run takes {report.warm_test_s * 1000:.0f} ms")
    echo(f"{report.paper}: {'; '.join(facts)}")


def print_sums(reports: Sequence[SuiteReport]) -> None:
    """What was found about all folders of a public data set."""
    able = [report for report in reports if not report.unavailable]
    missing = [report.paper for report in reports if report.unavailable]
    without = f" (not {', '.join(missing)})" if missing else ""
    passed = sum(report.passed for report in able)
    planned = sum(report.challenges for report in able)
    facts = [
        f"{len(able)} of {len(reports)} papers work here{without}",
        f"the reference passes {passed} of their {planned} challenges",
        f"{sum(report.split for report in able)} are graded split, in"
        f" {sum(report.split > 0 for report in able)} papers",
        *_counts(able),
    ]
    echo("\n" + "\n".join(facts))


def _counts(reports: Sequence[SuiteReport]) -> list[str]:
    """What was found, in numbers."""
    kinds: tuple[tuple[Kind, str], ...] = (
        ("empty", "pass when left empty"),
        ("pass", "pass when replaced by `pass`"),
        ("leak", "have their code where an agent can read it"),
        ("guarded", "are graded guarded"),
        ("no_canary", "have no canary"),
    )
    told = []
    for kind, words in kinds:
        found = [finding for report in reports for finding in report.of_kind(kind)]
        lines = sum(finding.lines for finding in found)
        told.append(f"{len(found)} {words}" + (f" ({lines} lines)" if found else ""))
    return told


def print_variants(report: VariantReport, standing: str, told: Told) -> None:
    """What was found about the variants of a paper."""
    from rcb_env.certify.variants import COUNTED

    facts = _begun(report, standing, told)
    if facts is None:
        return
    facts += [
        f"{counted(report.knobs, 'knob')}, {report.semantic} of them semantic, with {report.choices} choices",
        f"{report.touched} of {counted(report.regions, 'region')} have another answer",
        f"{report.answers} different answers in {COUNTED} variants",
    ]
    if report.references:
        facts.append(
            f"the reference passes in {report.passed} of {report.references} files of variants"
        )
        facts.append(f"{report.refused} of {report.crossed} answers for another choice fail")
    if report.mutants:
        facts.append(f"{report.killed} of {report.mutants} mutants fail")
    echo(f"{report.paper}: {'; '.join(facts)}; {report.seconds:.0f} s")
