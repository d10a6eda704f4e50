"""One table of outcomes for all ways of grading: what ended a run comes before what it told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from rcb_env.errors import BoxDied
from rcb_env.grading.outcome import Told, conclude, ended_its_box
from rcb_env.grading.verdict import CaseResult, Verdict
from rcb_env.sandbox.box import RunResult

RUN = RunResult("exit", 0, b"", "out", "err", (), 1.0)
GOOD = Told((CaseResult("one", 0, "passed"), CaseResult("two", 0, "passed")))
DIFFERS = replace(GOOD, results=(CaseResult("one", 0, "failed", "it differs\nhere"),))


def error(kind: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "message": message, "frames": [], "kinds": [kind, "Exception"]}


def decided(run: RunResult, told: Told) -> tuple[str, str | None, str]:
    verdict = conclude(run, told, {})
    return verdict.status, verdict.error_class, verdict.message


def test_what_passes_passes() -> None:
    assert decided(RUN, GOOD) == ("passed", None, "")
    assert decided(RUN, replace(GOOD, complete=False)) == ("failed", "value", "")


@pytest.mark.parametrize("ended", ["timeout", "memory"])
def test_a_limit_is_told_before_anything_the_run_said(ended: Literal["timeout", "memory"]) -> None:
    told = replace(DIFFERS, forged="it was forged", errors=[error("NameError")])
    status, kind, _ = decided(replace(RUN, ended=ended), told)
    wanted = {"timeout": ("timeout", "time"), "memory": ("out_of_memory", "memory")}
    assert (status, kind) == wanted[ended]


def test_a_failed_allocation_is_out_of_memory_and_no_error_of_the_code() -> None:
    told = replace(
        GOOD, errors=[error("RuntimeError", "DefaultCPUAllocator: can't allocate memory")]
    )
    assert decided(RUN, told)[0] == "out_of_memory"


def test_a_forged_report_counts_only_if_the_run_came_to_its_end() -> None:
    forged = replace(GOOD, forged="it was forged")
    verdict = conclude(RUN, forged, {})
    assert (verdict.status, verdict.notes) == ("tampered", ("it was forged",))
    assert decided(replace(RUN, exit_code=-9), replace(DIFFERS, forged="x", done=False)) == (
        *("failed", "other"),
        "the tests did not complete: their process ended with signal 9",
    )


def test_the_first_test_that_does_not_pass_names_the_class() -> None:
    shape = CaseResult("one", 0, "failed", "it differs\nhere", error_class="shape")
    assert decided(RUN, replace(GOOD, results=(shape,))) == ("failed", "shape", "one: it differs")
    both = replace(GOOD, results=(shape,), errors=[error("NameError")])
    assert decided(RUN, both)[1] == "shape"
    assert decided(RUN, replace(DIFFERS, errors=[error("NameError")]))[1] == "name"
    assert decided(RUN, DIFFERS) == ("failed", "value", "one: it differs")


def test_code_that_asks_to_exit_is_told_so() -> None:
    told = replace(DIFFERS, errors=[error("SystemExit", "3")])
    assert decided(RUN, told)[2] == "the tests did not complete: the code called sys.exit(3)"


def test_outputs_that_are_too_large_are_named() -> None:
    run = replace(RUN, ended="result")
    assert decided(run, replace(DIFFERS, done=False)) == (
        "failed",
        "other",
        "the outputs are too large",
    )


def test_code_that_ended_its_box_has_failed_or_used_too_much_memory() -> None:
    death = BoxDied("gone")
    assert ended_its_box(death).status == "failed"
    death.out_of_memory = True
    assert ended_its_box(death).status == "out_of_memory"


def test_only_a_pass_of_code_that_ran_without_the_answer_is_proven() -> None:
    passed = conclude(RUN, GOOD, {})
    proven = {way: replace(passed, evidence=way).proven for way in ("isolated", "split", "guarded", None)}  # fmt: skip
    assert proven == {"isolated": True, "split": True, "guarded": False, None: False}
    assert not Verdict("failed", evidence="split").proven
    stored = replace(passed, evidence="split").to_dict()
    assert Verdict.from_dict(stored).evidence == "split"
    with pytest.raises(ValueError, match="no verdict has the evidence 'sworn'"):
        Verdict.from_dict({**stored, "evidence": "sworn"})
    del stored["evidence"]
    assert Verdict.from_dict(stored).evidence is None, "stored before evidence was recorded"
