r"""Texts in, texts out: a reply holds one tool call, for models without an interface for tools.

The grammar, which `instructions` tells the model::

    reply = [anything] <tool_call> {"tool": NAME, "arguments": {...}} </tool_call> [anything]

Thinking before ``</think>`` is not looked at. "name" may stand for "tool", line ends may stand in JSON
texts as they are, and the closing tag may be missing at the end of a reply, where it often is the stop
sequence. Everything else is answered with one line that says what is wrong, and uses up a step.
Not covered: several calls in one reply (`chat.py` does them in order).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import gymnasium

from rcb_env.env.actions import TOOLS, Unreadable, parse
from rcb_env.env.spaces import ActionSpace, TextSpace
from rcb_env.wrappers.layer import Layer, Result, is_control, left

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MAX_REPLY_CHARS = 1_000_000
_THOUGHT = "</think>"
_LEFT_CHARS = 100  # for the line that tells the budget
_decoder = json.JSONDecoder(strict=False)


def instructions() -> str:
    """The tools and how to call one, for a system prompt."""
    lines = [
        "Each reply calls exactly one tool, like this:",
        f'{OPEN}{{"tool": "read_file", "arguments": {{"path": "src/model.py"}}}}{CLOSE}',
        "The tools and the JSON schemas of their arguments:",
    ]
    for tool in TOOLS:
        lines.append(f"- {tool.name}: {tool.description} {json.dumps(dict(tool.parameters))}")
    return "\n".join(lines)


def write_call(call: Mapping[str, Any]) -> str:
    """A tool call as a reply; `read_call` reads it back equal."""
    return f"{OPEN}{json.dumps(dict(call))}{CLOSE}"


def read_call(reply: str) -> dict[str, Any] | Unreadable:
    """The tool call of a reply, in wire form and not checked further; or what is wrong."""
    text = _after_thinking(reply)
    found: list[Any] = []
    at = text.find(OPEN)
    while at >= 0:
        at += len(OPEN)
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            value, at = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            return Unreadable(f"what follows {OPEN} is not JSON: {what}")
        rest = text[at:].lstrip()
        if rest and not rest.startswith(CLOSE):
            return Unreadable(f"after the JSON of a tool call comes {CLOSE}, not {rest[:20]!r}")
        found.append(value)
        at = text.find(OPEN, at)
    if len(found) != 1:
        count = f"{len(found)} tool calls" if found else "no tool call"
        return Unreadable(f"the reply holds {count}; write {OPEN}{{...}}{CLOSE} once")
    return named(found[0])


def named(value: Any) -> dict[str, Any] | Unreadable:
    """A call with "name" where others have "tool"."""
    if not isinstance(value, dict):
        return Unreadable(f"a tool call is a JSON object, not {type(value).__name__}")
    if "tool" not in value and "name" in value:
        return {("tool" if key == "name" else key): item for key, item in value.items()}
    return value


class CallTextSpace(TextSpace):
    """Every text; a sample is a reply with a valid tool call."""

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A reply with a valid call of any tool."""
        seed = int(self.np_random.integers(2**31))
        return write_call(ActionSpace(seed).sample(mask, probability))


class ToolText(Layer):
    """Observations are texts, actions are replies.

    Args:
        env: the environment.
        instruct: whether the first observation begins with `instructions`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], instruct: bool = True) -> None:
        super().__init__(env, instruct=instruct)
        self._heading = f"{instructions()}\n\n" if instruct else ""
        inner = cast("TextSpace", cast("Any", env.observation_space)["text"])
        self._text = TextSpace(inner.max_length + len(self._heading) + _LEFT_CHARS)
        self.observation_space = self._text
        self.action_space = CallTextSpace(MAX_REPLY_CHARS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.seen(f"{self._heading}{self._told(observation)}"), info

    def step(self, action: Any) -> Result:
        """Do the tool call of a reply."""
        observation, reward, terminated, truncated, info = self.env.step(self.read(action))
        return self.seen(self._told(observation)), float(reward), terminated, truncated, info

    def read(self, action: Any) -> Any:
        """What a reply asks the environment for."""
        if is_control(action):
            return action
        if not isinstance(action, str):
            return Unreadable(f"a reply is a text, not {type(action).__name__}")
        if len(action) > MAX_REPLY_CHARS:
            return Unreadable(f"the reply has more than {MAX_REPLY_CHARS} characters")
        return read_call(action)

    def _told(self, observation: dict[str, Any]) -> str:
        return f"{observation['text']}\n\n{left(observation)}"


def is_call(reply: str) -> bool:
    """Whether a reply holds a call that will not be answered with an error of form."""
    call = read_call(reply)
    return not isinstance(call, Unreadable) and not isinstance(parse(call), str)


def _after_thinking(reply: str) -> str:
    end = reply.find(_THOUGHT)
    if end < 0:
        return reply
    # A call whose code has the words "</think>" is no thinking.
    thinks = reply.lstrip().startswith("<think>") or OPEN not in reply[:end]
    return reply[end + len(_THOUGHT) :] if thinks else reply
