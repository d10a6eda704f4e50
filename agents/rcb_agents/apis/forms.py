"""What a model API is to the client, and what all of them make requests and answers of.

A 200 is not yet an answer. `Api.read` tells three things apart: an `Answer`; `Failed`, where the body says that the
server or the one behind it failed (an error object, an end such as "error" or "abort", no message), with or without
half a text; and None, where it is no body of this API.

Guarantees: whatever a server sends is read without an exception; tool calls keep their arguments as the text that
came, JSON or not.
Not covered: single fields of a body (`fields`); its size, depth and the key in it (`intake`); what an error's words
mean (`faults`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_agents.apis.fields import mapping, text_of
from rcb_agents.apis.sending import Http, Received
from rcb_agents.faults import Said, said_in
from rcb_agents.replies import ToolRequest
from rcb_env import ModelSettings

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]

# How servers say in `finish_reason` or `status` that they failed and the model did not end by itself.
_FAILED_ENDS = frozenset(
    (
        *("error", "failed", "failure", "abort", "aborted", "cancelled", "canceled", "timeout"),
        *("network_error", "server_error", "internal_error", "insufficient_system_resource"),
        *("queued", "in_progress", "unavailable", "engine_overloaded"),
    )
)
_ENDS = {  # in the words of chat completions
    **dict.fromkeys(("max_tokens", "model_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(
        (
            "safety",
            "sensitive",
            "recitation",
            "blocklist",
            "prohibited_content",
            "content_filtered",
        ),
        "content_filter",
    ),
}


@dataclass(frozen=True)
class Request:
    """What a body is made of."""

    settings: ModelSettings
    model: str
    """Its name as the server calls it."""
    messages: Messages
    tools: Tools = ()
    """OpenAI function tools; none are offered where it is empty."""
    max_tokens: int | None = None
    """The longest completion; None: the server's own limit."""
    without: frozenset[str] = frozenset()
    """Names of what the server has refused, and what is left out or renamed for that."""

    @property
    def conversation(self) -> list[dict[str, Any]]:
        """The messages, such that they can be sent as UTF-8; replies may hold half a surrogate pair."""
        return [_sendable(message) for message in self.messages]

    @property
    def temperature(self) -> float | None:
        """None: none is sent."""
        return None if "temperature" in self.without else self.settings.temperature


@dataclass(frozen=True)
class Answer:
    """What a body says; counts are None where the server gave none."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolRequest, ...] = ()
    came_with: Mapping[str, Any] = field(default_factory=dict)
    """What the API wants to see again with this reply, in a form of its own."""
    sampled: Mapping[str, Any] = field(default_factory=dict)
    """See `Reply.sampled`."""
    id: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of the prompt that the server had in its cache."""
    cache_written_tokens: int | None = None
    """The part of the prompt that the server has put into its cache for this reply."""
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    """What the server says it charges."""


@dataclass(frozen=True)
class Failed:
    """A body without an answer."""

    said: Said


def no_echoes(messages: Messages) -> set[str]:  # noqa: ARG001
    """Of an API to which what a reply came with goes back as it is, or not at all."""
    return set()


@dataclass(frozen=True)
class Api:
    """One API.

    Attributes:
        path: below the base URL.
        what: what it answers with, in messages.
        connect: makes the library's client of: base URL, key ("": none), and how its HTTP client is made.
        send: sends a body through that client, with the longest wait for the end of the reply, in seconds; raises
            `Lost` where no reply comes.
        body: makes a request's body.
        read: reads a reply's body.
        echoes: the names in a conversation that are sent only because a reply came with them, and can be left out one
            by one.
        optional: names of what is sent without anybody having asked for it, and may be left out or lessened.
    """

    path: str
    what: str
    connect: Callable[[str, str, Http], Any]
    send: Callable[[Any, Mapping[str, Any], float], Received]
    body: Callable[[Request], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], Answer | Failed | None]
    echoes: Callable[[Messages], set[str]] = no_echoes
    optional: frozenset[str] = frozenset()


def no_list(data: Mapping[str, Any], name: str, *, end: str = "") -> Failed | None:
    """What a body without its list of this name is: a failure, or no body of this API (None)."""
    error = data.get("error")
    if name not in data and not isinstance(error, dict | list):
        return None
    return failure(end, error, otherwise=f"a reply without {name}")


def failure(end: str, *errors: object, otherwise: str = "") -> Failed | None:
    """What a body says of a failure; None if it says nothing of the kind.

    Args:
        end: how the server says the reply ended.
        errors: error objects; empty ones say nothing.
        otherwise: what is wrong with a body that has neither, or "".
    """
    for said in (said_in(error) for error in errors if error):
        if said.message or said.code:
            return Failed(said if said.message else Said("an error", said.code, said.kind))
    if end.lower() in _FAILED_ENDS:
        return Failed(Said(f"the reply ended with {end!r}"))
    return Failed(Said(otherwise)) if otherwise else None


def end_of(reason: object) -> str:
    """Why a reply ended, in the words of chat completions where they are known; some servers send an object."""
    word = text_of(reason) or text_of(mapping(reason).get("type"))
    return _ENDS.get(word.lower(), word)


def requests(calls: Iterable[tuple[object, Mapping[str, Any]]]) -> tuple[ToolRequest, ...]:
    """Tool calls from ids and functions; the same id may stand twice (`replies.with_own_ids`)."""
    made: list[ToolRequest] = []
    for number, (call_id, function) in enumerate(calls):
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers send the object itself, or nothing
            arguments = "" if arguments is None else json.dumps(arguments)
        name = text_of(function.get("name"))
        made.append(ToolRequest(text_of(call_id) or f"call{number:05d}", name, arguments))
    return tuple(made)


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {key: _sendable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_sendable(each) for each in value]
    return value
