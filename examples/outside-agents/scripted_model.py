"""A model for trying agents without one: it knows the solution, and does one edit and one end.

    python examples/outside-agents/scripted_model.py DyT/forward

Prints its address and serves until it is interrupted. An agent that offers a shell as a tool is
asked to run the edit; one that offers none is answered with the edit as text, as aider reads it.

Guarantees: four protocols, each with streaming and without: OpenAI's chat completions and
responses, Anthropic's messages, Gemini's generateContent. A key that is not ``KEY`` is refused as
the protocol does it. Each reply takes 100 tokens of prompt and 20 of completion.
Not covered: everything else that these protocols have.
"""

from __future__ import annotations

import http.server
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rcb_env import load_dataset

KEY = "scripted"
PROMPT_TOKENS, COMPLETION_TOKENS = 100, 20

_EDIT = """\
python3 - <<'EOF'
import pathlib
path = pathlib.Path({file!r})
path.write_text(path.read_text().replace({todo!r}, {code!r}))
EOF"""
_BLOCK = """\
{file}
```python
<<<<<<< SEARCH
{todo}=======
{code}>>>>>>> REPLACE
```
"""
# mini-swe-agent ends with this command, and its prompt says so.
_LAST_COMMAND = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of one of the agent's tools."""

    name: str
    arguments: Json


Reply = Call | str


@dataclass(frozen=True)
class Script:
    """What the model says about one challenge."""

    command: str
    """Makes the edit, in a shell."""
    block: str
    """The edit as text."""

    @classmethod
    def of(cls, challenge_id: str) -> Script:
        """The script that solves a challenge."""
        challenge = load_dataset().challenge(challenge_id)
        todo = challenge.masked().placeholder
        edit = {"file": challenge.file, "todo": todo, "code": challenge.reference}
        return cls(_EDIT.format(**edit), _BLOCK.format(**edit))

    def reply(self, tools: Mapping[str, Json], results: int, request: str) -> Reply:
        """The reply to a request that offers these tools and holds so many results of tools."""
        if not tools:
            return self.block
        if results == 0:
            return _shell_call(tools, self.command)
        if results == 1 and _LAST_COMMAND in request:
            return _shell_call(tools, _LAST_COMMAND)
        return "The missing part is written."


def _shell_call(tools: Mapping[str, Json], command: str) -> Reply:
    """A call of the tool that runs shell commands, with all the arguments that it requires."""
    for name, schema in tools.items():
        properties: Json = schema.get("properties") or {}
        found = next((each for each in ("command", "cmd") if each in properties), None)
        if found:
            required = schema.get("required") or []
            arguments = {each: _any_value(properties[each]) for each in required}
            is_list = properties[found].get("type") == "array"
            arguments[found] = ["bash", "-c", command] if is_list else command
            return Call(name, arguments)
    return f"None of these tools runs a command: {', '.join(tools)}."


def _any_value(schema: Mapping[str, Any]) -> object:
    values = {"boolean": False, "integer": 60_000, "number": 60_000, "array": [], "object": {}}
    return values.get(str(schema.get("type", "")).lower(), "edit")


class Chat:
    """OpenAI's chat completions."""

    path = r"/chat/completions$"
    error: ClassVar[Json] = {"message": "Incorrect API key provided", "code": "invalid_api_key"}
    refusal = (401, {"error": error})

    @staticmethod
    def offered(body: Json) -> dict[str, Json]:
        """The tools of a request."""
        functions = [tool["function"] for tool in body.get("tools") or []]
        return {each["name"]: each.get("parameters") or {} for each in functions}

    @staticmethod
    def results(body: Json) -> int:
        """How many results of tools a request holds."""
        return sum(message["role"] == "tool" for message in body["messages"])

    @staticmethod
    def whole(reply: Reply, body: Json, number: int) -> Json:
        """A reply that is not streamed."""
        message: Json = {"role": "assistant", "content": None}
        if isinstance(reply, Call):
            function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
            message["tool_calls"] = [
                {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
            ]
        else:
            message["content"] = reply
        reason = "tool_calls" if isinstance(reply, Call) else "stop"
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS}
        usage["total_tokens"] = PROMPT_TOKENS + COMPLETION_TOKENS
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage,
        }

    @classmethod
    def streamed(cls, reply: Reply, body: Json, number: int) -> Iterator[Json]:
        """The events of a streamed reply."""
        whole = cls.whole(reply, body, number)
        choice = whole["choices"][0]
        chunk = {**whole, "object": "chat.completion.chunk", "usage": None}
        for delta, reason in ((choice["message"], None), ({}, choice["finish_reason"])):
            yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        yield {**chunk, "choices": [], "usage": whole["usage"]}


class Responses:
    """OpenAI's responses."""

    path = r"/responses$"
    refusal = Chat.refusal

    @staticmethod
    def offered(body: Json) -> dict[str, Json]:
        """The tools of a request; those without a schema are none that this model knows."""
        tools = [tool for tool in body.get("tools") or [] if tool["type"] == "function"]
        return {tool["name"]: tool.get("parameters") or {} for tool in tools}

    @staticmethod
    def results(body: Json) -> int:
        """How many results of tools a request holds."""
        items = body["input"] if isinstance(body["input"], list) else []
        return sum(item.get("type") == "function_call_output" for item in items)

    @staticmethod
    def whole(reply: Reply, body: Json, number: int) -> Json:
        """A reply that is not streamed."""
        item: Json = {"id": f"item_{number}", "status": "completed"}
        if isinstance(reply, Call):
            item |= {"type": "function_call", "call_id": f"call_{number}", "name": reply.name}
            item["arguments"] = json.dumps(reply.arguments)
        else:
            content = {"type": "output_text", "text": reply, "annotations": []}
            item |= {"type": "message", "role": "assistant", "content": [content]}
        usage = {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": COMPLETION_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        }
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": body["model"],
            "output": [item],
            "usage": usage,
        }

    @classmethod
    def streamed(cls, reply: Reply, body: Json, number: int) -> Iterator[Json]:
        """The events of a streamed reply."""
        whole = cls.whole(reply, body, number)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        (item,) = whole["output"]
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": whole}


class Messages:
    """Anthropic's messages."""

    path = r"/messages$"
    error: ClassVar[Json] = {"type": "authentication_error", "message": "invalid x-api-key"}
    refusal = (401, {"type": "error", "error": error})

    @staticmethod
    def offered(body: Json) -> dict[str, Json]:
        """The tools of a request."""
        return {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}

    @staticmethod
    def results(body: Json) -> int:
        """How many results of tools a request holds."""
        contents = [each["content"] for each in body["messages"]]
        parts = [part for each in contents if isinstance(each, list) for part in each]
        return sum(part.get("type") == "tool_result" for part in parts)

    @staticmethod
    def whole(reply: Reply, body: Json, number: int) -> Json:
        """A reply that is not streamed."""
        part: Json = {"type": "text", "text": reply}
        if isinstance(reply, Call):
            part = {"type": "tool_use", "id": f"toolu_{number}", "name": reply.name}
            part["input"] = reply.arguments
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [part],
            "stop_reason": "tool_use" if isinstance(reply, Call) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS},
        }

    @classmethod
    def streamed(cls, reply: Reply, body: Json, number: int) -> Iterator[Json]:
        """The events of a streamed reply."""
        whole = cls.whole(reply, body, number)
        (part,) = whole["content"]
        if isinstance(reply, Call):
            begun = {**part, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
        else:
            begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply}
        message = {**whole, "content": [], "stop_reason": None}
        ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_start", "message": message}
        yield {"type": "content_block_start", "index": 0, "content_block": begun}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": ending, "usage": whole["usage"]}
        yield {"type": "message_stop"}


class Gemini:
    """Gemini's generateContent."""

    path = r"/models/[^/]+:(generate|streamGenerate)Content$"
    error: ClassVar[Json] = {
        "code": 400,
        "message": "API key not valid.",
        "status": "INVALID_ARGUMENT",
    }
    refusal = (400, {"error": error})

    @staticmethod
    def offered(body: Json) -> dict[str, Json]:
        """The tools of a request."""
        tools = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
        return {
            each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {}
            for declarations in tools
            for each in declarations
        }

    @staticmethod
    def results(body: Json) -> int:
        """How many results of tools a request holds."""
        parts = [part for content in body["contents"] for part in content["parts"]]
        return sum("functionResponse" in part for part in parts)

    @staticmethod
    def whole(reply: Reply, _body: Json, _number: int) -> Json:
        """A reply that is not streamed."""
        part: Json = {"text": reply}
        if isinstance(reply, Call):
            part = {"functionCall": {"name": reply.name, "args": reply.arguments}}
        content = {"role": "model", "parts": [part]}
        usage = {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": COMPLETION_TOKENS,
            "totalTokenCount": PROMPT_TOKENS + COMPLETION_TOKENS,
        }
        candidate = {"index": 0, "content": content, "finishReason": "STOP"}
        return {"candidates": [candidate], "usageMetadata": usage}

    @classmethod
    def streamed(cls, reply: Reply, body: Json, number: int) -> Iterator[Json]:
        """The events of a streamed reply."""
        yield cls.whole(reply, body, number)


_PROTOCOLS = (Chat, Responses, Messages, Gemini)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every protocol, told apart by the path."""

    protocol_version = "HTTP/1.1"
    script: Script
    number = 0

    def do_POST(self) -> None:
        """One reply of the model."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        protocol = next((each for each in _PROTOCOLS if re.search(each.path, path)), None)
        if protocol is None:
            self._send(404, {"error": {"message": f"there is no {path}"}})
            return
        if not self._is_allowed():
            self._send(*protocol.refusal)
            return
        body = json.loads(data)
        Handler.number += 1
        reply = self.script.reply(protocol.offered(body), protocol.results(body), data.decode())
        if body.get("stream") or "streamGenerate" in path:
            self._stream(protocol.streamed(reply, body, self.number), done=protocol is Chat)
        else:
            self._send(200, protocol.whole(reply, body, self.number))

    def do_GET(self) -> None:
        """The list of models, which some agents ask for first."""
        self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def _is_allowed(self) -> bool:
        named = [self.headers.get(name) for name in ("x-api-key", "x-goog-api-key")]
        return KEY in named or self.headers.get("Authorization") == f"Bearer {KEY}"

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[Json], *, done: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            kind = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
        if done:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main(words: Sequence[str]) -> None:
    """Serve until interrupted."""
    if len(words) != 1:
        sys.exit(__doc__)
    Handler.script = Script.of(words[0])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
