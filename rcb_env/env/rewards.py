"""Rewards: what they are is declared, what a step earns is computed, here and nowhere else.

A declaration is a text or a dict, so it fits into an `EnvSpec` and a file::

    "sparse"                            1 for a solved challenge, else 0
    "cases"                             the part of the test cases that the final verdict passed, but for those that are free
    "weighted"                          the same, where a case counts as often as random faults fail it
    "lines"                             sparse, times the challenge's lines of code
    "score"                             the score of an open challenge, the baseline's where it is less or there is none; else sparse
    "shaped"                            sparse, and potential-based shaping on run_tests
    "cases:shaping=0.5,step_cost=0.01"  any of them with settings
    {"outcome": "cases", "shaping": 0.5, "step_cost": 0.01}

A case is free if an answer passes it that knows nothing: it pays nothing, so ``cases`` and ``weighted`` are 0 for such
answers, and 1 for a pass (`rcb_env.grading.worth`). An answer that runs out of time, or that ends its process before all
cases ran, earns nothing of either.

With ``lines`` the sum of returns over all challenges, divided by the sum of their lines, is the
scaled pass rate. Shaping pays ``shaping * (gamma * P(after) - P(before))`` at every step, where P is
the part of the cases that the last run_tests passed, 0 before the first and after the end: it sums up
to nothing over an episode (with gamma as the discount), so it changes no ranking of policies (Ng,
Harada and Russell, 1999). P knows no more than the agent was told.

Guarantees: pure, given what the cases of the challenge are worth. A stored trajectory gives the rewards again, bit for bit, also under another
declaration. An ``infra_error`` says nothing about the agent and earns no outcome; leave such episodes
out of training.
Not covered: when a reward is paid (`rcb_env.env.environment`); who counts tokens (`rcb_env.wrappers`,
`rcb_env.play.episode`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rcb_env.errors import UsageError, unknown
from rcb_env.grading.verdict import Verdict
from rcb_env.grading.worth import Outline, Worth


@dataclass(frozen=True)
class RewardSpec:
    """A declared reward; `reward_spec` makes one of a text or a dict."""

    outcome: Literal["sparse", "cases", "weighted", "score"] = "sparse"
    """What the final verdict earns: 1 or 0, the part of the cases that passed, the same weighted by faults, or the score."""
    weight: Literal["challenge", "lines"] = "challenge"
    """What the outcome is multiplied by: 1, or the lines of code of the challenge."""
    shaping: float = 0.0
    """Weight of the potential."""
    gamma: float = 1.0
    """Discount in the shaping; use the one you train with."""
    step_cost: float = 0.0
    """Taken off at every step."""
    test_cost: float = 0.0
    """Taken off for every run of the tests."""
    token_cost: float = 0.0
    """Taken off for every token that was reported (`rcb_env.env.environment.ResearchCodeEnv.charge`)."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            UsageError: with the setting's name.
        """
        for name, values in (("outcome", OUTCOMES), ("weight", WEIGHTS)):
            if getattr(self, name) not in values:
                raise unknown(f"{name} of a reward", str(getattr(self, name)), values)
        for name in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"the reward's {name} is {value!r}; it must be a number")
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"the reward's {name} is {value}; it must be at least 0")
            object.__setattr__(self, name, float(value))
        if self.gamma > 1:
            raise UsageError(f"the reward's gamma is {self.gamma}; it must be at most 1")

    def needs_worth(self, verdict: Verdict) -> bool:
        """Whether what a final verdict earns depends on what the cases of the challenge are worth."""
        partly = self.outcome in _BY_CASES and verdict.score is None
        return partly and Outline.of(verdict).whole

    @property
    def counts_faults(self) -> bool:
        """Whether it weighs cases by the faults that fail them."""
        return self.outcome == "weighted"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `reward_spec` reads it back equal."""
        return dataclasses.asdict(self)


OUTCOMES = ("sparse", "cases", "weighted", "score")
_BY_CASES = ("cases", "weighted")
WEIGHTS = ("challenge", "lines")
_NUMBERS = ("shaping", "gamma", "step_cost", "test_cost", "token_cost")
_NAMED: dict[str, dict[str, Any]] = {
    "sparse": {},
    "cases": {"outcome": "cases"},
    "weighted": {"outcome": "weighted"},
    "score": {"outcome": "score"},
    "lines": {"weight": "lines"},
    "shaped": {"shaping": 1.0},
}


def reward_spec(declared: str | Mapping[str, Any] | RewardSpec) -> RewardSpec:
    """The reward that a text or a dict declares; see the module's docstring.

    Raises:
        UsageError: a name or a value is unknown.
    """
    if isinstance(declared, RewardSpec):
        return declared
    if isinstance(declared, str):
        name, _, rest = declared.partition(":")
        if name not in _NAMED:
            raise unknown("reward", name, _NAMED)
        settings = {**_NAMED[name], **_settings(rest)}
    elif isinstance(declared, Mapping):
        settings = dict(declared)
    else:
        raise UsageError(f"a reward is a text or a dict, not {type(declared).__name__}")
    names = [each.name for each in dataclasses.fields(RewardSpec)]
    for key in settings:
        if key not in names:
            raise unknown("setting of a reward", str(key), names)
    return RewardSpec(**settings)


def _settings(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"{part!r} is not a setting of a reward: write name=value")
        if key not in _NUMBERS:
            found[key] = value
            continue
        try:
            found[key] = float(value)
        except ValueError:
            raise UsageError(f"the reward's {key} is {value!r}; it must be a number") from None
    return found


@dataclass(frozen=True)
class Facts:
    """What a reward depends on in one step."""

    lines: int
    """Lines of code of the challenge."""
    tests: Mapping[str, Any] | None = None
    """What run_tests told, as data; None or empty: nothing."""
    ran_tests: bool = False
    tokens: int = 0
    """Reported since the step before."""
    verdict: Verdict | None = None
    """The final one, with the step that ends the episode."""
    worth: Worth | None = None
    """Of the challenge's cases, where the verdict's reward depends on it."""


def pay(spec: RewardSpec, potential: float, facts: Facts) -> tuple[float, float]:
    """The reward of one step.

    Args:
        spec: the declared reward.
        potential: before the step; 0.0 at the start of an episode.
        facts: of the step.

    Returns:
        The reward, and the potential after the step.
    """
    after = potential
    if facts.verdict is not None:
        after = 0.0
    elif facts.tests:
        after = passed_part(facts.tests)
    reward = 0.0
    if facts.verdict is not None:
        weight = facts.lines if spec.weight == "lines" else 1
        reward += weight * outcome(spec, facts.verdict, facts.worth)
    reward += spec.shaping * (spec.gamma * after - potential)
    reward -= spec.step_cost
    reward -= spec.test_cost * facts.ran_tests
    reward -= spec.token_cost * facts.tokens
    return reward, after


def outcome(spec: RewardSpec, verdict: Verdict, worth: Worth | None = None) -> float:
    """What a final verdict earns, between 0 and 1 but for a score, before it is weighted by lines.

    Args:
        spec: the declared reward.
        verdict: the final one.
        worth: what the cases are worth; may be None where `RewardSpec.needs_worth` says so.

    Raises:
        UsageError: it is needed, and None.
    """
    if spec.outcome == "score" and verdict.score is not None:
        return verdict.score.counted
    if not spec.needs_worth(verdict):
        return sparse(verdict.status)
    if worth is None:
        raise UsageError(
            f"the reward {spec.outcome} needs to know which cases are free: pass worth"
        )
    return worth.share(Outline.of(verdict), weighted=spec.counts_faults)


def passed_part(tests: Mapping[str, Any]) -> float:
    """The part of the cases that passed, as far as the feedback level tells it."""
    if tests.get("status") == "passed":
        return 1.0
    total = tests.get("total") or 0
    return float(tests["passed"]) / total if total else 0.0


def sparse(status: str) -> float:
    """1.0 for a solved challenge, 0.0 for everything else."""
    return 1.0 if status == "passed" else 0.0


def rewards_of(
    spec: RewardSpec,
    steps: Iterable[Mapping[str, Any]],
    *,
    lines: int,
    verdict: Mapping[str, Any] | None,
    worth: Callable[[], Worth] | None = None,
) -> list[float]:
    """The rewards of a stored episode, one for each step.

    Args:
        spec: any declared reward, not only the one it was played with.
        steps: the ``step`` records of its trajectory, in order.
        lines: of the challenge, as the episode has it.
        verdict: as the episode has it; None: it ended without one.
        worth: says what the cases of the challenge are worth; asked where that is needed (`rcb_env.Grader.worth`).

    Raises:
        ValueError: the verdict is none.
        UsageError: what the cases are worth is needed, and nobody says it.
    """
    final = Verdict.from_dict(verdict) if verdict is not None else None
    needed = worth is not None and final is not None and spec.needs_worth(final)
    of_cases = worth() if needed and worth else None
    potential = 0.0
    rewards: list[float] = []
    for step, last in _with_last(steps):
        facts = Facts(
            lines=lines,
            tests=step.get("tests"),
            ran_tests=_ran_tests(step),
            tokens=int(step.get("tokens") or 0),
            verdict=final if last else None,
            worth=of_cases,
        )
        reward, potential = pay(spec, potential, facts)
        rewards.append(reward)
    return rewards


def _ran_tests(step: Mapping[str, Any]) -> bool:
    action = step.get("action")
    return isinstance(action, Mapping) and action.get("tool") == "run_tests" and not step["error"]


def _with_last(steps: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Each step, and whether it is the last one."""
    before: Mapping[str, Any] | None = None
    for step in steps:
        if before is not None:
            yield before, False
        before = step
    if before is not None:
        yield before, True
