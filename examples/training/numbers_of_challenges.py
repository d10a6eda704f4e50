"""The environment in numbers, for libraries whose policies read and write no text.

An observation is the number of the challenge, an action the number of one of its completions, an episode one decision. What
is learnt is real: rewards are verdicts on code that ran in boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from candidates import candidates
from gymnasium import spaces

import rcb_env
from rcb_env.wrappers import DiscreteChoice

CHALLENGES = (
    "DyT/gradient-of-alpha",
    "minp/threshold-scaled-by-the-top-probability",
    "schedule_free/recover-the-average-x-from-y-and-z",
)


class ChallengeNumber(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows which challenge it is, and nothing of it."""

    def __init__(self, env: gymnasium.Env[Any, Any], challenges: tuple[str, ...]) -> None:
        super().__init__(env)
        self._numbers = {id: np.int64(number) for number, id in enumerate(challenges)}
        self.observation_space = spaces.Discrete(len(challenges))

    def observation(self, observation: Any) -> Any:  # noqa: ARG002 - texts are not shown
        """The number of the challenge that was drawn."""
        return self._numbers[self.unwrapped.challenge.id]  # type: ignore[attr-defined]


def makers(count: int, wrong: int = 2) -> list[Callable[[], gymnasium.Env[Any, Any]]]:
    """What makes environments, all with the same completions.

    Args:
        count: of environments.
        wrong: completions of each challenge that the tests refuse, beside the right one.
    """
    completions = candidates(CHALLENGES, wrong)

    def make() -> gymnasium.Env[Any, Any]:
        env = gymnasium.make(rcb_env.ENV_ID, challenges=CHALLENGES)
        return ChallengeNumber(DiscreteChoice(env, completions), CHALLENGES)

    return [make] * count


def told(rewards: list[float]) -> str:
    """Pass rates at the beginning and at the end of a training."""
    third = max(1, len(rewards) // 3)
    first, last = np.mean(rewards[:third]), np.mean(rewards[-third:])
    return f"pass rate: {first:.2f} in the first third, {last:.2f} in the last"
