"""OpenAI's chat format: an action is an assistant message with tool calls, an observation the messages.

`tools` are the schemas to send along. All calls of one message are done in order, each as a step of
the environment, and each is answered by a ``tool`` message; their rewards are added up. What comes
after the end of an episode is answered and not done. A message without a call is told so and uses up
a step.

Guarantees: a conversation is always one that an API accepts: every call has an id and an answer.
Observations share nothing, so a caller may change them.
Not covered: talking to a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import gymnasium
from gymnasium import Space
from gymnasium.wrappers.utils import create_zero_array

from rcb_env.env.actions import Unreadable, tool_schemas
from rcb_env.env.spaces import ActionSpace
from rcb_env.wrappers.layer import Layer, Result, is_control, left

Message = dict[str, Any]
SYSTEM = "You write the missing code of a paper. Act with the tools; submit when you are done."
_ROLES = ("system", "user", "assistant", "tool")
_SHOWN_CHARS = 80


class MessagesSpace(Space[list[Message]]):
    """Conversations: lists of messages with a role and a content."""

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a conversation has no fixed size."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> list[Message]:
        """A short conversation."""
        if mask is not None or probability is not None:
            raise ValueError("this space samples without a mask and without probabilities")
        count = int(self.np_random.integers(1, 4))
        roles = [_ROLES[int(self.np_random.integers(2))] for _ in range(count)]
        return [{"role": role, "content": f"{number}"} for number, role in enumerate(roles)]

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a list of messages."""
        return isinstance(x, list) and all(
            isinstance(message, dict)
            and message.get("role") in _ROLES
            and isinstance(message.get("content"), str | None)
            for message in x
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesSpace)

    def __hash__(self) -> int:
        return hash(MessagesSpace)


cast("Any", create_zero_array).register(MessagesSpace, lambda _space: [])


class AssistantSpace(Space[Message]):
    """Assistant messages; a sample has one valid tool call."""

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a message has no fixed size."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Message:
        """A message with a valid call of any tool."""
        call = ActionSpace(int(self.np_random.integers(2**31))).sample(mask, probability)
        return assistant(call, id="call_0")

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an assistant message."""
        return isinstance(x, dict) and x.get("role") == "assistant"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssistantSpace)

    def __hash__(self) -> int:
        return hash(AssistantSpace)


def assistant(call: Mapping[str, Any], *, id: str, content: str | None = None) -> Message:
    """An assistant message with one tool call, given in wire form."""
    function = {"name": call["tool"], "arguments": json.dumps(dict(call["arguments"]))}
    calls = [{"id": id, "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": calls}


class ChatMessages(Layer):
    """Observations are conversations, actions are assistant messages.

    Args:
        env: the environment.
        system: the first message; "" for none.
    """

    memory: tuple[Message, ...] = ()

    def __init__(self, env: gymnasium.Env[Any, Any], system: str = SYSTEM) -> None:
        super().__init__(env, system=system)
        self._system = system
        self.observation_space = MessagesSpace()
        self.action_space = AssistantSpace()

    @property
    def tools(self) -> list[dict[str, Any]]:
        """OpenAI function tools, to send with the messages."""
        return tool_schemas()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Start an episode and a conversation."""
        observation, info = self.env.reset(seed=seed, options=options)
        first = [{"role": "system", "content": self._system}] if self._system else []
        self.memory = (*first, {"role": "user", "content": _told(observation)})
        return self.seen(list(self.memory)), info

    def step(self, action: Any) -> Result:
        """Do the tool calls of an assistant message (or of a text, which has none)."""
        if is_control(action):
            observation, reward, terminated, truncated, info = self.env.step(action)
            said = [{"role": "user", "content": _told(observation)}]
            return self._answer(said, float(reward), terminated, truncated, info)
        message, calls = self._read(action)
        said = [message]
        total, terminated, truncated = 0.0, False, False
        if not calls:
            observation, reward, terminated, truncated, info = self.env.step(
                Unreadable("the message calls no tool; every message must call one")
            )
            said.append({"role": "user", "content": _told(observation)})
            return self._answer(said, float(reward), terminated, truncated, info)
        for id, call in calls:
            content = "[not done: the episode is over]"
            if not (terminated or truncated):
                observation, reward, terminated, truncated, info = self.env.step(call)
                total += float(reward)
                content = _told(observation)
            said.append({"role": "tool", "tool_call_id": id, "content": content})
        return self._answer(said, total, terminated, truncated, info)

    def _answer(
        self,
        said: list[Message],
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> Result:
        self.memory = (*self.memory, *said)
        return self.seen(list(self.memory)), reward, terminated, truncated, info

    def _read(self, action: Any) -> tuple[Message, list[tuple[str, Any]]]:
        """The message as it goes into the conversation, and its calls with their ids."""
        given: Mapping[str, Any] = action if isinstance(action, Mapping) else {}
        content = action if isinstance(action, str) else given.get("content")
        message: Message = {
            "role": "assistant",
            "content": content if isinstance(content, str) else None,
        }
        listed = given.get("tool_calls")
        taken = {
            call["id"] for past in self.memory for call in past.get("tool_calls", ()) if call["id"]
        }
        kept: list[Message] = []
        calls: list[tuple[str, Any]] = []
        for call in listed if isinstance(listed, list | tuple) else ():
            one = call if isinstance(call, Mapping) else {}
            function = one.get("function")
            function = function if isinstance(function, Mapping) else {}
            id = one.get("id")
            if not isinstance(id, str) or not id or id in taken:
                id = f"call_{len(taken)}"
                while id in taken:
                    id += "_"
            taken.add(id)
            name, arguments = str(function.get("name")), function.get("arguments")
            written = arguments if isinstance(arguments, str) else _dumped(arguments)
            kept.append(
                {
                    "id": id,
                    "type": "function",
                    "function": {"name": name, "arguments": written},
                }
            )
            calls.append((id, _wire(name, arguments)))
        if kept:
            message["tool_calls"] = kept
        elif message["content"] is None:
            message["content"] = ""  # an API refuses a message without anything
        return message, calls


def _wire(name: str, arguments: object) -> Any:
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError) as error:
            shown = name[:_SHOWN_CHARS]
            what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            return Unreadable(f"{shown}: the arguments are not JSON: {what}")
    elif isinstance(arguments, str):
        arguments = {}
    return {"tool": name, "arguments": arguments}


def _dumped(arguments: object) -> str:
    try:
        return json.dumps(arguments if arguments is not None else {})
    except (TypeError, ValueError, RecursionError):
        return "{}"


def _told(observation: dict[str, Any]) -> str:
    return f"{observation['text']}\n\n{left(observation)}"
