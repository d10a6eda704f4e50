"""A candidate's code in, a `Verdict` out.

`Grader` owns the boxes and chooses the mode by the paper's layout: isolated grading for native papers (`isolated.py`),
split or guarded grading for the public benchmark's folders (`public.py`), measured grading for open challenges
(`measured.py`). A verdict is about the candidate only: a box that dies
is retried once; when the same candidate ends its box a second time while a fresh box works, the candidate did it; any
other trouble of ours is `infra_error`.
Not covered: what an agent gets to see of a verdict (`env/feedback.py`), and what verdicts add up to (`report/scoring.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from rcb_env.dataset.holes import Holes, header
from rcb_env.dataset.markers import count_code_lines
from rcb_env.dataset.papers import Challenge
from rcb_env.errors import BoxDied, SandboxUnavailable
from rcb_env.grading.evidence import Decision
from rcb_env.grading.isolated import IsolatedGrading, Output
from rcb_env.grading.measured import MeasuredGrading
from rcb_env.grading.public import PublicGrading
from rcb_env.grading.split import SuiteTests
from rcb_env.grading.verdict import CaseResult, Purpose, Score, Status, Verdict
from rcb_env.grading.worth import Worth, Worths
from rcb_env.sandbox import make
from rcb_env.sandbox.box import BoxSettings
from rcb_env.sandbox.fleet import Fleet

__all__ = ["CaseResult", "Grader", "Output", "Score", "Status", "Verdict"]


class Grader:
    """Grades candidates in warm boxes. Thread-safe; boxes start on first use and end with `close`.

    Args:
        sandbox: a maker's name, or "auto".
        workers: how many candidates are graded at once; one box each, plus one judge for all.
        threads: torch's threads in a test run.
        hash_seed: PYTHONHASHSEED in the boxes.
        run: the name of the run they are for, which containers carry as a label.
        judge_all: whether native papers' checks see a case's outputs even where they are the reference's, byte for byte;
            only a check that is not deterministic can make a difference, and that is what `rcb check` looks for.
        official: whether final verdicts on public folders have the public benchmark's own beside them.

    Raises:
        SandboxUnavailable: no such sandbox works here.
    """

    def __init__(
        self,
        sandbox: str = "auto",
        *,
        workers: int = 1,
        threads: int = 1,
        hash_seed: int = 0,
        run: str = "",
        judge_all: bool = False,
        official: bool = False,
    ) -> None:
        self._settings = {"threads": threads, "hash_seed": hash_seed, "judge_all": judge_all}
        settings = BoxSettings(threads=threads, hash_seed=hash_seed, label=run)
        self._fleet = Fleet(make(sandbox), settings, workers)
        self._isolated = IsolatedGrading(self._fleet, judge_all=judge_all)
        self._public = PublicGrading(self._fleet, official=official)
        self._measured = MeasuredGrading(self._fleet)
        self._worths = Worths(partial(self.grade, final=True))

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _: object) -> Grader:
        """Itself: a grader is a handle on boxes, and an env specification that names one may be copied."""
        return self

    @property
    def sandbox(self) -> str:
        """The name of the maker in use."""
        return self._fleet.maker.name

    def like(self, **settings: Any) -> Grader:
        """Another grader in the same place, with these settings of its boxes other than here.

        Raises:
            SandboxUnavailable: the sandbox has no such setting.
        """
        return Grader(self.sandbox, **{**self._settings, **settings})

    def describe(self, images: Iterable[str]) -> dict[str, Any]:
        """What a run records about where its code ran: the sandbox and the digests of its images."""
        maker = self._fleet.maker
        digests = {image: maker.digest(image) for image in sorted(set(images))}
        return {"name": maker.name, "version": maker.version, "images": digests}

    def ready(self, images: Iterable[str]) -> None:
        """Return once a box of every image has started, so that nothing is paid for before code can be run.

        Raises:
            SandboxUnavailable: no box starts.
        """
        for image in sorted(set(images)):
            try:
                self._fleet.warm(image)
            except BoxDied as error:
                raise SandboxUnavailable(
                    f"no {self.sandbox} box starts: {error}",
                    fix="`rcb doctor` says what works here",
                ) from None

    def close(self) -> None:
        """End every box; grading that is under way ends with infra_error. Idempotent."""
        self._fleet.close()

    def grade(self, challenge: Challenge, code: str, *, final: bool) -> Verdict:
        """Grade the text of a region.

        Args:
            challenge: which region.
            code: what stands in the region, with its indentation.
            final: True for the score, False for feedback during an episode (other seeds).

        Raises:
            SandboxUnavailable: no box can be made on this machine. Anything else that is not the
                candidate's doing is a verdict with status infra_error.
        """
        started = time.monotonic()
        layout = challenge.paper.layout
        purpose: Purpose = "final" if final else "feedback"
        empty = layout != "paper2code" and count_code_lines(code.split("\n")) == 0
        if challenge.holes is not None and challenge.tree(code) == challenge.workspace():
            return Verdict("no_change", message=_why_nothing(challenge.holes, code))
        if empty and layout == "native":
            return Verdict("no_change", message="the region holds no code")
        try:
            if empty:
                verdict = self._measured.no_change(challenge, purpose)
            elif layout == "open":
                verdict = self._measured.grade(challenge, code, purpose)
            else:
                mode = self._isolated if layout == "native" else self._public
                verdict = mode.grade(challenge, code, purpose)
        except BoxDied as error:
            verdict = Verdict("infra_error", message=str(error).split("\n")[0])
        return replace(verdict, timings={**verdict.timings, "total_s": time.monotonic() - started})

    def worth(self, challenge: Challenge, *, faults: bool = False) -> Worth:
        """What the cases of a challenge are worth as partial credit: on record, or measured when first asked for.

        Args:
            challenge: one with cases, no open one.
            faults: whether to count also how many random faults fail each case.

        Raises:
            SandboxUnavailable: no box can be made on this machine.
            BoxDied: no box works.
        """
        return self._worths.of(challenge, faults=faults)

    def outputs(self, challenge: Challenge, *, final: bool) -> tuple[Output, ...]:
        """What the reference gives, case by case and seed by seed, for checks of a native paper's tests.

        Args:
            challenge: any region of the file that the cases are to cover.
            final: with the seeds of the score, else with those of feedback.

        Returns:
            () where the cases cannot be run.

        Raises:
            SandboxUnavailable: no box can be made on this machine.
            BoxDied: no box works.
        """
        return self._isolated.outputs(challenge, "final" if final else "feedback")

    def decision(self, challenge: Challenge) -> Decision:
        """How a region of a public paper is graded, split or guarded, and why; its suite must work here.

        Raises:
            SandboxUnavailable: no box can be made on this machine.
            BoxDied: no box works.
        """
        return self._public.decision(challenge)

    def suite_tests(self, challenge: Challenge) -> SuiteTests:
        """What the suite of a public paper compares when it is split; it must work here.

        Raises:
            SandboxUnavailable: no box can be made on this machine.
            BoxDied: no box works.
        """
        return self._public.tests(challenge)


def _why_nothing(holes: Holes, code: str) -> str:
    """What to say of an answer of several parts that changes none."""
    if holes.split(code) or not count_code_lines(code.split("\n")):
        return "nothing was written"
    kind, line = "file" if holes.whole else "region", header("NAME", whole=holes.whole)
    return f"the answer names no {kind}: begin each of its parts with a line `{line}`"
