"""How a run of tests ended, in one verdict: the one table that every way of grading reads.

A way of grading says what its tests told (`Told`); `conclude` puts that beside how the process ended. Limits come first:
whoever passed one has neither passed nor tampered. What cannot be an honest run's report is next, then success, then
the reasons of a failure, the most telling first.
Not covered: reading what a process sent (isolated.py, split.py, guarded.py), and who is to blame for a dead box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rcb_env.errors import BoxDied
from rcb_env.grading.causes import Error, error_class, is_out_of_memory
from rcb_env.grading.verdict import OUT_OF_MEMORY, CaseResult, Status, Verdict
from rcb_env.sandbox.box import RunResult


@dataclass(frozen=True)
class Told:
    """What the tests of one run told.

    Attributes:
        results: one result a planned test.
        errors: the exceptions that were reported, in their order.
        done: whether the run said that it came to its end.
        complete: whether success needs nothing more: all that has to be there when tests pass is there.
        forged: why no honest run reports this, in words; or "".
        message: the line to show, where it is not that of the first result that did not pass.
    """

    results: tuple[CaseResult, ...]
    errors: Sequence[Error] = ()
    done: bool = True
    complete: bool = True
    forged: str = ""
    message: str = ""


def conclude(run: RunResult, told: Told, timings: Mapping[str, float]) -> Verdict:
    """The verdict on a run that ended, whatever ended it."""
    status, kind, message = _decide(run, told)
    return Verdict(
        status,
        cases=told.results,
        error_class=kind,
        message=message.split("\n")[0],
        notes=(told.forged,) if status == "tampered" else (),
        stdout=run.stdout,
        stderr=run.stderr,
        timings=timings,
    )


def _decide(run: RunResult, told: Told) -> tuple[Status, str | None, str]:
    first = next((result for result in told.results if result.outcome != "passed"), None)
    message = told.message or ("" if first is None else f"{first.case}: {first.message}")
    if run.ended == "timeout":
        return "timeout", None, f"the tests did not end within {run.wall_s:.0f} s"
    if run.ended == "memory" or any(map(is_out_of_memory, told.errors)):
        return "out_of_memory", None, OUT_OF_MEMORY
    if told.forged and told.done:
        return "tampered", None, told.forged
    if first is None and run.ended == "exit" and told.complete:
        return "passed", None, message
    if told.errors:
        first_class = None if first is None else first.error_class
        kind = first_class or error_class(told.errors[0])
        return "failed", kind, exit_asked_for(told.errors) or message
    if run.ended == "result":
        return "failed", "other", "the outputs are too large"
    if not told.done:
        ending = how_it_ended(run)
        return "failed", "other", f"the tests did not complete: their process ended with {ending}"
    return "failed", (first and first.error_class) or "value", message


def ended_its_box(death: BoxDied) -> Verdict:
    """The verdict on code that ended its box, twice."""
    if death.out_of_memory:
        return Verdict("out_of_memory", message=OUT_OF_MEMORY)
    message = "the tests did not complete: the code ended its sandbox, twice"
    return Verdict("failed", error_class="other", message=message)


def exit_asked_for(errors: Sequence[Error]) -> str:
    """In words, that code under test asked the interpreter to exit, if that was its first error; else empty."""
    if not errors or errors[0]["type"] != "SystemExit":
        return ""
    return f"the tests did not complete: the code called sys.exit({errors[0]['message']})"


def how_it_ended(run: RunResult) -> str:
    """The end of a process, in words."""
    code = run.exit_code or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"
