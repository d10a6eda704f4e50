"""Where an episode stands, what an action did to it, and what the environment tells of both. Plain data; pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rcb_env.env.settings import Rules
from rcb_env.env.workspace import Snapshot
from rcb_env.grading.grader import Verdict


@dataclass(frozen=True)
class EnvSnapshot:
    """A state of an episode, for `ResearchCodeEnv.restore`. Never changes; may be pickled."""

    challenge: str
    content_hash: str
    """Of the challenge: a snapshot of other files is refused."""
    workspace: Snapshot
    steps: int = 0
    test_runs: int = 0
    potential: float = 0.0
    """For shaped rewards."""
    tokens: int = 0
    """Reported by `charge` and not yet paid for."""
    verdict: Verdict | None = None
    """Set when the episode is over."""
    action: str = ""
    """The last action on one line, for `render`."""
    text: str = ""
    error: bool = False
    tests: Mapping[str, Any] | None = None
    """What the last step told, as `reset` and `step` returned it."""

    def after(
        self, done: Done, *, workspace: Snapshot, potential: float, action: str, text: str
    ) -> EnvSnapshot:
        """The state after an action.

        Args:
            done: what it did.
            workspace: the files now.
            potential: of shaped rewards, now.
            action: the action on one line.
            text: what is told of it, no longer than an observation may be.
        """
        return replace(
            self,
            workspace=workspace,
            steps=self.steps + 1,
            test_runs=self.test_runs + (done.tested is not None),
            potential=potential,
            tokens=0,
            verdict=done.verdict,
            action=action,
            text=text,
            error=done.error,
            tests=done.tests,
        )

    def stands(self, rules: Rules) -> str:
        """All but the files that later steps depend on: what is left, and what is still to be paid."""
        left = [rules.max_steps - self.steps, rules.max_test_runs - self.test_runs]
        paid = [self.potential, self.tokens, self.verdict.status if self.verdict else None]
        return f"{left}\n{paid}"

    def observation(self, rules: Rules) -> dict[str, Any]:
        """As `reset` and `step` return it."""
        return {
            "text": self.text,
            "steps_left": rules.max_steps - self.steps,
            "test_runs_left": rules.max_test_runs - self.test_runs,
        }

    def info(self, *, code_hash: str, state_hash: str) -> dict[str, Any]:
        """As `reset` and `step` return it, without timings.

        Vector environments merge infos key by key: a dict here and None there breaks them, and so does a number here
        and None there. What is absent is left out, or an empty dict.
        """
        told = self.verdict.to_dict() if self.verdict else {}
        told.pop("timings", None)
        return {
            "challenge": self.challenge,
            "error": self.error,
            "tests": copy.deepcopy(dict(self.tests)) if self.tests else {},
            "verdict": {key: value for key, value in told.items() if value is not None},
            "code_hash": code_hash,
            "state_hash": state_hash,
        }


@dataclass(frozen=True)
class Done:
    """What one action did."""

    text: str
    error: bool = False
    tests: Mapping[str, Any] = field(default_factory=dict)
    """What run_tests told, as data."""
    tested: Verdict | None = None
    """Of run_tests."""
    verdict: Verdict | None = None
    """The final one: the episode is over."""
    submitted: bool = False

    def without_score(self, verdict: Verdict) -> Done:
        """The same, where the sandbox failed."""
        why = f"[The sandbox failed: {verdict.message}. The episode ends without a score.]"
        return replace(self, text=why, submitted=False)

    def seconds(self, step_s: float) -> dict[str, Any]:
        """What the step took: as a whole, and of it run_tests and the final grading."""
        told: dict[str, Any] = {"step_s": step_s}
        if self.tested is not None:
            told["tests"] = dict(self.tested.timings)
        if self.verdict is not None and self.verdict is not self.tested:
            told["final"] = dict(self.verdict.timings)
        return told
