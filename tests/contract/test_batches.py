"""`rcb run --batch`: questions are sent at once, left, and collected by --resume; the server is a strict one."""

from __future__ import annotations

import email.parser
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.papers import Dataset
from rcb_env.errors import UsageError
from rcb_env.runs import RunConfig

RIGHT = "```python\n    return x * factor + 1\n```"
KEY = "sk-of-nobody-0123456789"
COUNTS = {"prompt_tokens": 1000, "completion_tokens": 100}


class Desk(http.server.BaseHTTPRequestHandler):
    """One request to a server that has batches and nothing else."""

    protocol_version = "HTTP/1.1"
    server: BatchServer

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/files":
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            form: Any = email.parser.BytesParser().parsebytes(head + data)
            parts = {
                part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
                for part in form.get_payload()
            }
            assert parts["purpose"] == b"batch"
            self.server.file = [json.loads(line) for line in parts["file"].splitlines()]
            self.send(
                200,
                {
                    "id": "file-1",
                    "object": "file",
                    "bytes": 1,
                    "created_at": 0,
                    "filename": "f",
                    "purpose": "batch",
                    "status": "processed",
                },
            )
        elif self.path == "/v1/batches":
            body = json.loads(data)
            assert body == {
                "input_file_id": "file-1",
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
            }
            self.server.take([(each["custom_id"], each["body"]) for each in self.server.file])
            self.send(200, {"id": f"batch_{len(self.server.batches)}", "status": "validating"})
        elif self.path == "/v1/messages/batches":
            body = json.loads(data)
            self.server.take([(each["custom_id"], each["params"]) for each in body["requests"]])
            self.send(
                200,
                {"id": f"msgbatch_{len(self.server.batches)}", "processing_status": "in_progress"},
            )
        else:
            self.send(404, {"error": {"message": f"nothing at {self.path}"}})

    def do_GET(self) -> None:
        words = self.path.strip("/").split("/")
        if words[1] == "batches":
            status = self.server.stands("in_progress", "completed")
            number = words[2].removeprefix("batch_")
            self.send(
                200,
                {
                    "id": words[2],
                    "status": status,
                    "output_file_id": f"out-{number}",
                    "error_file_id": None,
                },
            )
        elif words[1] == "files":
            batch = self.server.batches[int(words[2].removeprefix("out-")) - 1]
            self.send(200, "\n".join(json.dumps(self.line_of_file(*each)) for each in batch))
        elif words[-1] == "results":
            batch = self.server.batches[int(words[3].removeprefix("msgbatch_")) - 1]
            self.send(200, "\n".join(json.dumps(self.result(*each)) for each in batch))
        else:
            self.send(
                200,
                {"id": words[3], "processing_status": self.server.stands("in_progress", "ended")},
            )

    @staticmethod
    def line_of_file(key: str, body: dict[str, Any]) -> dict[str, Any]:
        if "temperature" in body:  # of a model that reasons
            said = "Unsupported value: 'temperature' does not support 0 with this model."
            return {
                "custom_id": key,
                "response": {
                    "status_code": 400,
                    "body": {"error": {"message": said, "param": "temperature"}},
                },
                "error": None,
            }
        message = {"role": "assistant", "content": RIGHT}
        reply = {
            "id": "c",
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": COUNTS,
        }
        return {"custom_id": key, "response": {"status_code": 200, "body": reply}, "error": None}

    def result(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        assert "max_tokens" in body
        if len(self.server.batches) == 1:
            return (
                {"custom_id": key, "result": {"type": "expired"}}
                if key == self.server.first
                else self.good(key)
            )
        return self.good(key)

    @staticmethod
    def good(key: str) -> dict[str, Any]:
        content = [{"type": "text", "text": RIGHT}]
        usage = {"input_tokens": 1000, "output_tokens": 100}
        message = {
            "id": "m",
            "type": "message",
            "content": content,
            "stop_reason": "end_turn",
            "usage": usage,
        }
        return {"custom_id": key, "result": {"type": "succeeded", "message": message}}

    def send(self, status: int, body: object) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class BatchServer(http.server.ThreadingHTTPServer):
    """Keeps batches; each is done at the second look."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.file: list[dict[str, Any]] = []
        self.batches: list[list[tuple[str, dict[str, Any]]]] = []
        self.looks = 0
        self.first = ""

    def take(self, batch: list[tuple[str, dict[str, Any]]]) -> None:
        self.batches.append(batch)
        self.looks = 0
        self.first = self.first or batch[0][0]

    def stands(self, now: str, then: str) -> str:
        self.looks += 1
        return now if self.looks == 1 else then


@pytest.fixture
def desk() -> Iterator[BatchServer]:
    server = BatchServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def rcb(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OPENAI_API_KEY": KEY}
    environment.pop("OPENAI_BASE_URL", None)
    return subprocess.run(
        [str(Path(sys.executable).with_name("rcb")), "run", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )


@pytest.mark.parametrize("api", ["chat", "anthropic"])
def test_questions_are_left_and_their_answers_collected(
    desk: BatchServer, small_papers: Dataset, tmp_path: Path, api: str
) -> None:
    """A model that refuses a parameter, or a question that ran out of time, takes a second batch."""
    out = tmp_path / "run"
    where = [
        "--model",
        "m",
        "--base-url",
        f"http://127.0.0.1:{desk.server_address[1]}/v1",
        "--api",
        api,
    ]
    asked = rcb(
        *("--agent", "single-shot", "--batch", "--samples", "2", *where, "--input-price", "2"),
        *("--output-price", "10", "--cache", "off", "--out", str(out)),
        *("--dataset", str(small_papers.papers[0].root)),
    )
    assert asked.returncode == 0, asked.stderr
    assert "2 questions are with" in asked.stderr
    assert len(desk.batches) == 1
    assert "is not done (in_progress)" in rcb("--resume", str(out)).stderr
    again = rcb("--resume", str(out))
    assert ("2" if api == "chat" else "1") + " questions are with" in again.stderr
    assert len(desk.batches) == 2
    rcb("--resume", str(out))
    done = rcb("--resume", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["states"]["passed"] == 2
    lines = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    costs = [line["episode"]["usage"]["cost_usd"] for line in lines]
    assert costs == pytest.approx([(1000 * 2 + 100 * 10) / 1e6 / 2] * 2)
    assert KEY not in "".join(path.read_text() for path in out.rglob("*.json*"))
    assert len(desk.batches) == 2


def test_an_agent_that_asks_as_it_goes_along_is_refused(
    desk: BatchServer, small_papers: Dataset, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{desk.server_address[1]}/v1"
    refused = rcb(
        *("--agent", "repair:2", "--batch", "--model", "m", "--base-url", url),
        *("--out", str(tmp_path / "run"), "--dataset", str(small_papers.papers[0].root)),
    )
    assert refused.returncode != 0
    assert "asks as it goes along" in refused.stderr
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_limit_for_the_whole_run_is_refused_beside_a_batch() -> None:
    """All questions are sent before the first answer is paid for."""
    with pytest.raises(UsageError, match="cannot be held in a batch"):
        RunConfig("single-shot", batch=True, run_cost_usd=1.0)
