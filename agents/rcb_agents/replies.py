"""What a model says, and how it stands in the conversation from then on. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_env import Usage

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
REASONING_ITEMS = "reasoning_items"
_LONGEST_NAME = 64  # of a tool, in the APIs


@dataclass(frozen=True)
class ToolRequest:
    """A tool call as a model wrote it; nothing of it is checked."""

    id: str
    name: str
    arguments: str
    """As text; supposed to be a JSON object."""


@dataclass(frozen=True)
class Reply:
    """What a model said.

    Attributes:
        text: the answer; "" when none came, for instance when all tokens went into reasoning.
        reasoning: what the server shows of the reasoning; kept, never graded.
        finish_reason: as the server gave it: "stop", "length", "content_filter", ...
        refusal: the model's own words when it refused.
        tool_calls: what it asks for, in its order.
        usage: of this call.
        request_id: the server's name for the request.
        retries: how often the request was sent again.
        refused: parameters that were asked for and left out or renamed, since the model refuses them.
        reasoning_items: what the responses API wants to see again, as it came; nothing in it can be read.
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
    reasoning_items: tuple[Mapping[str, Any], ...] = ()


def assistant_message(
    text: str,
    calls: Sequence[ToolRequest],
    reasoning_items: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A reply as the message that stands for it in the conversation from then on.

    Arguments that are no JSON object and names that no tool can have are made harmless: servers
    refuse a conversation that holds them, though the model wrote them. The key `REASONING_ITEMS`
    is ours: it is sent to the API it came from, as items of their own.
    """
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning_items:
        message[REASONING_ITEMS] = [dict(item) for item in reasoning_items]
    if calls:
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
            for call in calls
        ]
    return message


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
