"""Why answers were wrong: error classes by run and paper, and which of them feedback mends.

An answer's class is that of its verdict (`rcb_env.grading.causes`): of the first test that did not pass, from the exception's type
or from the comparison that failed. Every wrong answer is counted once; `no answer` is a reply without code, or a region left as it
was, and `tampered` one that cheated.
A round of repair is a test run that failed, a change of the code, and what the next test run or the final verdict said.
Guarantees: pure but for reading; runs stored before a class existed are read with the class that their status or their old class
tells (`logic` was both `value` and `shape`).
Not covered: rounds of agents that were told no class (feedback below `messages`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_env.grading.causes import class_of_status
from rcb_env.report.scoring import MODEL_FAILURES
from rcb_env.report.sheet import Sheet
from rcb_env.report.turns import Step, read_turns
from rcb_env.runs.store import RunStore

CLASSES = (
    *("value", "shape", "type", "name", "attribute", "index_key", "import", "syntax"),
    *("time", "memory", "other"),
)
NO_ANSWER = "no answer"
PAPERS_METHOD = (
    "The public benchmark's paper reports 58.6 % functional errors over all its models: there a language model read output and"
    " code and chose one of eight classes. Here a class is read from the exception's type or from the comparison that failed;"
    " `value` is nearest to what is called functional there."
)


@dataclass
class Rounds:
    """What became of failures of one class in the next round."""

    rounds: int = 0
    mended: int = 0
    same: int = 0
    """Another failure of the same class."""

    @property
    def other(self) -> int:
        """Failures of another class."""
        return self.rounds - self.mended - self.same


@dataclass
class RunErrors:
    """Of one run."""

    papers: dict[str, Counter[str]] = field(default_factory=dict)
    """Wrong answers by paper and class."""
    rounds: dict[str, Rounds] = field(default_factory=dict)
    """By the class of what failed."""

    @property
    def classes(self) -> Counter[str]:
        """Wrong answers by class."""
        return sum(self.papers.values(), Counter())


@dataclass(frozen=True)
class ErrorClasses:
    """Of some runs, by the names they are given."""

    runs: Mapping[str, RunErrors]

    @property
    def found(self) -> list[str]:
        """The classes that occur, in their order."""
        occur = {name for run in self.runs.values() for name in run.classes}
        known = [name for name in (*CLASSES, NO_ANSWER, "tampered") if name in occur]
        return [*known, *sorted(occur - {*known})]

    def shares(self) -> dict[str, dict[str, float]]:
        """Percent of a run's wrong answers, by run and class."""
        found = {}
        for name, run in self.runs.items():
            counts = run.classes
            found[name] = {one: 100 * n / counts.total() for one, n in counts.items()}
        return found

    def sheets(self) -> list[Sheet]:
        """As tables."""
        return [self._by_run(), *self._by_paper(), *self._rounds()]

    def _by_run(self) -> Sheet:
        shares = self.shares()
        rows = [
            (
                name,
                *(
                    f"{shares[run].get(name, 0):.1f} ({one.classes[name]})"
                    for run, one in self.runs.items()
                ),
            )
            for name in self.found
        ]
        rows.append(("wrong answers", *(str(one.classes.total()) for one in self.runs.values())))
        note = f"Percent of the wrong answers of a run, and how many. {PAPERS_METHOD}"
        return Sheet("Error classes", ("class", *self.runs), tuple(rows), note)

    def _by_paper(self) -> Iterable[Sheet]:
        for name, run in self.runs.items():
            rows = [
                (paper, *(str(counts[one] or "") for one in self.found), str(counts.total()))
                for paper, counts in sorted(run.papers.items())
            ]
            if rows:
                title = f"Error classes by paper: {name}"
                columns = ("paper", *self.found, "all")
                yield Sheet(title, columns, tuple(rows), "Wrong answers.")

    def _rounds(self) -> Iterable[Sheet]:
        for name, run in self.runs.items():
            rows = [
                (
                    one,
                    str(found.rounds),
                    _percent(found.mended, found.rounds),
                    _percent(found.same, found.rounds),
                    _percent(found.other, found.rounds),
                )
                for one, found in sorted(run.rounds.items(), key=lambda item: -item[1].rounds)
            ]
            if rows:
                yield Sheet(
                    f"What feedback mends: {name}",
                    (
                        "class of a failure",
                        "changed and tried again",
                        "mended",
                        "same class",
                        "other class",
                    ),
                    tuple(rows),
                    "Percent of the rounds: a failed test run, a change of the code, and what came next.",
                )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            name: {
                "classes": dict(run.classes),
                "papers": {paper: dict(counts) for paper, counts in run.papers.items()},
                "rounds": {one: vars(found) for one, found in run.rounds.items()},
            }
            for name, run in self.runs.items()
        }


def read(stores: Mapping[str, RunStore]) -> ErrorClasses:
    """Read some runs, by the names they are given.

    Raises:
        StoreError: one cannot be read.
    """
    return ErrorClasses({name: _of(store) for name, store in stores.items()})


def class_of(status: str, verdict: Mapping[str, Any]) -> str | None:
    """The class of a stored answer; None: it passed, or there is no verdict on it."""
    if status == "failed":
        stored = str(verdict.get("error_class") or "other")
        return "value" if stored == "logic" else stored
    if status in MODEL_FAILURES:
        by_status = {"invalid": NO_ANSWER, "no_change": NO_ANSWER}
        return class_of_status(status) or by_status.get(status, status)
    return None


def _of(store: RunStore) -> RunErrors:
    found = RunErrors()
    for line in store.latest():
        episode = line["episode"]
        final = class_of(str(episode["status"]), episode.get("verdict") or {})
        if final is not None:
            found.papers.setdefault(str(episode["paper"]), Counter())[final] += 1
        if (episode.get("test_runs") or 0) > 0:
            _, steps = read_turns(store.trajectory_of(line))
            _add_rounds(found, steps, str(episode["status"]), final)
    return found


def _add_rounds(found: RunErrors, steps: Sequence[Step], status: str, final: str | None) -> None:
    tried = [(step.code_hash, *_told(step)) for step in steps if step.tests is not None]
    tried.append((steps[-1].code_hash if steps else "", status, final))
    for (code, _, failed), (changed, after, then) in itertools.pairwise(tried):
        if failed is None or code == changed or (then is None and after != "passed"):
            continue  # it passed, nothing was changed, or nobody knows what came of it
        rounds = found.rounds.setdefault(failed, Rounds())
        rounds.rounds += 1
        rounds.mended += after == "passed"
        rounds.same += then == failed


def _told(step: Step) -> tuple[str, str | None]:
    """The status of a test run, and its class as the agent was told it."""
    assert step.tests is not None
    status = step.tests.status or ""
    if status == "failed" and step.tests.error_class is None:
        return status, None
    return status, class_of(status, {"error_class": step.tests.error_class})


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}"
