"""The challenges of stored episodes: which of them are meant, and what their cases are worth (`rcb_env.grading.worth`).

Guarantees: a challenge that has changed since the run is told as such, and never paid by what it is now. Boxes start only
where a worth is neither on record nor measured before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.selection import Selection
from rcb_env.errors import UsageError
from rcb_env.grading.shared import shared_grader
from rcb_env.grading.verdict import Verdict
from rcb_env.grading.worth import Worth, Worths
from rcb_env.runs.store import RunStore


class StoredChallenges:
    """Those of one run; its data set is loaded when first needed."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._worths = Worths(_judged)

    @cached_property
    def _dataset(self) -> Dataset:
        return load_dataset(self._store.record.get("dataset", {}).get("source", "bundled"))

    def chosen(self, selection: Selection) -> Callable[[str], bool]:
        """Whether a selection leaves the challenge of an id.

        Raises:
            UsageError: it leaves none, or names what there is not.
        """
        return selection.holding(self._dataset)

    def worth(self, episode: Mapping[str, Any], *, faults: bool) -> Worth:
        """What the cases of an episode's challenge are worth.

        Raises:
            UsageError: the data set has no such challenge, or another one of this name.
            SandboxUnavailable: no box can be made on this machine.
            BoxDied: no box works.
        """
        challenge = self._dataset.challenge(episode["challenge"])
        if challenge.content_hash != episode["content_hash"]:
            raise UsageError(
                f"{challenge.id} has changed since {self._store.folder} was made, so nobody knows which of its cases"
                " are free: take a reward that counts no cases, such as sparse"
            )
        return self._worths.of(challenge, faults=faults)


def _judged(challenge: Challenge, code: str) -> Verdict:
    return shared_grader("auto").grade(challenge, code, final=True)
