"""What one run of a public suite reported: outcome and error by test.

`read_report` reads the records of `runner/suite_run.py`. They come from a process that may be hostile: only what has the
right form is kept, and whether an honest run could have reported it is asked (`forged`).
Not covered: what a report means for a verdict (`outcome.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rcb_env.dataset.loading import SUITE
from rcb_env.grading.causes import error_class
from rcb_env.grading.isolated import messages, read_error
from rcb_env.grading.verdict import CaseResult, Outcome

_OUTCOMES = ("passed", "failed", "error", "skipped")


@dataclass(frozen=True)
class Report:
    """What one run of a suite said.

    Attributes:
        outcomes, errors: by test; the empty name is the suite itself, which could not be imported.
        doubled: whether a test was reported twice.
        done: whether the run came to its end.
        imports: modules that it imported, where the run is believed.
    """

    outcomes: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    doubled: bool = False
    done: bool = False
    imports: tuple[str, ...] = ()

    def tests(self, outcome: str) -> frozenset[str]:
        """The tests that ended like this."""
        return frozenset(test for test, ended in self.outcomes.items() if ended == outcome)

    def all_errors(self) -> list[Mapping[str, Any]]:
        """The errors of all tests, in their order."""
        return [error for error in self.errors.values() if error is not None]

    def result(self, test: str) -> CaseResult:
        """How a test went that passes on the reference."""
        known: dict[str, Outcome] = {"passed": "passed", "failed": "failed", "error": "error"}
        outcome = known.get(self.outcomes.get(test, ""), "not_run")
        error = self.errors.get(test)
        if error is None:
            told = "" if outcome == "passed" else "the suite did not report it as passed"
            return CaseResult(test, 0, outcome, told)
        where = "".join(f"\n  {frame}" for frame in error["frames"])
        told = f"{error['type']}: {error['message']}{where}"
        return CaseResult(test, 0, outcome, told, error_class=error_class(error))

    def why_not_imported(self) -> str:
        """The first error of a suite that could not be imported; or ""."""
        errors = self.all_errors() if "" in self.errors else []
        return f"{errors[0]['type']}: {errors[0]['message']}" if errors else ""

    def forged(self, reference: Report) -> str:
        """Why no honest run reports this where the reference's run reported that; or ""."""
        known = frozenset(reference.outcomes) | {""}
        # A class whose setup fails is reported by a name that says so.
        told = {test for test in self.outcomes if not test.startswith(("setUp", "tearDown"))}
        if self.doubled or not told <= known:
            return "tests were reported twice, or tests that do not exist"
        return ""

    def trouble_with_reference(self) -> str:
        """Why the suite is of no use, where this is the reference's run; or ""."""
        for test, error in self.errors.items():
            if self.outcomes[test] in ("failed", "error"):
                told = f"{error['type']}: {error['message']}" if error else self.outcomes[test]
                return f"{test or SUITE}: {told}".split("\n")[0][:300]
        if not self.done:
            return "it does not come to its end"
        return "" if "passed" in self.outcomes.values() else "it holds no test"


def read_report(data: bytes, *, trusted: bool = False) -> Report:
    """The report of a run; what it says of its imports only where it is trusted."""
    outcomes: dict[str, str] = {}
    errors: dict[str, Mapping[str, Any] | None] = {}
    doubled = done = False
    imports: tuple[str, ...] = ()
    for header, _ in messages(data):
        if header.get("done") is True:
            done = True
            imports = tuple(header["imports"]) if trusted else ()
            continue
        test, outcome, error = header.get("test"), header.get("outcome"), header.get("error")
        if not isinstance(test, str) or outcome not in _OUTCOMES:
            continue
        doubled = doubled or test in outcomes
        outcomes[test] = outcome
        errors[test] = read_error(error)
    return Report(outcomes, errors, doubled, done, imports)
