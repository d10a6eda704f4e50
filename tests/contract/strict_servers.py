"""What providers refuse in a conversation with tools, by their public documentation, as a 400 in their own words.

`refusal_of` tells of a request whether the real server would take it. It is stricter than most: whatever a
conversation holds beyond what its provider documents is refused.
Not covered: what depends on the model or the account, and the forms of images, files and tools that run at a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Body = Mapping[str, Any]

_CHAT = {
    *("model", "messages", "tools", "tool_choice", "temperature", "max_tokens"),
    *("max_completion_tokens", "reasoning_effort"),
}
_CHAT_MESSAGES = {
    "user": {"role", "content"},
    "system": {"role", "content"},
    "tool": {"role", "content", "tool_call_id"},
    "assistant": {"role", "content", "tool_calls"},
}
_CHAT_CALLS = {"id", "type", "function"}
_REASONING: Mapping[str, set[str]] = {  # what each takes back beside the common fields
    "openai": set(),
    "xai": {"reasoning_content"},
    "deepseek": {"reasoning_content"},
    "openrouter": {"reasoning", "reasoning_details"},
}


def refusal_of(provider: str, request: Body, replies: Iterable[Body]) -> str:
    """What the provider's server says against a request; "" for nothing.

    Args:
        provider: as a conversation's file is named.
        request: path, headers in small letters, and body.
        replies: the bodies that the server has answered with so far.
    """
    body = request["body"]
    if provider == "anthropic":
        return _key(request, "x-api-key") or _messages(body, list(replies))
    if provider == "google":
        return _key(request, "x-goog-api-key") or _contents(body, list(replies))
    if not request["headers"].get("authorization", "").startswith("Bearer "):
        return "You didn't provide an API key."
    if provider == "openai-responses":
        return _items(body, list(replies))
    return _chat(provider, body, list(replies))


def _key(request: Body, header: str) -> str:
    # Anthropic takes a key as a bearer's too, and versions of its library differ.
    sent = request["headers"].get(header) or request["headers"].get("authorization")
    return "" if sent else "Method doesn't allow unregistered callers."


def _beyond(given: Iterable[str], known: set[str]) -> str:
    return next(iter(sorted(set(given) - known)), "")


# --- chat completions -------------------------------------------------------------------------


def _chat(provider: str, body: Body, replies: list[Body]) -> str:
    if name := _beyond(body, _CHAT):
        return f"Unrecognized request argument supplied: {name}"
    if provider == "openai":  # its models that reason
        if "max_tokens" in body:
            return "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        if body.get("temperature", 1) != 1:
            return "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
    said = {
        each["id"]: choice["message"]
        for reply in replies
        for choice in reply.get("choices", ())
        for each in choice["message"].get("tool_calls") or ()
    }
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        known = _CHAT_MESSAGES[message["role"]]
        known = known | (_REASONING[provider] if message["role"] == "assistant" else set())
        if name := _beyond(message, known):
            return f"Additional properties are not allowed ('{name}' was unexpected) - 'messages.{number}'"
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. {waiting}"
        calls = message.get("tool_calls") or []
        if not calls and not (message.get("content") or "").strip():
            return f"messages.{number}: content must not be empty"
        for call in calls:
            if name := _beyond(call, _CHAT_CALLS | ({"index"} if provider != "openai" else set())):
                return f"Additional properties are not allowed ('{name}' was unexpected)"
            origin = said[call["id"]]
            for field in _REASONING[provider]:
                if origin.get(field) is not None and message.get(field) != origin[field]:
                    return f"Missing `{field}` field in the assistant message at message index {number}"
        waiting = [call["id"] for call in calls]
    return (
        f"An assistant message with 'tool_calls' must be followed by {waiting}" if waiting else ""
    )


# --- responses --------------------------------------------------------------------------------

_RESPONSE = {
    *("model", "input", "store", "include", "tools", "temperature", "max_output_tokens"),
    "reasoning",
}


def _items(body: Body, replies: list[Body]) -> str:
    if name := _beyond(body, _RESPONSE):
        return f"Unknown parameter: '{name}'."
    if body.get("temperature", 1) != 1:
        return "Unsupported parameter: 'temperature' is not supported with this model."
    before = {}  # the sealed thought that stood in front of a call
    for reply in replies:
        thought = None
        for item in reply.get("output", ()):
            if item["type"] == "reasoning":
                thought = item["encrypted_content"]
            elif item["type"] == "function_call":
                before[item["call_id"]], thought = thought, None
            else:
                before[str(item["content"])], thought = thought, None
    thought, called, answered = None, set(), set()
    for number, item in enumerate(body["input"]):
        kind = item.get("type", "message")
        if kind == "reasoning":
            thought = item["encrypted_content"]
        elif kind == "function_call_output":
            if item["call_id"] not in called:
                return (
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            answered.add(item["call_id"])
        else:
            own = item["call_id"] if kind == "function_call" else str(item.get("content"))
            if before.get(own) != thought:
                return f"Item {number} of type '{kind}' was provided without its required 'reasoning' item."
            thought = None
            called |= {own} if kind == "function_call" else set()
    if thought:
        return "Item of type 'reasoning' was provided without its required following item."
    if called - answered:
        return f"No tool output found for function call {sorted(called - answered)[0]}."
    return ""


# --- Anthropic's messages ---------------------------------------------------------------------

_MESSAGES = {
    *("model", "messages", "max_tokens", "system", "tools", "temperature", "thinking"),
    "output_config",
}
_BLOCKS = {
    "text": {"type", "text", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}


def _messages(body: Body, replies: list[Body]) -> str:
    if "max_tokens" not in body:
        return "max_tokens: Field required"
    if name := _beyond(body, _MESSAGES):
        return f"{name}: Extra inputs are not permitted"
    thinks = "thinking" in body
    if thinks and body.get("temperature", 1) != 1:
        return "`temperature` may only be set to 1 when thinking is enabled."
    if thinks and body["max_tokens"] <= body["thinking"].get("budget_tokens", 0):
        return "`max_tokens` must be greater than `thinking.budget_tokens`."
    for tool in body.get("tools", ()):
        if name := _beyond(tool, {"name", "description", "input_schema", "cache_control"}):
            return f"tools.0.custom.{name}: Extra inputs are not permitted"
    said = {
        block["id"]: reply["content"]
        for reply in replies
        for block in reply.get("content", ())
        if block["type"] == "tool_use"
    }
    marks, role, waiting = 0, "assistant", set[str]()
    for number, message in enumerate(body["messages"]):
        if message["role"] == role:
            return 'messages: roles must alternate between "user" and "assistant"'
        role, blocks = message["role"], message["content"]
        answers = []
        for place, block in enumerate(blocks):
            where = f"messages.{number}.content.{place}"
            if name := _beyond(block, _BLOCKS[block["type"]]):
                return f"{where}.{block['type']}.{name}: Extra inputs are not permitted"
            marks += "cache_control" in block
            if block["type"] == "text" and not block["text"].strip():
                return f"{where}: text content blocks must be non-empty"
            if block["type"] == "tool_result":
                if place and blocks[place - 1]["type"] != "tool_result":
                    return f"{where}: `tool_result` blocks have to come first"
                answers.append(block["tool_use_id"])
        if waiting - {*answers}:
            return f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {sorted(waiting)}"
        if {*answers} - waiting:
            return f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
        if blocks[-1]["type"] == "thinking":
            return (
                f"messages.{number}: The final block in an assistant message cannot be `thinking`."
            )
        for call in waiting:
            thought = [each for each in said[call] if each["type"].endswith("thinking")]
            if thinks and thought != blocks[: len(thought)]:
                return f"messages.{number}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
    if marks > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    return f"`tool_use` ids were found without `tool_result` blocks: {waiting}" if waiting else ""


# --- Google's contents ------------------------------------------------------------------------

_CONTENTS = {"contents", "generationConfig", "systemInstruction", "tools", "toolConfig"}
_PARTS = {"text", "thought", "thoughtSignature", "functionCall", "functionResponse"}


def _contents(body: Body, replies: list[Body]) -> str:
    unknown = "Invalid JSON payload received. Unknown name \"{}\" at '{}': Cannot find field."
    if name := _beyond(body, _CONTENTS):
        return unknown.format(name, "")
    said = [
        part
        for reply in replies
        for candidate in reply.get("candidates", ())
        for part in candidate["content"].get("parts", ())
        if "functionCall" in part
    ]
    role, waiting = "model", list[tuple[str, object]]()
    for number, content in enumerate(body["contents"]):
        if content["role"] == role:
            return "Please ensure that multiturn requests alternate between user and model."
        role = content["role"]
        calls, answers = [], []
        for place, part in enumerate(content["parts"]):
            where = f"contents[{number}].parts[{place}]"
            if name := _beyond(part, _PARTS):
                return unknown.format(name, where)
            if call := part.get("functionCall"):
                calls.append((call["name"], call.get("id")))
                origin = said.pop(0)
                if origin.get("thoughtSignature") != part.get("thoughtSignature"):
                    return f"Function call is missing a thought_signature in functionCall parts. Function call `default_api:{call['name']}`, position {place}."
            if answer := part.get("functionResponse"):
                if name := _beyond(answer, {"id", "name", "response"}):
                    return unknown.format(name, where)
                answers.append((answer["name"], answer.get("id")))
        if answers != waiting:
            return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
        waiting = calls
    return "Please ensure that function call turn comes before a response." if waiting else ""
