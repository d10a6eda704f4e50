"""What a model is to agents: what it says, and how that stands in the conversation from then on. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rcb_agents.intake import parsed
from rcb_env import Usage

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
CAME_WITH = "came_with"
"""Key of a message, ours: what came with a reply, for the API that it came from; sent in that one's own form."""
SHARED = "shared"
"""Key of a message, ours: how many of its first characters other conversations begin with too, for a server's cache."""
_LONGEST_NAME = 64  # of a tool, in the APIs


@dataclass(frozen=True)
class ToolRequest:
    """A tool call as a model wrote it; nothing of it is checked."""

    id: str
    """In a conversation unlike any other."""
    name: str
    arguments: str
    """As text; supposed to be a JSON object."""


@dataclass(frozen=True)
class Reply:
    """What a model said.

    Attributes:
        text: the answer; "" when none came, for instance when all tokens went into reasoning.
        reasoning: what the server shows of the reasoning; kept, never graded.
        finish_reason: "stop", "length", "content_filter", "tool_calls", or as the server gave it.
        refusal: the model's own words when it refused.
        tool_calls: what it asks for, in its order.
        usage: of this call.
        request_id: the server's name for the request.
        retries: how often the request was sent again.
        refused: parameters that were asked for and left out or renamed, since the model refuses them.
        came_with: what the API wants to see again with this reply; nothing in it is read here.
        sampled: where the server gave them, the ids of the tokens it read (``prompt_ids``) and wrote (``ids``), and
            ``logprobs`` of these.
        cut_at: how many tokens were left of the budget that cut this reply short; 0: none did.
    """

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolRequest, ...] = ()
    usage: Usage = field(default_factory=Usage)
    request_id: str | None = None
    retries: int = 0
    refused: tuple[str, ...] = ()
    came_with: Mapping[str, Any] = field(default_factory=dict)
    sampled: Mapping[str, Any] = field(default_factory=dict)
    cut_at: int = 0


class Model(Protocol):
    """Anything that answers messages."""

    @property
    def context_tokens(self) -> int | None:
        """The window; None: unknown."""
        ...

    def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> Reply:
        """One completion.

        Args:
            messages: chat messages.
            tools: OpenAI function tools it may ask for.
        """
        ...


def with_own_ids(calls: Sequence[ToolRequest], taken: Set[str]) -> tuple[ToolRequest, ...]:
    """Tool calls whose ids are unlike each other and any taken one; those that are so already stay.

    Some servers give the same ones in every reply, or none, and an answer could not be told from another. The ids
    made here are of nine letters and digits, the only form that every server takes.
    """
    seen = set(taken)
    made: list[ToolRequest] = []
    for call in calls:
        own, number = call.id, len(seen)
        while own in seen:
            own, number = f"call{number:05d}", number + 1
        seen.add(own)
        made.append(replace(call, id=own))
    return tuple(made)


def assistant_message(reply: Reply, *, in_place_of_nothing: str) -> dict[str, Any]:
    """A reply as the message that stands for it in the conversation from then on.

    Arguments that are no JSON object and names that no tool can have are made harmless: servers
    refuse a conversation that holds them, though the model wrote them.

    Args:
        reply: what came.
        in_place_of_nothing: stands for a reply without text and calls, which servers refuse too.
    """
    text = reply.text if reply.text.strip() else ""
    message: dict[str, Any] = {"role": "assistant", "content": text or in_place_of_nothing}
    if reply.came_with:
        message[CAME_WITH] = dict(reply.came_with)
    if reply.tool_calls:
        message["content"] = text or None
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _NO_NAME.sub("_", call.name)[:_LONGEST_NAME] or "unnamed",
                    "arguments": call.arguments if is_json_object(call.arguments) else "{}",
                },
            }
            for call in reply.tool_calls
        ]
    return message


def as_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """What is sent of messages, as a text whose tokens can be counted."""
    parts = [str(message.get("content") or "") for message in messages]
    for name in ("tool_calls", CAME_WITH):
        parts += [json.dumps(message[name]) for message in messages if message.get(name)]
    return "\n".join(parts)


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object, and not a trap for whoever reads it."""
    try:
        return isinstance(parsed(text), dict)
    except ValueError:
        return False
