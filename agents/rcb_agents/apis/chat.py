"""Chat completions, as OpenAI's API has them and most servers imitate them.

Whatever came with a tool call goes back with it, untouched: thought signatures, reasoning in any of its fields, parts
of the content. Many servers refuse a tool loop without it, and only they know what it means. Nothing of that is sent
back with a reply that called no tool, as some servers refuse it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rcb_agents.apis import openai
from rcb_agents.apis.fields import count, given, mapping, mappings, text_of, usd, whole_numbers
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
from rcb_agents.replies import CAME_WITH, SHARED

# What we say ourselves of a reply, and what servers add for the reader only.
_OURS = frozenset(("role", "content", "tool_calls", "function_call", "refusal"))
_FOR_READERS = frozenset(("annotations", "audio", "logprobs", "token_ids", "citations", "images"))


def _body(request: Request) -> dict[str, Any]:
    limit = "max_completion_tokens" if "max_tokens" in request.without else "max_tokens"
    wanted = {
        "temperature": request.temperature,
        limit: request.max_tokens,
        "reasoning_effort": request.settings.reasoning_effort,
        "tools": list(request.tools) or None,
        "logprobs": request.settings.token_ids or None,
        "return_token_ids": request.settings.token_ids or None,  # vLLM's name
    }
    sent = [_message(message, request.without) for message in request.conversation]
    return {"model": request.model, "messages": sent, **given(wanted)}


def _message(message: dict[str, Any], without: frozenset[str]) -> dict[str, Any]:
    came = message.pop(CAME_WITH, {})
    message.pop(SHARED, None)
    if not (came and message.get("tool_calls")):
        return message
    fields = {name: value for name, value in came["message"].items() if name not in without}
    message["tool_calls"] = [
        {
            **{name: value for name, value in more.items() if name not in without},
            **call,
            "function": {**more.get("function", {}), **call["function"]},
        }
        for call, more in zip(message["tool_calls"], came["calls"], strict=True)
    ]
    return {**fields, **message, **({"content": fields["content"]} if "content" in fields else {})}


def _echoes(messages: Messages) -> set[str]:
    came = [message[CAME_WITH] for message in messages if message.get(CAME_WITH)]
    return {
        name
        for each in came
        for fields in (each["message"], *each["calls"])
        for name in fields
        if name not in ("content", "function")
    }


def _read(data: Mapping[str, Any]) -> Answer | Failed | None:
    error, choices = data.get("error"), data.get("choices")
    if not (isinstance(choices, list) and choices):
        return no_list(data, "choices")
    choice = mapping(choices[0])
    message = choice.get("message")
    end = end_of(choice.get("finish_reason"))
    none = "" if isinstance(message, dict) else "a reply without a message"
    failed = failure(end, error, choice.get("error"), mapping(message).get("error"), otherwise=none)
    if failed is not None:
        return failed
    message = mapping(message)
    calls = mappings(message.get("tool_calls"))
    counts = mapping(data.get("usage"))
    made = mapping(counts.get("completion_tokens_details"))
    sent = mapping(counts.get("prompt_tokens_details"))
    return Answer(
        text=text_of(message.get("content")),
        reasoning=_reasoning(message),
        finish_reason=end or None,
        refusal=text_of(message.get("refusal")) or None,
        tool_calls=requests((call.get("id"), mapping(call.get("function"))) for call in calls),
        came_with=_came_with(message, calls) if calls else {},
        sampled=_sampled(data, choice),
        id=text_of(data.get("id")) or None,
        prompt_tokens=count(counts.get("prompt_tokens")),
        cached_tokens=count(
            sent.get("cached_tokens"),
            counts.get("prompt_cache_hit_tokens"),  # DeepSeek's name for it
            counts.get("cached_tokens"),  # Kimi's
        ),
        completion_tokens=count(counts.get("completion_tokens")),
        reasoning_tokens=count(made.get("reasoning_tokens")),
        cost_usd=_cost(counts),
    )


def _sampled(data: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens that the model read and wrote, as vLLM gives them."""
    ids = whole_numbers(choice.get("token_ids"))
    if not ids:
        return {}
    listed = [
        each.get("logprob") for each in mappings(mapping(choice.get("logprobs")).get("content"))
    ]
    logprobs = [each for each in listed if isinstance(each, float | int)]
    return {
        "prompt_ids": whole_numbers(data.get("prompt_token_ids")),
        "ids": ids,
        "logprobs": [float(each) for each in logprobs] if len(logprobs) == len(ids) else [],
    }


def _reasoning(message: Mapping[str, Any]) -> str:
    named = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    parts = mappings(message.get("content"))
    return named or "".join(text_of(part.get("thinking")) for part in parts)


def _came_with(
    message: Mapping[str, Any], calls: list[Mapping[str, Any]]
) -> dict[str, dict[str, Any] | list[dict[str, Any]]]:
    """What stands beside the text and the calls of a message, by its place."""
    fields = {
        name: value
        for name, value in message.items()
        if name not in _OURS | _FOR_READERS
        # DeepSeek misses reasoning also where it is empty.
        and (value not in (None, "", [], {}) or (name, value) == ("reasoning_content", ""))
    }
    content = message.get("content")
    if any(part.get("type") != "text" or len(part) > 2 for part in mappings(content)):
        fields["content"] = content
    more: list[dict[str, Any]] = []
    for call in calls:
        extra = {name: call[name] for name in call.keys() - {"id", "type", "index", "function"}}
        function = mapping(call.get("function"))
        inside = {name: function[name] for name in function.keys() - {"name", "arguments"}}
        more.append(given({**extra, "function": given(inside) or None}))
    return {"message": fields, "calls": more} if fields or any(more) else {}


def _cost(counts: Mapping[str, Any]) -> float | None:
    """What the server charges; with a key of one's own at the provider behind it, what that one charges too."""
    cost = usd(counts.get("cost"))
    if cost is not None and counts.get("is_byok") is True:
        behind = usd(mapping(counts.get("cost_details")).get("upstream_inference_cost"))
        return None if behind is None else cost + behind
    return cost


CHAT = Api(
    "/chat/completions", "chat completion", openai.connect, openai.chat, _body, _read, _echoes
)
