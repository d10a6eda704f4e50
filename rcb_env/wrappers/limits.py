"""What a policy may spend and what it gets to see: a budget of tokens, a window on the history.

Guarantees: both are exact and the same on every machine: tokens are counted by one named encoding,
never guessed; what a window leaves out, it says.
Not covered: limits of steps and test runs (`rcb_env.env.environment`), the size of one observation (there, too).
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import gymnasium
from gymnasium import spaces

from rcb_env.env.actions import OutOfBudget, ToolCall
from rcb_env.env.spaces import TextSpace
from rcb_env.errors import UsageError, unknown
from rcb_env.wrappers.layer import Layer, Result, is_control

_PIECE_CHARS = 20_000  # long runs of one character take tiktoken quadratic time
_COUNTS = ("actions", "all")
_MIN_WINDOW_CHARS = 500


class TokenBudget(Layer):
    """Ends an episode with truncated when its tokens are spent; what is there is graded.

    The action that went over is not done. Tokens are reported to the environment, so a reward can
    have them cost; infos have ``tokens_left``.

    Args:
        env: the environment, wrapped or not.
        tokens: of one episode.
        encoding: a name that tiktoken knows.
        count: "actions", or "all": the new part of each observation as well.

    Raises:
        UsageError: a setting is unknown or out of range, or the encoding cannot be loaded.
    """

    memory: int = 0
    """Tokens spent."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        tokens: int,
        encoding: str = "cl100k_base",
        count: Literal["actions", "all"] = "actions",
    ) -> None:
        super().__init__(env, tokens=tokens, encoding=encoding, count=count)
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise UsageError(f"tokens is {tokens!r}; it must be an integer of at least 1")
        if count not in _COUNTS:
            raise unknown("count of a token budget", str(count), _COUNTS)
        _encoding(encoding)
        self._tokens, self._name, self._all = tokens, encoding, count == "all"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = 0
        self._read(observation)
        return self.seen(observation), {**info, "tokens_left": self._left()}

    def step(self, action: Any) -> Result:
        """Pay for the action and do it, if there is enough."""
        if not is_control(action):
            self._spend(_written(action))
            if self.memory > self._tokens:
                action = OutOfBudget("tokens")
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            self._read(observation)
        info = {**info, "tokens_left": self._left()}
        return self.seen(observation), float(reward), terminated, truncated, info

    def restore(self, snapshot: Any) -> tuple[Any, dict[str, Any]]:
        """As `Layer.restore`, with ``tokens_left``."""
        observation, info = super().restore(snapshot)
        return observation, {**info, "tokens_left": self._left()}

    def count(self, text: str) -> int:
        """The tokens of a text."""
        encode = _encoding(self._name).encode
        return sum(
            len(encode(text[start : start + _PIECE_CHARS], disallowed_special=()))
            for start in range(0, len(text), _PIECE_CHARS)
        )

    def _left(self) -> int:
        return max(0, self._tokens - self.memory)

    def _spend(self, text: str) -> None:
        tokens = self.count(text)
        self.memory += tokens
        self.inside.charge(tokens)

    def _read(self, observation: Any) -> None:
        if self._all:
            self._spend(_new_part(observation))


@functools.lru_cache(maxsize=8)
def _encoding(name: str) -> Any:
    import tiktoken

    # A plug-in that brings the file of an encoding along needs no network.
    own = f"{name}_offline"
    try:
        return tiktoken.get_encoding(own if own in tiktoken.list_encoding_names() else name)
    except Exception as error:  # plug-ins, downloads and hashes can fail in any way
        raise UsageError(
            f"tiktoken cannot load the encoding {name!r} ({type(error).__name__}): choose another"
            " one, or install rcb-env[offline] for cl100k_base without a network"
        ) from error


def _written(action: Any) -> str:
    """An action as a model writes it."""
    if isinstance(action, str):
        return action
    if isinstance(action, ToolCall):
        action = action.to_dict()
    if isinstance(action, dict) and action.get("role") == "assistant":
        calls = action.get("tool_calls")
        parts = [action.get("content"), *(calls if isinstance(calls, list) else ())]
        return "\n".join(_dumped(_function(part)) for part in parts if part)
    return _dumped(action)


def _function(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    return [function.get("name"), function.get("arguments")] if isinstance(function, dict) else call


def _dumped(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _new_part(observation: Any) -> str:
    """What an observation tells that the one before it did not."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, list):
        said = [message["role"] == "assistant" for message in observation]
        new = len(said) - said[::-1].index(True) if any(said) else 0
        return "\n".join(str(message.get("content") or "") for message in observation[new:])
    return str(observation["text"])


# --- a window on the history ------------------------------------------------------------------


@dataclass(frozen=True)
class _History:
    first: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    """The last actions and what came of each, no more than are shown."""
    count: int = 0
    """Of all turns."""


class HistoryWindow(Layer):
    """Observations show the task, the last turns, and how many were left out.

    Of a conversation (`ChatMessages`) the messages before the first answer and those of the last
    turns stay; of any other observation the text becomes a transcript.

    Args:
        env: the environment, wrapped or not.
        turns: how many turns are shown at most.
        max_chars: longest transcript; older turns go first.

    Raises:
        UsageError: a setting is out of range.
    """

    memory: _History = _History()

    def __init__(
        self, env: gymnasium.Env[Any, Any], turns: int = 8, max_chars: int = 40_000
    ) -> None:
        super().__init__(env, turns=turns, max_chars=max_chars)
        for name, value, least in (
            ("turns", turns, 1),
            ("max_chars", max_chars, _MIN_WINDOW_CHARS),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{name} is {value!r}; it must be an integer of at least {least}")
        self._turns = turns
        self._text = TextSpace(max_chars)
        space = env.observation_space
        if isinstance(space, spaces.Dict):
            self.observation_space = spaces.Dict({**space.spaces, "text": TextSpace(max_chars)})
        elif isinstance(space, TextSpace):
            self.observation_space = self._text

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode and its history."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = _History(first=_new_part(observation))
        return self.seen(self._shown(observation)), info

    def step(self, action: Any) -> Result:
        """As the environment inside."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not isinstance(observation, list):
            written = "" if is_control(action) else self._text.clip(_written(action))
            turns = (*self.memory.turns, (written, _new_part(observation)))[-self._turns :]
            self.memory = replace(self.memory, turns=turns, count=self.memory.count + 1)
        return self.seen(self._shown(observation)), float(reward), terminated, truncated, info

    def _shown(self, observation: Any) -> Any:
        if isinstance(observation, list):
            return _last_turns(observation, self._turns)
        if isinstance(observation, str):
            return self._transcript()
        return {**cast("dict[str, Any]", observation), "text": self._transcript()}

    def _transcript(self) -> str:
        first, turns, count = self.memory.first, self.memory.turns, self.memory.count
        for skipped in range(len(turns) + 1):
            parts = [first]
            hidden = count - len(turns) + skipped
            if hidden:
                parts.append(f"[{hidden} earlier turn{'s are' if hidden > 1 else ' is'} left out]")
            for action, answer in turns[skipped:]:
                parts += [f"You: {action}", answer]
            text = "\n\n".join(parts)
            if len(text) <= self._text.max_length or skipped >= len(turns) - 1:
                break
        return self._text.clip(text)


def _last_turns(messages: list[Any], turns: int) -> list[Any]:
    starts = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    if len(starts) <= turns:
        return messages
    return [*messages[: starts[0]], *messages[starts[-turns] :]]
