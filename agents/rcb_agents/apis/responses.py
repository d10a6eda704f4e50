"""OpenAI's responses API. Nothing is stored at the server.

A reply's items (reasoning, messages, calls) go back in the order in which they came. Reasoning goes back only sealed,
and only with the item that follows it in the same reply: the server refuses a conversation in which that is missing,
as after a reply that was cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rcb_agents.apis import openai
from rcb_agents.apis.fields import count, given, mapping, mappings, text_of, usd
from rcb_agents.apis.forms import Answer, Api, Failed, Request, end_of, failure, no_list, requests
from rcb_agents.replies import CAME_WITH, ToolRequest

# Of an item that goes back: without them the server does not look for its neighbours in what it stored.
_NOT_SENT = frozenset(("id", "status"))


def _body(request: Request) -> dict[str, Any]:
    effort = request.settings.reasoning_effort
    wanted = {
        "temperature": request.temperature,
        "max_output_tokens": request.max_tokens,
        "reasoning": {"effort": effort} if effort is not None else None,
        # The type beside the function's fields, not around them as in chat completions.
        "tools": [{"type": "function", **tool["function"]} for tool in request.tools] or None,
    }
    return {
        "model": request.model,
        "input": [
            item for message in request.conversation for item in _items(message, request.without)
        ],
        "store": False,
        # Nothing is stored there, so what the model thought comes along, sealed, and goes back with its calls.
        **({} if "include" in request.without else {"include": ["reasoning.encrypted_content"]}),
        **given(wanted),
    }


def _items(message: Mapping[str, Any], without: frozenset[str]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        return [{"type": "function_call_output", **output}]
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in message.get("tool_calls", ())
    ]
    came = mapping(message.get(CAME_WITH)).get("items", ())
    if not came:
        said = {"role": message["role"], "content": message["content"]}
        return [*([said] if message.get("content") else []), *calls]
    rest = iter(calls)
    items: list[dict[str, Any]] = []
    for item in came:
        kept = {name: value for name, value in item.items() if name not in without}
        items.append({**kept, **next(rest)} if item["type"] == "function_call" else kept)
    return items


def _read(data: Mapping[str, Any]) -> Answer | Failed | None:
    output, error = data.get("output"), data.get("error")
    status = text_of(data.get("status"))
    if not isinstance(output, list):
        return no_list(data, "output", end=status)
    items = mappings(output)
    nothing = "a reply without output" if not items and status == "completed" else ""
    failed = failure(status, error, otherwise=nothing)
    if failed is not None:
        return failed
    spoken = [part for item in items if item.get("type") == "message" for part in _parts(item)]
    calls = requests(
        (item.get("call_id"), item) for item in items if item.get("type") == "function_call"
    )
    counts = mapping(data.get("usage"))
    return Answer(
        text="".join(text_of(part.get("text")) for part in spoken),
        reasoning="".join(
            text_of(item.get("summary")) or text_of(item.get("content"))
            for item in items
            if item.get("type") == "reasoning"
        ),
        finish_reason=_finish_of(data, calls),
        refusal="".join(text_of(part.get("refusal")) for part in spoken) or None,
        tool_calls=calls,
        came_with=_came_with(items),
        id=text_of(data.get("id")) or None,
        prompt_tokens=count(counts.get("input_tokens")),
        cached_tokens=count(mapping(counts.get("input_tokens_details")).get("cached_tokens")),
        completion_tokens=count(counts.get("output_tokens")),
        reasoning_tokens=count(
            mapping(counts.get("output_tokens_details")).get("reasoning_tokens")
        ),
        cost_usd=usd(counts.get("cost")),
    )


def _parts(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(item.get("content"))


def _came_with(items: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The items that go back, in their order; none where text and calls say it all."""
    kept: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []  # reasoning whose next item has not come yet
    for item in items:
        kind = item.get("type")
        if kind == "reasoning":
            waiting = [*waiting, dict(item)] if item.get("encrypted_content") else []
        elif kind == "function_call" or (kind == "message" and _is_said(item)):
            named = {name: value for name, value in item.items() if name not in _NOT_SENT}
            kept += [*waiting, {"role": "assistant", **named} if kind == "message" else named]
            waiting = []
    return {"items": kept} if len(kept) > 1 else {}


def _is_said(item: Mapping[str, Any]) -> bool:
    return any(text_of(part.get("text")).strip() for part in _parts(item))


def _finish_of(data: Mapping[str, Any], calls: Sequence[ToolRequest]) -> str:
    """The end of a response in the words of chat completions."""
    if data.get("status") == "incomplete":
        reason = text_of(mapping(data.get("incomplete_details")).get("reason"))
        return "length" if reason in ("", "max_output_tokens") else end_of(reason)
    return "tool_calls" if calls else "stop"


RESPONSES = Api(
    "/responses",
    "response",
    openai.connect,
    openai.responses,
    _body,
    _read,
    optional=frozenset(("include",)),
)
