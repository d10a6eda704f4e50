"""Many environments at once: ``gymnasium.make_vec("rcb/Challenge-v0", num_envs=8)``.

Threads over the boxes that all environments of a process share. Steps that only look or edit are done
at once in the calling thread, where they take a tenth of a millisecond; steps that run code wait for a
box in a thread each. Two ways to use it:

- `step`, as Gymnasium has it: all environments, one action each, all results.
- `send` and `recv`: each environment for itself, results as they come, nobody waits for the slowest.

Guarantees: texts arrive as they are. In each of Gymnasium's three modes of autoreset an episode has
exactly one final verdict, with the results of the step that ended it; a step that resets has reward 0
and no verdict. A box that dies is replaced, and the step tried once more; an episode that then cannot be
graded for such a reason ends as "infra_error", and the other ones go on.
Not covered: processes (`gymnasium.vector.AsyncVectorEnv`, with ``shared_memory=False``).
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.spaces import plain_spec
from rcb_env.errors import UsageError, unknown
from rcb_env.sandbox.machine import boxes

Observations = dict[str, Any]
"""``text``: a tuple of texts; ``steps_left`` and ``test_runs_left``: arrays of integers."""
_Array = npt.NDArray[Any]

_FINAL: tuple[str, ...] = ("final_obs", "final_info")
_THREADS_PER_BOX = 2  # one box runs code while the judge looks at the outputs of another


@dataclass(frozen=True)
class Arrival:
    """What one environment's step gave; see `ResearchCodeEnv.step`."""

    index: int
    """Which environment."""
    observation: dict[str, Any]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any] = field(default_factory=dict)
    """With ``final_obs`` and ``final_info`` where a same-step autoreset followed."""


@dataclass(frozen=True)
class _Failure:
    """A step that raised."""

    index: int
    error: BaseException


class ChallengeVectorEnv(VectorEnv[Observations, Sequence[Any], _Array]):
    """Environments side by side in threads.

    Args:
        num_envs: how many.
        autoreset_mode: "NextStep", "SameStep" or "Disabled", or a member of Gymnasium's `AutoresetMode`.
        threads: how many steps may run code at once; None: twice the number of boxes.
        settings: of each environment, see `ResearchCodeEnv`.

    Raises:
        UsageError: a setting is unknown or out of range.
    """

    # An instance attribute to Gymnasium, whose class it is declared in.
    _spec: EnvSpec | None = None

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        **settings: Any,
    ) -> None:
        if num_envs < 1:
            raise UsageError(f"num_envs is {num_envs}; it must be at least 1")
        self.autoreset_mode = _mode(autoreset_mode)
        self.envs = [ResearchCodeEnv(**settings) for _ in range(num_envs)]
        first = self.envs[0]
        self.num_envs = num_envs
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self.single_action_space = first.action_space
        self.single_observation_space = first.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        most = threads or _THREADS_PER_BOX * boxes(settings.get("boxes"))
        self._pool = ThreadPoolExecutor(min(most, num_envs), thread_name_prefix="rcb-env")
        self._arrived: queue.SimpleQueue[Arrival | _Failure] = queue.SimpleQueue()
        self._under_way: dict[int, Future[None] | None] = {}
        self._last: list[dict[str, Any] | None] = [None] * num_envs
        self._over = [False] * num_envs

    # --- Gymnasium ----------------------------------------------------------------------------

    @property  # to Gymnasium a plain attribute, which `make_vec` sets
    def spec(self) -> EnvSpec | None:
        """What `gymnasium.make_vec` makes this again from; fits into JSON unless objects were given."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = plain_spec(spec)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Start an episode in every environment, or in those of a mask.

        Args:
            seed: of the first environment, the next one gets the next number; or one for each.
            options: as `ResearchCodeEnv.reset` takes them, for all; and ``reset_mask``, an array of
                booleans that says which environments are meant.

        Raises:
            UsageError: seeds or options are wrong, or steps that were sent are under way.
        """
        self._must_be_idle("reset")
        if isinstance(seed, int):
            super().reset(seed=seed)
        seeds = _seeds(seed, self.num_envs)
        chosen = dict(options or {})
        mask = _mask(chosen.pop("reset_mask", None), self.num_envs)
        infos: dict[str, Any] = {}
        for index in np.flatnonzero(mask):
            _, info = self.reset_one(int(index), seed=seeds[index], options=chosen)
            infos = self._add_info(infos, info, int(index))
        return self._batched(), infos

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[Observations, _Array, _Array, _Array, dict[str, Any]]:
        """One action for each environment, in their order; returns when all are done.

        Raises:
            UsageError: there are more or fewer actions than environments.
            ResetNeeded: before `reset`; without autoreset, if an episode is over.
            SandboxUnavailable: no sandbox works on this machine.
        """
        self._must_be_idle("step")
        if len(actions) != self.num_envs:
            raise UsageError(f"step got {len(actions)} actions for {self.num_envs} environments")
        if self.autoreset_mode is AutoresetMode.DISABLED:
            for index, over in enumerate(self._over):
                self._must_go_on(index, over)
        for index, action in enumerate(actions):
            self._start(index, action)
        results: dict[int, Arrival] = {}
        failures: list[Exception] = []
        while self._under_way:
            try:
                arrival = self._next(None)
            except Exception as error:  # noqa: BLE001 - raised when none is left behind
                failures.append(error)
            else:
                results[arrival.index] = arrival
        if failures:
            raise failures[0]
        infos: dict[str, Any] = {}
        for index in range(self.num_envs):
            info = results[index].info
            final = {key: info.pop(key) for key in _FINAL if key in info}
            infos = self._add_info(self._add_info(infos, final, index), info, index)
        return (
            self._batched(),
            np.array([results[index].reward for index in range(self.num_envs)], np.float64),
            np.array([results[index].terminated for index in range(self.num_envs)], np.bool_),
            np.array([results[index].truncated for index in range(self.num_envs)], np.bool_),
            infos,
        )

    def render(self) -> tuple[Any, ...] | None:
        """What each environment renders."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **_: Any) -> None:
        """Wait for what is under way and end all episodes; shared boxes stay."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._under_way.clear()
        for env in self.envs:
            env.close()

    # --- without a barrier --------------------------------------------------------------------

    def reset_one(
        self, index: int, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode in one environment.

        Raises:
            UsageError: it has a step under way, or the options are wrong.
        """
        self._must_be_free(index)
        observation, info = self.envs[index].reset(seed=seed, options=dict(options or {}))
        self._last[index], self._over[index] = observation, False
        return observation, info

    def send(self, index: int, action: Any) -> None:
        """Begin a step of one environment; `recv` gives its result.

        With next-step autoreset the action after an episode's end is not looked at: it resets.

        Raises:
            UsageError: this environment has a step under way, or there is none of that number.
            ResetNeeded: before `reset`; without autoreset, after the episode's end.
        """
        self._must_be_free(index)
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._must_go_on(index, self._over[index])
        self._start(index, action)

    def recv(self, timeout_s: float | None = None) -> Arrival:
        """The result of a step that was sent, whichever is there first.

        Args:
            timeout_s: longest wait; None: as long as it takes.

        Raises:
            UsageError: nothing was sent.
            TimeoutError: nothing came in time; it is still under way.
        """
        if not self._under_way:
            raise UsageError("recv: no step is under way; send one first")
        return self._next(timeout_s)

    # --- of the single environments -----------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute."""
        found = [getattr(env, name) for env in self.envs]
        return tuple(one(*args, **kwargs) if callable(one) else one for one in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment; a list or tuple holds one value for each."""
        listed = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(listed) != self.num_envs:
            raise UsageError(f"{name}: {len(listed)} values for {self.num_envs} environments")
        for env, value in zip(self.envs, listed, strict=True):
            setattr(env, name, value)

    # --- inside -------------------------------------------------------------------------------

    def _start(self, index: int, action: Any) -> None:
        if self._last[index] is None:
            raise ResetNeeded("call reset() before step() and send()")
        resets = self._over[index] and self.autoreset_mode is AutoresetMode.NEXT_STEP
        # A thread costs more than a look at a file takes.
        if resets or not self.envs[index].will_grade(action):
            self._under_way[index] = None
            self._work(index, action, resets)
        else:
            self._under_way[index] = self._pool.submit(self._work, index, action, resets)

    def _work(self, index: int, action: Any, resets: bool) -> None:
        try:
            self._arrived.put(self._advance(index, action, resets))
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller of recv
            self._arrived.put(_Failure(index, error))

    def _advance(self, index: int, action: Any, resets: bool) -> Arrival:
        env = self.envs[index]
        if resets:
            observation, info = env.reset()
            return Arrival(index, observation, 0.0, False, False, info)
        observation, reward, terminated, truncated, info = env.step(action)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and (terminated or truncated):
            final = {"final_obs": observation, "final_info": info}
            observation, info = env.reset()
            info = {**info, **final}
        return Arrival(index, observation, reward, terminated, truncated, info)

    def _next(self, timeout_s: float | None) -> Arrival:
        try:
            arrival = self._arrived.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"no result came in {timeout_s} s") from None
        index = arrival.index
        self._under_way.pop(index, None)
        if isinstance(arrival, _Failure):
            raise arrival.error
        self._last[index] = arrival.observation
        ended = arrival.terminated or arrival.truncated
        self._over[index] = ended and self.autoreset_mode is not AutoresetMode.SAME_STEP
        return arrival

    def _batched(self) -> Observations:
        space = self.single_observation_space
        # An environment that a mask has left out from the start shows an empty text.
        empty = {"text": "", "steps_left": 0, "test_runs_left": 0}
        items = [empty if last is None else last for last in self._last]
        out = create_empty_array(space, self.num_envs, fn=np.zeros)
        return cast("Observations", concatenate(space, items, cast("Any", out)))

    def _must_be_idle(self, what: str) -> None:
        if self._under_way:
            waiting = ", ".join(map(str, sorted(self._under_way)))
            raise UsageError(
                f"{what}: environments {waiting} have steps under way; recv them first"
            )

    def _must_be_free(self, index: int) -> None:
        if not 0 <= index < self.num_envs:
            raise UsageError(f"there is no environment {index}; they are 0 to {self.num_envs - 1}")
        if index in self._under_way:
            raise UsageError(f"environment {index} has a step under way; recv it first")

    def _must_go_on(self, index: int, over: bool) -> None:
        if over:
            raise ResetNeeded(
                f"the episode of environment {index} is over and autoreset is disabled: call"
                " reset(options={'reset_mask': ...}) or reset_one"
            )


def _mode(mode: str | AutoresetMode) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    by_name = {each.value: each for each in AutoresetMode}
    if mode not in by_name:
        raise unknown("autoreset mode", str(mode), by_name)
    return by_name[mode]


def _seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    if seed is None:
        return [None] * count
    if isinstance(seed, int | np.integer):
        return [int(seed) + index for index in range(count)]
    if len(seed) != count:
        raise UsageError(f"reset got {len(seed)} seeds for {count} environments")
    return list(seed)


def _mask(mask: object, count: int) -> npt.NDArray[np.bool_]:
    if mask is None:
        return np.ones(count, np.bool_)
    found = np.asarray(mask)
    if found.dtype != np.bool_ or found.shape != (count,) or not found.any():
        raise UsageError(
            f"reset_mask must be an array of {count} booleans with at least one True, not {mask!r}"
        )
    return found
