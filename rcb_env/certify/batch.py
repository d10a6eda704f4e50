"""Many candidates graded at once, and what is kept of their verdicts.

Guarantees: what was graded once is not graded again; trouble of the sandbox is tried a second time, told, and never kept.
Not covered: what is asked and what follows from the answers (run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rcb_env.certify.verdicts import Verdicts
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.grader import Grader
from rcb_env.grading.verdict import Verdict
from rcb_env.grading.worth import Outline

Progress = Callable[[str, int, int], None]
"""Told what is going on, how many are done, and how many there are."""
TROUBLE = "infra_error: "
"""What a text begins with where the sandbox failed twice."""


@dataclass(frozen=True)
class Batch:
    """Grades finally.

    Attributes:
        workers: how many candidates are graded at once.
    """

    grader: Grader
    verdicts: Verdicts
    progress: Progress
    workers: int

    def texts(
        self, doing: str, jobs: Sequence[tuple[Challenge, str]], keep: Callable[[Verdict], str]
    ) -> list[str]:
        """What `keep` says of every job's verdict; a text that begins with `TROUBLE` where the sandbox failed twice."""
        keys = [self.verdicts.key(challenge, code, keep.__name__) for challenge, code in jobs]
        todo = {
            key: job for key, job in zip(keys, jobs, strict=True) if self.verdicts.get(key) is None
        }
        trouble: dict[str, str] = {}

        def judge(item: tuple[str, tuple[Challenge, str]]) -> None:
            key, (challenge, code) = item
            for _ in range(2):
                verdict = self.grader.grade(challenge, code, final=True)
                if verdict.status != "infra_error":
                    self.verdicts.put(key, keep(verdict))
                    return
                trouble[key] = f"{TROUBLE}{verdict.message}"

        pool = ThreadPoolExecutor(max_workers=self.workers)
        try:
            for number, _ in enumerate(pool.map(judge, todo.items())):
                self.progress(doing, len(jobs) - len(todo) + number, len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)
        self.progress(doing, len(jobs), len(jobs))
        return [self.verdicts.get(key) or trouble[key] for key in keys]

    def outlines(self, doing: str, jobs: Sequence[tuple[Challenge, str]]) -> list[Outline]:
        """The outline of every job's verdict; its status begins with `TROUBLE` where the sandbox failed twice."""
        return [
            Outline(text, whole=False) if text.startswith(TROUBLE) else Outline.of_text(text)
            for text in self.texts(doing, jobs, outline)
        ]


def outline(verdict: Verdict) -> str:
    """A verdict's outline as text."""
    return Outline.of(verdict).to_text()
