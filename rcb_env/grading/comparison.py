"""One run of a split suite held against the reference's: every operand by the suite's own comparison.

What a suite compares comes out of both boxes as `Operands`. The same bytes need no judge; of all others a judge's box says
whether they agree, with the suite's own tolerance.
Guarantees: what a candidate sends is bounded by what the reference sent before it is read.
Not covered: the runs themselves (`split.py`); what the judge does with a pair (`runner/operands.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rcb_env.dataset.papers import Paper
from rcb_env.errors import BoxDied
from rcb_env.grading.isolated import messages, run_of
from rcb_env.grading.reports import Report
from rcb_env.grading.rewriting import Site
from rcb_env.runner import wire
from rcb_env.sandbox.fleet import Fleet

SLACK = 3.0  # how much longer the reference and the judge may take than a candidate
_JUDGE = "rcb_env.runner.split_run:judge"
_MORE_BYTES = 4096  # that operands may take beyond twice those of the reference


class Differing(NamedTuple):
    """Why a test's operands are not the reference's: in words, and as a class of errors."""

    message: str
    error_class: str = "value"


@dataclass(frozen=True)
class Operands:
    """What one run handed out: by test, the number of a site and the encoded operands of every comparison."""

    by_test: Mapping[str, tuple[tuple[int, bytes], ...]] = field(default_factory=dict)

    def only(self, sites: Collection[int]) -> Operands:
        """What was handed out at these sites."""
        return Operands(
            {
                test: tuple(one for one in compared if one[0] in sites)
                for test, compared in self.by_test.items()
            }
        )


def operands_of(data: bytes) -> Operands:
    """What a process, which may be hostile, sent as operands; of several records of a test the first counts."""
    found: dict[str, tuple[tuple[int, bytes], ...]] = {}
    for header, blobs in messages(data):
        test, sites = header.get("operands_of"), header.get("sites")
        if not isinstance(test, str) or not isinstance(sites, list) or test in found:
            continue
        if len(sites) == len(blobs) and all(type(site) is int for site in sites):
            found[test] = tuple(zip(sites, blobs, strict=True))
    return Operands(found)


class Comparison:
    """Compares runs in the judge's boxes of a fleet. Thread-safe."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def differences(
        self,
        paper: Paper,
        sites: tuple[Site, ...],
        wanted: Operands,
        own: Operands,
        given: Operands,
        report: Report,
    ) -> dict[str, Differing]:
        """By test, why the operands of a run are not the reference's.

        Args:
            paper: whose suite it is.
            sites: the comparisons of the suite.
            wanted: what the reference handed out.
            own: what it handed out as a candidate; the same needs no judge.
            given: what the candidate handed out.
            report: how its tests ended, by its own account.

        Raises:
            BoxDied: no box works.
        """
        told: dict[str, Differing] = {}
        pairs, blobs = [], []
        for test, expected in wanted.by_test.items():
            found = given.by_test.get(test, ())
            if test in report.outcomes and report.outcomes[test] not in ("passed", "skipped"):
                continue  # it told itself that it failed
            if [site for site, _ in found] != [site for site, _ in expected]:
                told[test] = Differing(_other_comparisons(sites, expected, found))
                continue
            by_itself = own.by_test.get(test, expected)
            for place, ((site, want), (_, got)) in enumerate(zip(expected, found, strict=True)):
                if got == by_itself[place][1]:
                    continue
                if len(got) > 2 * len(want) + _MORE_BYTES:
                    where = f"{sites[site].name} in line {sites[site].line}"
                    told[test] = Differing(f"{where}: the operands are of another size", "shape")
                    break
                limit = _limit(sites[site], expected[place:])
                pairs.append(
                    {
                        "test": test,
                        "name": sites[site].name,
                        "line": sites[site].line,
                        "withheld": list(sites[site].withheld),
                        "squared": sites[site].squared,
                    }
                )
                blobs += [want, got, limit]
        if pairs:
            told |= self._judge(paper, pairs, blobs)
        return told

    def _judge(
        self, paper: Paper, pairs: list[dict[str, object]], blobs: list[bytes]
    ) -> dict[str, Differing]:
        told = self._judged(paper, pairs, blobs)
        if told is not None:
            return told
        # A judge who fails on the candidate's operands, and not on the reference's own, fails because of the former.
        own = [blobs[place - place % 3 if place % 3 == 1 else place] for place in range(len(blobs))]
        if self._judged(paper, pairs, own) is None:
            raise BoxDied("the judge fails on the reference's own operands")
        return {str(pair["test"]): Differing("the operands cannot be compared") for pair in pairs}

    def _judged(
        self, paper: Paper, pairs: list[dict[str, object]], blobs: list[bytes]
    ) -> dict[str, Differing] | None:
        """What the judge says, by test; None if it failed."""
        argument = wire.pack({"pairs": pairs}, blobs)
        try:
            run = self._fleet.run_judge(run_of(paper, _JUDGE, argument, slack=SLACK))
        except BoxDied:
            return None
        message = next(messages(run.result, max_header_bytes=wire.MAX_HEADER_BYTES), None)
        if run.ended != "exit" or run.exit_code != 0 or message is None:
            return None
        found = message[0]["differences"]
        return {str(test): Differing(*map(str, told)) for test, told in found.items()}


def _limit(site: Site, following: tuple[tuple[int, bytes], ...]) -> bytes:
    """The reference's operands of the assertion that a difference is held against a limit by."""
    return next((data for number, data in following if number == site.limit_at), b"")


def _other_comparisons(
    sites: tuple[Site, ...],
    wanted: tuple[tuple[int, bytes], ...],
    given: tuple[tuple[int, bytes], ...],
) -> str:
    for (number, _), (other, _) in zip(wanted, given, strict=False):
        if number != other:
            return (
                f"{sites[number].name} in line {sites[number].line} was not reached as it should be"
            )
    if len(given) < len(wanted):
        missing = sites[wanted[len(given)][0]]
        return f"{missing.name} in line {missing.line} was not reached"
    return "it made more comparisons than it should"
