"""The two model APIs as bodies of requests and replies: chat completions and responses.

Agents speak in chat messages, tool calls and answers included; the responses API gets the same
conversation in its own form. Pure: no connection is made here.

Guarantees: whatever a server sends is read without an exception; tool calls keep their arguments as
the text that came, JSON or not; what is sent back of them is always something a server takes.
Not covered: streaming.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rcb_agents.replies import REASONING_ITEMS, ToolRequest
from rcb_env import ModelSettings

if TYPE_CHECKING:
    import openai

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What a body says; counts of tokens are None where the server gave none."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolRequest, ...] = ()
    reasoning_items: tuple[Mapping[str, Any], ...] = ()
    id: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True)
class Api:
    """One of the two.

    Attributes:
        path: below the base URL.
        what: what it answers with, in messages.
        send: sends a body through the library; what it returns has ``text`` and ``headers``.
        body: makes a request's body, see `_chat_body`.
        read: a reply's body: an answer, or a text that says why another try may help, or None if it
            is no body of this API.
    """

    path: str
    what: str
    send: Callable[[openai.OpenAI, Mapping[str, Any]], Any]
    body: Callable[..., dict[str, Any]]
    read: Callable[[Mapping[str, Any]], Answer | str | None]


# --- chat completions -------------------------------------------------------------------------


def _chat_body(
    settings: ModelSettings,
    model: str,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int | None,
    without: frozenset[str],
) -> dict[str, Any]:
    """The body of a request.

    Args:
        settings: temperature and reasoning effort.
        model: as the server calls it.
        messages: the conversation.
        tools: OpenAI function tools; none: no tools are offered.
        max_tokens: longest completion; None: the server's own limit.
        without: parameters the server has refused.
    """
    wanted = {
        "temperature": None if "temperature" in without else settings.temperature,
        "max_completion_tokens" if "max_tokens" in without else "max_tokens": max_tokens,
        "reasoning_effort": settings.reasoning_effort,
        "tools": list(tools) or None,
    }
    return {
        "model": model,
        "messages": [
            {key: value for key, value in _sendable(message).items() if key != REASONING_ITEMS}
            for message in messages
        ],
        **_given(wanted),
    }


def _read_chat(data: Mapping[str, Any]) -> Answer | str | None:
    choices = data.get("choices")
    if not isinstance(choices, list):
        return None
    if not (choices and isinstance(choices[0], dict) and "message" in choices[0]):
        return "a reply without choices"
    message = _mapping(choices[0]["message"])
    counts = _mapping(data.get("usage"))
    details = _mapping(counts.get("completion_tokens_details"))
    calls = message.get("tool_calls")
    return Answer(
        text=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish_reason=_text(choices[0].get("finish_reason")) or None,
        refusal=_text(message.get("refusal")) or None,
        tool_calls=_requests(
            (_text(call.get("id")), _mapping(call.get("function")))
            for call in map(_mapping, calls if isinstance(calls, list) else ())
        ),
        id=_text(data.get("id")) or None,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        reasoning_tokens=_count(details.get("reasoning_tokens")),
    )


# --- responses --------------------------------------------------------------------------------


def _responses_body(
    settings: ModelSettings,
    model: str,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int | None,
    without: frozenset[str],
) -> dict[str, Any]:
    effort = settings.reasoning_effort
    wanted = {
        "temperature": None if "temperature" in without else settings.temperature,
        "max_output_tokens": max_tokens,
        "reasoning": {"effort": effort} if effort is not None else None,
        # The type beside the function's fields, not around them as in chat completions.
        "tools": [{"type": "function", **tool["function"]} for tool in tools] or None,
    }
    return {
        "model": model,
        "input": [item for message in messages for item in _items(_sendable(message))],
        "store": False,
        # Nothing is stored there, so what the model thought comes along, sealed, and goes back with its calls.
        **({} if "include" in without else {"include": ["reasoning.encrypted_content"]}),
        **_given(wanted),
    }


def _items(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        return [{"type": "function_call_output", **output}]
    items: list[dict[str, Any]] = list(message.get(REASONING_ITEMS, ()))
    if message.get("content"):
        items.append({"role": message["role"], "content": message["content"]})
    for call in message.get("tool_calls", ()):
        items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def _read_responses(data: Mapping[str, Any]) -> Answer | str | None:
    output = data.get("output")
    if not isinstance(output, list):
        return None
    if data.get("status") == "failed":
        return f"a failed response: {_text(_mapping(data.get('error')).get('message'))}"
    items = [_mapping(item) for item in output]
    if not items and data.get("status") == "completed":
        return "a reply without output"
    parts = [
        _mapping(part)
        for item in items
        if item.get("type") == "message" and isinstance(item.get("content"), list)
        for part in item["content"]
    ]
    calls = _requests(
        (_text(item.get("call_id")), item) for item in items if item.get("type") == "function_call"
    )
    counts = _mapping(data.get("usage"))
    details = _mapping(counts.get("output_tokens_details"))
    return Answer(
        text="".join(_text(part.get("text")) for part in parts),
        reasoning="".join(
            _text(item.get("summary")) or _text(item.get("content"))
            for item in items
            if item.get("type") == "reasoning"
        ),
        finish_reason=_finish_of(data, calls),
        refusal="".join(_text(part.get("refusal")) for part in parts) or None,
        tool_calls=calls,
        reasoning_items=tuple(
            item
            for item in items
            if item.get("type") == "reasoning" and item.get("encrypted_content")
        ),
        id=_text(data.get("id")) or None,
        prompt_tokens=_count(counts.get("input_tokens")),
        completion_tokens=_count(counts.get("output_tokens")),
        reasoning_tokens=_count(details.get("reasoning_tokens")),
    )


def _finish_of(data: Mapping[str, Any], calls: Sequence[ToolRequest]) -> str:
    """The end of a response in the words of chat completions."""
    if data.get("status") == "incomplete":
        reason = _text(_mapping(data.get("incomplete_details")).get("reason"))
        return "length" if reason in ("", "max_output_tokens") else reason
    return "tool_calls" if calls else "stop"


# As extra bodies, which take the place of what is given beside them: the library goes through every
# field of what it is given as arguments, which takes longer than all the rest of a request.
APIS = {
    "chat": Api(
        "/chat/completions",
        "chat completion",
        lambda client, body: client.chat.completions.with_raw_response.create(
            model=body["model"], messages=[], extra_body=body
        ),
        _chat_body,
        _read_chat,
    ),
    "responses": Api(
        "/responses",
        "response",
        lambda client, body: client.responses.with_raw_response.create(
            model=body["model"], extra_body=body
        ),
        _responses_body,
        _read_responses,
    ),
}


# --- small things -----------------------------------------------------------------------------


def _requests(calls: Any) -> tuple[ToolRequest, ...]:
    made: list[ToolRequest] = []
    for number, (call_id, function) in enumerate(calls):
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers send the object itself, or nothing
            arguments = "" if arguments is None else json.dumps(arguments)
        made.append(
            ToolRequest(call_id or f"call_{number}", _text(function.get("name")), arguments)
        )
    return tuple(made)


def _given(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value is not None}


def _sendable(value: Any) -> Any:
    """A message that can be sent as UTF-8; replies may hold half a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {key: _sendable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_sendable(each) for each in value]
    return value


def _text(value: object) -> str:
    """A text, or the texts of a list of parts; "" for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
