"""A model that knows the solutions, behind OpenAI's protocol, to try an example without a model."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator

import rcb_env


class _Handler(http.server.BaseHTTPRequestHandler):
    """First the solution and a test run, then the submit."""

    def do_POST(self) -> None:
        """One completion; which one follows from how many the conversation holds."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = sum(message["role"] == "assistant" for message in body["messages"])
        asked = next(m["content"] for m in body["messages"] if m["role"] == "user")
        calls: list[tuple[str, dict[str, str]]] = [("submit", {})]
        if not said:
            code = next(
                challenge.reference
                for challenge in rcb_env.load_dataset().challenges
                if f'"{challenge.hint}" of {challenge.file}' in asked
            )
            calls = [("write_region", {"code": code}), ("run_tests", {})]
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{said}_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(calls)
            ],
        }
        completion = {
            "id": "scripted",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
        data = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def scripted_model() -> Iterator[str]:
    """The address of the model's API."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()
