"""An action is the number of one of K completions: the smallest problem a policy can learn.

Choosing writes the completion into the region and, by default, submits it: an episode of one decision.
With ``submit=False`` two more actions run the tests and submit.
Not covered: where completions come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from rcb_env.errors import UsageError
from rcb_env.wrappers.layer import Layer, Result, is_control


class DiscreteChoice(Layer):
    """Actions are numbers.

    Args:
        env: the environment, without `ToolText` or `ChatMessages`.
        completions: for each challenge id the same number of codes for its region; or one list, for
            an environment of one challenge.
        submit: whether a choice is submitted at once. Else action K runs the tests and K + 1
            submits.

    Raises:
        UsageError: there are no completions, or not as many for each challenge.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        completions: Mapping[str, Sequence[str]] | Sequence[str],
        submit: bool = True,
    ) -> None:
        super().__init__(env, completions=completions, submit=submit)
        listed = completions if isinstance(completions, Mapping) else {"": completions}
        counts = {id: len(codes) for id, codes in listed.items()}
        self._count = next(iter(counts.values()), 0)
        if not self._count or set(counts.values()) != {self._count}:
            raise UsageError(
                f"completions: each challenge needs the same number, at least one, not {counts}"
            )
        self._completions, self._submit = listed, submit
        self._actions = self._count + (0 if submit else 2)
        self.action_space = spaces.Discrete(self._actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            UsageError: the challenge that was drawn has no completions.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        self._codes()
        return self.seen(observation), info

    def step(self, action: Any) -> Result:
        """Write a completion (and submit it), run the tests, or submit.

        Raises:
            UsageError: there is no such action.
        """
        if is_control(action):
            return self._do(action)
        number = int(action)
        if not 0 <= number < self._actions:
            raise UsageError(f"there is no action {number}; they are 0 to {self._actions - 1}")
        if number == self._count:
            return self._do({"tool": "run_tests"})
        if number > self._count:
            return self._do({"tool": "submit"})
        write = {"tool": "write_region", "arguments": {"code": self._codes()[number]}}
        written = self._do(write)
        if not self._submit or written[2] or written[3]:
            return written
        observation, reward, terminated, truncated, info = self._do({"tool": "submit"})
        return observation, written[1] + reward, terminated, truncated, info

    def _do(self, action: Any) -> Result:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.seen(observation), float(reward), terminated, truncated, info

    def _codes(self) -> Sequence[str]:
        id = self.inside.challenge.id
        codes = self._completions.get("") or self._completions.get(id)
        if codes is None:
            raise UsageError(f"completions: there are none for the challenge {id}")
        return codes
