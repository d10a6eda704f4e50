"""Where an environment's verdicts come from: a grader of the caller's, or the one that all environments of a process share.

Guarantees: a grader is used in the process it was given in only; what is unpickled, or runs in a child, takes the shared one.
Not covered: what a verdict earns (`rcb_env.env.rewards`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from rcb_env.dataset.papers import Challenge
from rcb_env.env.rewards import RewardSpec
from rcb_env.errors import BoxDied
from rcb_env.grading.grader import Grader, Verdict
from rcb_env.grading.shared import shared_grader
from rcb_env.grading.worth import Worth


@dataclass
class Verdicts:
    """Grades answers, and says what their cases are worth where the reward depends on it.

    Attributes:
        reward: what a step earns.
        sandbox, boxes: of the shared grader.
        grader: the caller's; None: the shared one.
        pid: of the process that the caller's grader belongs to.
    """

    reward: RewardSpec
    sandbox: str
    boxes: int | None
    grader: Grader | None
    pid: int = field(default_factory=os.getpid)

    def of(self, challenge: Challenge, code: str, *, final: bool) -> Verdict:
        """The verdict on an answer; if what it earns cannot be told, an infra_error."""
        verdict = self._grader().grade(challenge, code, final=final)
        if final:
            try:
                self.worth(challenge, verdict)
            except BoxDied as error:
                return Verdict("infra_error", message=str(error).split("\n")[0])
        return verdict

    def worth(self, challenge: Challenge, verdict: Verdict | None) -> Worth | None:
        """What the cases are worth, where the reward of this verdict depends on it.

        Raises:
            BoxDied: it is not known yet, and no box works.
        """
        if verdict is None or not self.reward.needs_worth(verdict):
            return None
        return self._grader().worth(challenge, faults=self.reward.counts_faults)

    def _grader(self) -> Grader:
        if self.grader is None or self.pid != os.getpid():
            return shared_grader(self.sandbox, self.boxes)
        return self.grader

    def __getstate__(self) -> dict[str, Any]:
        # Boxes belong to a process; where this is unpickled, the shared grader takes over.
        return {**self.__dict__, "grader": None}
