"""What all wrappers have in common: snapshots and forks of a whole stack, and a specification.

Guarantees: a wrapper's memory is one immutable value, so a snapshot of a stack costs as little as one
of the environment inside; `gymnasium.make(env.spec)` makes the stack again.
Not covered: wrappers of other packages in between. They are passed over by snapshots and refuse forks.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self, cast

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from rcb_env.env.actions import OutOfBudget, Unreadable
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.errors import UsageError

Result = tuple[Any, float, bool, bool, dict[str, Any]]
"""What `step` returns."""


@dataclass(frozen=True)
class LayerSnapshot:
    """A state of a wrapper and of everything inside it."""

    inner: Any
    memory: Any
    observation: Any


class Layer(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A wrapper whose memory can be kept and given back.

    Args:
        env: a `ResearchCodeEnv`, wrapped or not.
        settings: of the wrapper, for its specification.
    """

    memory: Any = None
    """All that this wrapper remembers; immutable."""

    def __init__(self, env: gymnasium.Env[Any, Any], **settings: Any) -> None:
        RecordConstructorArgs.__init__(self, **settings)
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, ResearchCodeEnv):
            raise UsageError(
                f"{type(self).__name__} wraps rcb/Challenge-v0, not {type(env.unwrapped).__name__}"
            )
        self._seen: Any = None

    @property
    def inside(self) -> ResearchCodeEnv:
        """The environment under all wrappers."""
        return cast("ResearchCodeEnv", self.unwrapped)

    def snapshot(self) -> LayerSnapshot:
        """The present state of the stack; it never changes, and costs nothing to keep.

        Raises:
            ResetNeeded: there is no episode.
        """
        inner = self.env.get_wrapper_attr("snapshot")()
        return LayerSnapshot(inner, self.memory, self._seen)

    def restore(self, snapshot: LayerSnapshot) -> tuple[Any, dict[str, Any]]:
        """Go on from a snapshot of a stack of the same wrappers.

        Returns:
            The observation that `reset` or `step` returned there, and the environment's info.

        Raises:
            UsageError: see `ResearchCodeEnv.restore`.
            TypeError: it is of no stack of wrappers.
        """
        if not isinstance(snapshot, LayerSnapshot):
            raise TypeError(
                f"restore takes what snapshot() of the same stack returned, not {snapshot!r:.80}"
            )
        _, info = self.env.get_wrapper_attr("restore")(snapshot.inner)
        self.memory = snapshot.memory
        return self.seen(snapshot.observation), info

    def fork(self) -> Self:
        """The same stack in the same state, which goes its own way from here.

        Raises:
            UsageError: a wrapper of another package is in between.
        """
        fork = getattr(self.env, "fork", None)
        if fork is None:
            raise UsageError(f"{type(self.env).__name__} cannot be forked: put it outside")
        twin = copy.copy(self)
        twin.env = fork()
        for name in ("_action_space", "_observation_space"):
            space = getattr(self, name)
            if space is not None and space._np_random is not None:
                setattr(twin, name, copy.deepcopy(space))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A fork."""
        twin = memo[id(self)] = self.fork()
        return twin

    def seen(self, observation: Any) -> Any:
        """Remember an observation for `snapshot`; returns it as one of the caller's own."""
        self._seen = observation
        return copy.deepcopy(observation) if isinstance(observation, dict | list) else observation


def is_control(action: object) -> bool:
    """Whether an action is a word between wrappers, which is passed on as it is."""
    return isinstance(action, OutOfBudget | Unreadable)


def left(observation: dict[str, Any]) -> str:
    """The budget of an observation in words."""
    steps, tests = observation["steps_left"], observation["test_runs_left"]
    return f"[{steps} steps and {tests} test runs left]"
