"""The Gymnasium spaces: all tool calls, all texts, and what an observation is.

Guarantees: `ActionSpace` and `TextSpace` are spaces of their own, as Gymnasium's `Text` holds neither newlines nor most of
Unicode, and shared memory would cut it silently; these are refused there, with an error that names the setting to use
instead. What a space samples depends on its seed alone.
Not covered: what is a valid call (`rcb_env.env.actions`).
"""

from __future__ import annotations

import copy
import re
from enum import Enum
from pathlib import Path
from typing import Any, cast

from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector.utils import create_shared_memory
from gymnasium.wrappers.utils import create_zero_array

from rcb_env.env.actions import TOOLS, ToolCall, parse
from rcb_env.env.settings import Rules

_CUT_MARK = "\n[cut here: {shown} of {total} characters are shown]"
_SURROGATE = re.compile("[\ud800-\udfff]")


class ActionSpace(Space[dict[str, Any]]):
    """All valid tool calls, in wire form or as `ToolCall`.

    Equal for all challenges, so environments of different challenges fit into one vector. A sample
    depends on the seed alone: its paths and texts are made up.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a tool call has no fixed size."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        """A valid call of any tool, in wire form.

        Raises:
            ValueError: a mask or probabilities were given; there is nothing they could apply to.
        """
        _no_mask(mask, probability)
        tool = TOOLS[int(self.np_random.integers(len(TOOLS)))]
        arguments: dict[str, Any] = {}
        for key, schema in tool.parameters["properties"].items():
            if key not in tool.parameters["required"] and self.np_random.random() < 0.5:
                continue
            if schema["type"] == "integer":
                arguments[key] = int(self.np_random.integers(1, 200))
            elif key == "path":
                arguments[key] = f"src/{self._word()}.py"
            else:
                lines = int(self.np_random.integers(1, 4))
                arguments[key] = "\n".join(f"{self._word()} = 1" for _ in range(lines))
        return {"tool": tool.name, "arguments": arguments}

    def _word(self) -> str:
        return "".join(chr(ord("a") + int(n)) for n in self.np_random.integers(0, 26, 5))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an action that `parse` accepts."""
        return isinstance(parse(x), ToolCall)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace)

    def __hash__(self) -> int:
        return hash(ActionSpace)

    def __repr__(self) -> str:
        return "ActionSpace()"


class TextSpace(Space[str]):
    """Every Unicode text up to a length, the empty one included.

    Args:
        max_length: in characters (code points).
        seed: of `sample`.
    """

    _ALPHABET = "abc XYZ 019 _.:=()[]'\"\\\t\n é∇你🙂"
    _MAX_SAMPLE = 100

    def __init__(self, max_length: int, seed: int | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {max_length}")
        super().__init__(dtype=str, seed=seed)
        self.max_length = max_length

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a text has no fixed size."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A short text.

        Raises:
            ValueError: a mask or probabilities were given; there is nothing they could apply to.
        """
        _no_mask(mask, probability)
        length = int(self.np_random.integers(0, min(self.max_length, self._MAX_SAMPLE) + 1))
        picks = self.np_random.integers(0, len(self._ALPHABET), length)
        return "".join(self._ALPHABET[int(pick)] for pick in picks)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text of at most ``max_length`` characters, without surrogates."""
        return isinstance(x, str) and len(x) <= self.max_length and not _SURROGATE.search(x)

    def clip(self, text: str) -> str:
        r"""The text made to fit: cut with a mark, and bytes that are no UTF-8 shown as ``\xe9``."""
        text = _SURROGATE.sub(_escape, text)
        if len(text) <= self.max_length:
            return text
        total = len(text)
        room = self.max_length - len(_CUT_MARK.format(shown=total, total=total))
        if room < 0:
            return text[: self.max_length]
        return text[:room] + _CUT_MARK.format(shown=room, total=total)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((TextSpace, self.max_length))

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"


@create_shared_memory.register(ActionSpace)
@create_shared_memory.register(TextSpace)
def _refuse_shared_memory(*_: object, **_settings: object) -> Any:
    raise ValueError(
        "AsyncVectorEnv cannot pass texts through shared memory, which is its default: add"
        " shared_memory=False (in make_vec: vector_kwargs={'shared_memory': False}), or leave out"
        " vectorization_mode to get threads, which are faster here"
    )


# What Gymnasium's DelayObservation and FrameStackObservation show before there is an observation.
cast("Any", create_zero_array).register(TextSpace, lambda _space: "")


def _no_mask(mask: Any | None, probability: Any | None) -> None:
    if mask is not None or probability is not None:
        raise ValueError("this space samples without a mask and without probabilities")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    # Files are decoded with surrogateescape, which maps a byte b that is no UTF-8 to U+DC00 + b.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def observations(rules: Rules, max_text_chars: int) -> Space[dict[str, Any]]:
    """What the environment observes: a text, and what is left of the budgets."""
    parts: dict[str, Space[Any]] = {
        "text": TextSpace(max_text_chars),
        "steps_left": spaces.Discrete(rules.max_steps + 1),
        "test_runs_left": spaces.Discrete(rules.max_test_runs + 1),
    }
    return cast("Space[dict[str, Any]]", spaces.Dict(parts))


def own_copy(space: Space[Any]) -> Any:
    """A copy of a space that has drawn samples; None if a new one is as good."""
    seeded = [space, *space.spaces.values()] if isinstance(space, spaces.Dict) else [space]
    return copy.deepcopy(space) if any(each._np_random is not None for each in seeded) else None


def plain_spec(spec: EnvSpec | None) -> EnvSpec | None:
    """A specification with settings as JSON gives them back.

    Paths are texts, tuples and sets lists, members of an enumeration their values.
    """
    if spec is None:
        return None
    spec = copy.copy(spec)
    spec.kwargs = {name: _plain(value) for name, value in spec.kwargs.items()}
    return spec


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple | set | frozenset) else value
