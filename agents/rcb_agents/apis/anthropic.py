"""Anthropic's messages API, through its own library (the extra ``anthropic``).

What the model thought goes back as it came, signed, in front of the calls it led to: the server refuses a tool loop
without it. All answers to one reply's calls go back in one message, in front of any words.

What many prompts begin with, such as the whole paper, is marked for the server's cache, and so is the end of a
conversation that goes on. Writing to that cache costs more than an ordinary token, reading a tenth of one.

The API wants a limit for every reply: `LONGEST` tokens where the settings give none, and no more than `SAFE` once a
model has refused the limit. A reasoning effort that is a number is a budget of tokens to think with, any other word an
effort by its name.
Not covered: images, tools that run at the server, caches that last longer than five minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rcb_agents.apis.fields import count, given, mapping, mappings, text_of
from rcb_agents.apis.forms import (
    Answer,
    Api,
    Failed,
    Messages,
    Request,
    end_of,
    failure,
    no_list,
    requests,
)
from rcb_agents.apis.sending import Http, Received, library, through
from rcb_agents.replies import CAME_WITH, SHARED

LONGEST = 16_000
SAFE = 8_192

_CACHE = {"cache_control": {"type": "ephemeral"}}
_THOUGHT = ("thinking", "redacted_thinking")
_ENDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def _connect(base_url: str, key: str, http: Http) -> Any:
    anthropic = library("anthropic", "Anthropic")
    return anthropic.Anthropic(
        base_url=base_url,
        api_key=key or "none",
        max_retries=0,
        http_client=http(anthropic.DefaultHttpxClient),
    )


def _send(client: Any, body: Mapping[str, Any], longest_s: float) -> Received:
    anthropic = library("anthropic", "Anthropic")
    create = client.messages.with_raw_response.create
    needed = {"model": body["model"], "max_tokens": 1, "messages": []}  # the body takes their place
    return through(anthropic, lambda: create(**needed, extra_body=body, timeout=longest_s))


def _body(request: Request) -> dict[str, Any]:
    effort = request.settings.reasoning_effort
    longest = request.max_tokens or LONGEST
    thinking: dict[str, Any] = {}
    if effort is not None and effort.isdecimal():
        thinking["thinking"] = {"type": "enabled", "budget_tokens": int(effort)}
        longest = request.max_tokens or LONGEST + int(effort)  # what is thought counts
    elif effort is not None:
        thinking = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    turns = _turns(request.conversation)
    if request.tools or len(turns) > 1:
        turns[-1]["content"][-1] |= _CACHE
    system = [str(each["content"]) for each in request.messages if each["role"] == "system"]
    wanted = {
        "system": "\n\n".join(system) or None,
        "temperature": request.temperature,
        "tools": [_tool(each["function"]) for each in request.tools] or None,
    }
    return {
        "model": request.model,
        "max_tokens": min(longest, SAFE) if "max_tokens" in request.without else longest,
        "messages": turns,
        **thinking,
        **given(wanted),
    }


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function["parameters"],
    }


def _turns(messages: Messages) -> list[dict[str, Any]]:
    """The conversation with one message a turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            continue
        blocks = _blocks(message)
        role = "assistant" if message["role"] == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    text = message.get("content") or ""
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}]
    if message["role"] == "user":
        cut = message.get(SHARED, 0)
        first = [{"type": "text", "text": text[:cut], **_CACHE}] if cut else []
        rest = [{"type": "text", "text": text[cut:]}] if text[cut:] or not first else []
        return [*first, *rest]
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls", ())
    ]
    came = mapping(message.get(CAME_WITH)).get("content", ())
    if not came:
        return [*([{"type": "text", "text": text}] if text else []), *calls]
    ours = iter(calls)
    return [{**block, **next(ours)} if block["type"] == "tool_use" else block for block in came]


def _read(data: Mapping[str, Any]) -> Answer | Failed | None:
    content, error = data.get("content"), data.get("error")
    if not isinstance(content, list):
        return no_list(data, "content")
    blocks = mappings(content)
    why = text_of(data.get("stop_reason"))
    nothing = "a reply without content" if not (blocks or why) else ""
    failed = failure(why, error, otherwise=nothing)
    if failed is not None:
        return failed
    text = "".join(text_of(each.get("text")) for each in blocks if each.get("type") == "text")
    calls = requests(
        (each.get("id"), {"name": each.get("name"), "arguments": each.get("input")})
        for each in blocks
        if each.get("type") == "tool_use"
    )
    counts = mapping(data.get("usage"))
    fresh = count(counts.get("input_tokens"))
    written = count(counts.get("cache_creation_input_tokens"))
    cached = count(counts.get("cache_read_input_tokens"))
    return Answer(
        text=text,
        reasoning="".join(text_of(each.get("thinking")) for each in blocks),
        finish_reason=_ENDS.get(why) or end_of(why) or None,
        refusal=(text or "the model refused to answer") if why == "refusal" else None,
        tool_calls=calls,
        came_with=_came_with(blocks),
        id=text_of(data.get("id")) or None,
        # The three are apart here, and all of them are the prompt.
        prompt_tokens=None if fresh is None else fresh + (written or 0) + (cached or 0),
        cached_tokens=cached,
        cache_written_tokens=written,
        completion_tokens=count(counts.get("output_tokens")),
        reasoning_tokens=count(mapping(counts.get("output_tokens_details")).get("thinking_tokens")),
    )


def _came_with(blocks: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The blocks that go back, in their order; none where text and calls say it all."""
    kept = [
        dict(block)
        for block in blocks
        if block.get("type") in (*_THOUGHT, "tool_use")
        or (block.get("type") == "text" and text_of(block.get("text")).strip())
    ]
    while kept and kept[-1]["type"] in _THOUGHT:  # nothing followed, as after a reply cut off
        kept.pop()
    return {"content": kept} if any(block["type"] in _THOUGHT for block in kept) else {}


ANTHROPIC = Api(
    "/v1/messages",
    "message",
    _connect,
    _send,
    _body,
    _read,
    optional=frozenset(("max_tokens",)),
)
