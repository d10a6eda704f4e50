"""Split grading, for public suites: the answer is not where the candidate runs, and nothing is believed.

A suite runs twice, in two boxes, in the two copies that `copies.py` makes of it. In the candidate's box the names of the
reference stand for the candidate's own file; in the judge's box everything is the reference's. What the suite compares
comes out of both as plain data, and the judge applies the suite's own comparison across the two runs: every operand of the
candidate's against the same operand of the reference's. A candidate passes when its tests end as the reference's did and
made the same comparisons in the same order, and no operand differs.

The reference's run is the same for all candidates: it is kept in memory, by content and purpose. Generators that the suite
does not seed are seeded here, for feedback with another number than for the final score; of a few numbers the first one
with which the reference passes.
Not covered: how operands are compared (`comparison.py`); whether a suite is fit for this (`evidence.py`). Flags (`assertTrue(x > 0)`), types and expected exceptions are
compared like all else, but whoever knows the suite can make them up: such comparisons are `weak`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from rcb_env.dataset.loading import SUITE
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import BoxDied
from rcb_env.grading.comparison import SLACK, Comparison, Differing, Operands, operands_of
from rcb_env.grading.copies import Copies, copies
from rcb_env.grading.isolated import messages, run_of
from rcb_env.grading.outcome import Told, conclude, ended_its_box
from rcb_env.grading.reports import Report, read_report
from rcb_env.grading.verdict import CaseResult, Purpose, Verdict
from rcb_env.runner import wire
from rcb_env.sandbox.fleet import Fleet

_RUN = "rcb_env.runner.split_run:run"
_COMPILE = "rcb_env.runner.case_run:compiled"
_SEEDS = 5  # tried, before a suite counts as one that fails on the reference
_KEPT_RUNS = 64  # of references, in memory


@dataclass(frozen=True)
class Reference:
    """The judge's run of a suite.

    Attributes:
        argument: what the candidate's run gets.
        report, operands: what the reference's run told.
        own: what the reference handed out as a candidate, in the candidate's copy: a candidate that hands out the same,
            byte for byte, needs no judge.
        run_s: how long it took.
        trouble: why the suite cannot be split; or "".
    """

    argument: bytes = b""
    report: Report = field(default_factory=Report)
    operands: Operands = field(default_factory=Operands)
    own: Operands = field(default_factory=Operands)
    run_s: float = 0.0
    trouble: str = ""

    def only(self, sites: Collection[int]) -> Reference:
        """The same run, as if the suite compared at these sites only."""
        return replace(self, operands=self.operands.only(sites), own=self.own.only(sites))


@dataclass(frozen=True)
class Attempt:
    """A candidate's verdict, and what gave it away.

    Attributes:
        imported: whether its tests could be imported at all.
        values_differ: whether the operands that nobody can make up differ from the reference's.
    """

    verdict: Verdict
    imported: bool = False
    values_differ: bool = False


@dataclass(frozen=True)
class SuiteTests:
    """What the tests of a suite compare when it is split.

    Attributes:
        trouble: why it cannot be split; "": it can.
        strong: tests that compare values.
        weak: tests that compare flags, types and expected exceptions only, or nothing.
        seeds: whether the suite seeds a generator itself; if not, it is seeded here.
    """

    trouble: str
    strong: tuple[str, ...]
    weak: tuple[str, ...]
    seeds: bool


class SplitGrading:
    """Grades regions of papers in the public layout in the boxes of a fleet. Thread-safe."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._comparison = Comparison(fleet)
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._copies: dict[str, Copies] = {}
        self._compiled: dict[str, tuple[dict[str, bytes], dict[str, bytes]]] = {}
        self._references: OrderedDict[str, Reference] = OrderedDict()

    def copies(self, paper: Paper) -> Copies:
        """The two copies of a paper's suite."""
        with self._lock:
            if paper.content_hash not in self._copies:
                self._copies[paper.content_hash] = copies(paper)
            return self._copies[paper.content_hash]

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """The verdict on the text of a region.

        Raises:
            BoxDied: no box works.
        """
        return self._attempt(challenge, code, purpose)[0]

    def attempt(self, challenge: Challenge, code: str, *, slack: float) -> Attempt:
        """The final verdict on the text of a region, and what gave it away; `slack` stretches its time.

        Raises:
            BoxDied: no box works.
        """
        paper = challenge.paper
        verdict, report, operands = self._attempt(challenge, code, "final", slack)
        if verdict.passed or verdict.status == "infra_error":
            return Attempt(verdict)
        strong = [number for number, site in enumerate(self.copies(paper).sites) if not site.weak]
        reference = self.reference(paper, "final").only(strong)
        unasked = Report(outcomes=dict.fromkeys(report.outcomes, "passed"))
        values_differ = bool(self._compare(paper, reference, operands.only(strong), unasked))
        return Attempt(verdict, imported="" not in report.outcomes, values_differ=values_differ)

    def _attempt(
        self, challenge: Challenge, code: str, purpose: Purpose, slack: float = 1.0
    ) -> tuple[Verdict, Report, Operands]:
        paper = challenge.paper
        reference = self.reference(paper, purpose)
        if reference.trouble:
            message = f"{paper.id} does not split: {reference.trouble}"
            return Verdict("infra_error", message=message), Report(), Operands()
        tree = {**challenge.tree(code), **self._data(paper)}
        request = run_of(paper, _RUN, reference.argument, tree, slack=slack)
        run = self._fleet.run_candidate(request)
        if isinstance(run, BoxDied):
            return replace(ended_its_box(run), evidence="split"), Report(), Operands()
        started = time.monotonic()
        report, operands = read_report(run.result), operands_of(run.result)
        differences = self._compare(paper, reference, operands, report)
        told = _told(reference.report, report, differences)
        told = replace(told, complete=report.done and run.exit_code == 0)
        timings = {"run_s": run.wall_s, "judge_s": time.monotonic() - started}
        return replace(conclude(run, told, timings), evidence="split"), report, operands

    def tests(self, paper: Paper) -> SuiteTests:
        """What the tests of a suite compare.

        Raises:
            BoxDied: no box works.
        """
        reference = self.reference(paper, "final")
        made = self.copies(paper)
        strong: list[str] = []
        weak: list[str] = []
        for test in sorted(reference.report.tests("passed")):
            compared = reference.operands.by_test.get(test, ())
            values = any(not made.sites[number].weak for number, _ in compared)
            (strong if values else weak).append(test)
        return SuiteTests(reference.trouble, tuple(strong), tuple(weak), seeds=made.seeds)

    def reference(self, paper: Paper, purpose: Purpose) -> Reference:
        """The reference's run for a purpose; made once.

        Raises:
            BoxDied: no box works.
        """
        key = f"{paper.content_hash} {purpose}"
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._references:
                    self._references.move_to_end(key)
                    return self._references[key]
            made = self._make_reference(paper, purpose)
            if not made.trouble or not made.report.outcomes:  # else a slow machine may be to blame
                with self._lock:
                    self._references[key] = made
                    while len(self._references) > _KEPT_RUNS:
                        self._references.popitem(last=False)
            return made

    def _make_reference(self, paper: Paper, purpose: Purpose) -> Reference:
        made = self.copies(paper)
        if made.trouble:
            return Reference(trouble=made.trouble)
        compiled = self._compile(paper, made)
        if compiled is None:
            return Reference(trouble="its copies cannot be compiled")
        found = Reference()
        for number in range(_SEEDS):
            digest = hashlib.sha256(f"{purpose} {paper.content_hash} {number}".encode()).digest()
            seed = int.from_bytes(digest[:4], "big") >> 1
            judge, candidate = (
                _argument(made, code, seed, settings=role == 0)
                for role, code in enumerate(compiled)
            )
            run_s, report, operands = self._trusted(paper, judge, tests=True)
            trouble = report.trouble_with_reference()
            found = Reference(candidate, report, operands, run_s=run_s, trouble=trouble)
            if not found.trouble:
                return self._with_candidates_copy(paper, found)
        return found

    def _with_candidates_copy(self, paper: Paper, found: Reference) -> Reference:
        """Whether the reference passes as a candidate, in the candidate's copy."""
        _, report, operands = self._trusted(paper, found.argument, tests=False)
        trouble = report.trouble_with_reference()
        if not trouble:
            differences = self._compare(paper, found, operands, report)
            trouble = next((found.message for found in differences.values()), "")
        return replace(
            found,
            own=operands,
            trouble=trouble and f"the reference fails as a candidate: {trouble}",
        )

    def _trusted(
        self, paper: Paper, argument: bytes, *, tests: bool
    ) -> tuple[float, Report, Operands]:
        tree = {**paper.challenges[0].tree(), **(_data(paper) if tests else self._data(paper))}
        run = self._fleet.run_trusted(run_of(paper, _RUN, argument, tree, slack=SLACK))
        report = read_report(run.result, trusted=True)
        self._fleet.learn_imports(paper.id, report.imports)
        return run.wall_s, report, operands_of(run.result)

    def _compile(
        self, paper: Paper, made: Copies
    ) -> tuple[dict[str, bytes], dict[str, bytes]] | None:
        with self._lock:
            if paper.content_hash in self._compiled:
                return self._compiled[paper.content_hash]
        both = []
        for sources in (made.judge, made.candidate):
            argument = wire.pack({"sources": dict(sources)})
            run = self._fleet.run_trusted(run_of(paper, _COMPILE, argument, slack=SLACK))
            message = next(messages(run.result), None)
            if message is None:
                return None
            both.append(dict(zip(sources, message[1], strict=True)))
        with self._lock:
            return self._compiled.setdefault(paper.content_hash, (both[0], both[1]))

    def _data(self, paper: Paper) -> dict[str, bytes]:
        """The data files that the candidate's copy needs."""
        return {path: paper.tests[path] for path in self.copies(paper).data}

    def _compare(
        self, paper: Paper, reference: Reference, candidate: Operands, report: Report
    ) -> dict[str, Differing]:
        sites = self.copies(paper).sites
        return self._comparison.differences(
            paper, sites, reference.operands, reference.own, candidate, report
        )


def _argument(made: Copies, code: Mapping[str, bytes], seed: int, *, settings: bool) -> bytes:
    header = {
        "suite": SUITE,
        "paths": list(code),
        "hide": not settings,
        "seed": seed,
        "bound": [asdict(one) for one in made.bound],
        "settings": settings,
    }
    return wire.pack(header, list(code.values()))


def _data(paper: Paper) -> dict[str, bytes]:
    return {path: data for path, data in paper.tests.items() if not path.endswith(".py")}


def _told(reference: Report, report: Report, differences: Mapping[str, Differing]) -> Told:
    results = tuple(_results(reference, report, differences))
    return Told(
        results,
        report.all_errors(),
        done=report.done,
        forged=report.forged(reference),
        message=report.why_not_imported(),
    )


def _results(
    reference: Report, report: Report, differences: Mapping[str, Differing]
) -> Iterator[CaseResult]:
    in_setup = differences.get("")
    for test in sorted(reference.tests("passed")):
        result = report.result(test)
        difference = differences.get(test, in_setup)
        if result.outcome == "passed" and difference is not None:
            kind = difference.error_class
            result = CaseResult(test, 0, "failed", difference.message, error_class=kind)
        yield result
