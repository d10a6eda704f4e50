"""Google's Gemini API, through its own library (the extra ``google``).

Parts of a reply go back as they came, with their thought signatures, in their order: the server refuses a function
call that has lost its signature. All answers to one reply's calls go back in one turn, as many as there were calls.

The server caches what prompts begin with by itself, and says how much of a prompt it had. A reasoning effort that is
a number is a budget of tokens to think with, any other word a level by its name.
Not covered: Vertex AI, images, tools that run at the server, caches made by hand.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rcb_agents.apis.fields import count, given, mapping, mappings, text_of
from rcb_agents.apis.forms import Answer, Api, Failed, Messages, Request, end_of, failure, requests
from rcb_agents.apis.sending import Http, Lost, Received, library
from rcb_agents.replies import CAME_WITH

# Ends that leave nothing to judge a model by.
_NO_END = ("", "other", "finish_reason_unspecified")


def _connect(base_url: str, key: str, http: Http) -> Any:
    library("google.genai", "Google")
    import openai
    from google import genai

    # The library takes the HTTP client of either generation, so it is the one that OpenAI's library brings.
    options = genai.types.HttpOptions(
        base_url=base_url,
        api_version="",
        httpx_client=http(openai.DefaultHttpxClient),
    )
    return genai.Client(api_key=key or "none", vertexai=False, http_options=options)


def _send(client: Any, body: Mapping[str, Any], longest_s: float) -> Received:
    import openai
    from google.genai import errors, types

    # Versions of the library bring different HTTP libraries: this is the one at work.
    http = sys.modules[openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]
    sent = {name: value for name, value in body.items() if name != "model"}
    config = types.GenerateContentConfig(
        # The reply as it came: the library's own form of it drops what it does not know.
        should_return_http_response=True,
        http_options=types.HttpOptions(extra_body=sent, timeout=math.ceil(longest_s * 1000)),
    )
    try:
        raw = client.models.generate_content(model=body["model"], contents="-", config=config)
    except errors.APIError as error:
        refusal: Any = error.response  # of the HTTP library, as the client is
        return Received(error.code, refusal.headers, refusal.text)
    except http.TimeoutException as error:
        raise Lost(timed_out=True) from error
    except (http.HTTPError, ValueError, RecursionError) as error:
        # The library reads the body of a refusal, which may be anything.
        raise Lost(str(error) or type(error).__name__) from error
    received = raw.sdk_http_response
    return Received(200, received.headers or {}, received.body or "")


def _body(request: Request) -> dict[str, Any]:
    effort = request.settings.reasoning_effort
    thinking: dict[str, Any] = {}
    if effort is not None:
        how = {"thinkingBudget": int(effort)} if effort.isdecimal() else {"thinkingLevel": effort}
        thinking = {"thinkingConfig": {**how, "includeThoughts": True}}
    wanted = {
        "temperature": request.temperature,
        "maxOutputTokens": request.max_tokens,
    }
    system = [
        {"text": str(each["content"])} for each in request.messages if each["role"] == "system"
    ]
    functions = [
        {
            "name": tool["function"]["name"],
            "description": tool["function"].get("description", ""),
            "parametersJsonSchema": tool["function"]["parameters"],
        }
        for tool in request.tools
    ]
    return {
        "model": request.model,  # part of the address, where it is sent
        "contents": _turns(request.conversation),
        "generationConfig": {**given(wanted), **thinking},
        **({"systemInstruction": {"parts": system}} if system else {}),
        **({"tools": [{"functionDeclarations": functions}]} if functions else {}),
    }


def _turns(messages: Messages) -> list[dict[str, Any]]:
    """The conversation with one content a turn."""
    turns: list[dict[str, Any]] = []
    called: dict[str, dict[str, Any]] = {}  # by our id, what an answer says of its call
    for message in messages:
        if message["role"] == "system":
            continue
        if message["role"] == "assistant":
            parts = list(_said(message, called))
        elif message["role"] == "tool":
            answer = {**called[message["tool_call_id"]], "response": {"output": message["content"]}}
            parts = [{"functionResponse": answer}]
        else:
            parts = [{"text": message["content"]}]
        role = "model" if message["role"] == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        else:
            turns.append({"role": role, "parts": parts})
    return turns


def _said(
    message: Mapping[str, Any], called: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The parts of a reply; its calls are noted."""
    calls = iter(message.get("tool_calls", ()))
    came = mapping(message.get(CAME_WITH)).get("parts", ())
    if not came:
        came = [
            *([{"text": message["content"]}] if message.get("content") else []),
            *({"functionCall": {}} for _ in message.get("tool_calls", ())),
        ]
    for part in came:
        if "functionCall" not in part:
            yield part
            continue
        call = next(calls)
        # Servers that give no ids want none.
        named = {"id": call["id"]} if "id" in part["functionCall"] else {}
        called[call["id"]] = {**named, "name": call["function"]["name"]}
        args = json.loads(call["function"]["arguments"])
        yield {**part, "functionCall": {**called[call["id"]], "args": args}}


def _read(data: Mapping[str, Any]) -> Answer | Failed | None:
    candidates, error, feedback = data.get("candidates"), data.get("error"), "promptFeedback"
    blocked = text_of(mapping(data.get(feedback)).get("blockReason"))
    if not (isinstance(candidates, list) and candidates):
        if not blocked:
            if {"candidates", feedback, "usageMetadata"}.isdisjoint(data) and not isinstance(
                error, dict | list
            ):
                return None
            return failure("", error, otherwise="a reply without candidates")
        candidates = []
    first = mapping(candidates[0]) if candidates else {}
    parts = mappings(mapping(first.get("content")).get("parts"))
    why = text_of(first.get("finishReason")).lower()
    nothing = "a reply without content" if not (parts or blocked) and why in _NO_END else ""
    failed = failure(why, error, otherwise=nothing)
    if failed is not None:
        return failed
    asked = [mapping(part["functionCall"]) for part in parts if "functionCall" in part]
    calls = requests(
        (each.get("id"), {"name": each.get("name"), "arguments": each.get("args", {})})
        for each in asked
    )
    end = "content_filter" if blocked else end_of(why)
    counts = mapping(data.get("usageMetadata"))
    thought = count(counts.get("thoughtsTokenCount"))
    made = count(counts.get("candidatesTokenCount"))
    return Answer(
        text=_text(parts, thought=False),
        reasoning=_text(parts, thought=True),
        finish_reason=("tool_calls" if calls and end == "stop" else end) or None,
        refusal=f"the prompt was blocked: {blocked}" if blocked else None,
        tool_calls=calls,
        came_with=_came_with(parts),
        id=text_of(data.get("responseId")) or None,
        prompt_tokens=count(counts.get("promptTokenCount")),
        cached_tokens=count(counts.get("cachedContentTokenCount")),
        # Nothing is said of a reply in which all tokens went into thoughts.
        completion_tokens=None
        if made is None and thought is None
        else (made or 0) + (thought or 0),
        reasoning_tokens=thought,
    )


def _text(parts: Sequence[Mapping[str, Any]], *, thought: bool) -> str:
    return "".join(
        text_of(part.get("text")) for part in parts if (part.get("thought") is True) is thought
    )


def _came_with(parts: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The parts that go back, in their order; none where text and calls say it all."""
    kept = [
        {**part, "functionCall": mapping(part["functionCall"])}
        if "functionCall" in part
        else dict(part)
        for part in parts
        if part.get("thoughtSignature")
        or "functionCall" in part
        or (text_of(part.get("text")).strip() and part.get("thought") is not True)
    ]
    told = any("thoughtSignature" in part or "functionCall" in part for part in kept)
    return {"parts": kept} if told else {}


GOOGLE = Api("/models", "reply", _connect, _send, _body, _read)
