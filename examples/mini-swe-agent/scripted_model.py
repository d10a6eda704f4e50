"""A model for trying the example without one: it answers as scripted, and knows the solution.

    python examples/mini-swe-agent/scripted_model.py DyT/forward

Prints the address of its API. The third request gets the end of the task, and it starts again.
"""

from __future__ import annotations

import http.server
import json
import sys
import textwrap

from rcb_env import load_dataset

_EDIT = """\
python3 - <<'EOF'
import pathlib, re
path = pathlib.Path({file!r})
text = path.read_text()
todo = re.search(r"[ ]*# TODO: Implement block.*\\n.*\\n", text)
path.write_text(text[:todo.start()] + {code!r} + text[todo.end():])
EOF"""


def script(challenge_id: str) -> list[str]:
    """The shell commands that solve a challenge, one for each reply."""
    challenge = load_dataset().challenge(challenge_id)
    return [
        f"cat {challenge.file}",
        _EDIT.format(file=challenge.file, code=challenge.reference),
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers chat completions with the next command."""

    commands: list[str]

    def do_POST(self) -> None:
        """One completion; which one follows from how many the conversation holds."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = sum(message["role"] == "assistant" for message in body["messages"])
        command = self.commands[said % len(self.commands)]
        text = f"THOUGHT: next step.\n\n```mswea_bash_command\n{command}\n```"
        completion = {
            "id": "scripted",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                }
            ],
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


def main() -> None:
    """Serve until interrupted."""
    if len(sys.argv) != 2:
        sys.exit(textwrap.dedent(__doc__ or ""))
    Handler.commands = script(sys.argv[1])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
