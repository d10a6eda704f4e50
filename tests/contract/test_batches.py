"""`rcb run --batch`: questions are sent at once, left, and collected by --resume; the server is a strict one."""

from __future__ import annotations

import email.parser
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
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
        if self.server.refuses:
            self.send(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
        elif self.path.startswith(("/upload/", "/v1beta/")):
            self.google(data)
        elif self.path == "/v1/files":
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
        elif self.path == "/v1/messages":
            self.server.asked += 1
            self.send(200, self.good("")["result"]["message"])
        elif self.path == "/v1/messages/batches":
            body = json.loads(data)
            self.server.take([(each["custom_id"], each["params"]) for each in body["requests"]])
            self.send(
                200,
                {"id": f"msgbatch_{len(self.server.batches)}", "processing_status": "in_progress"},
            )
        else:
            self.send(404, {"error": {"message": f"nothing at {self.path}"}})

    def google(self, data: bytes) -> None:
        """A file is announced, then sent to the address that was given for it, then made a batch of."""
        if not self.headers.get("x-goog-api-key") and "upload_id" not in self.path:
            self.send(403, {"error": {"code": 403, "message": "Method doesn't allow it."}})
        elif self.path == "/upload/v1beta/files":
            assert self.headers["X-Goog-Upload-Protocol"] == "resumable"
            assert self.headers["X-Goog-Upload-Command"] == "start"
            assert self.headers["X-Goog-Upload-Header-Content-Type"] == "application/jsonl"
            self.server.announced = int(self.headers["X-Goog-Upload-Header-Content-Length"])
            there = f"http://{self.headers['Host']}/upload/v1beta/files?upload_id=1"
            self.send(200, {}, {"X-Goog-Upload-URL": there})
        elif "upload_id" in self.path:
            assert self.headers["X-Goog-Upload-Command"] == "upload, finalize"
            assert len(data) == self.server.announced
            self.server.file = [json.loads(line) for line in data.splitlines()]
            file = {"name": "files/questions", "mimeType": "application/jsonl"}
            self.send(200, {"file": file}, {"X-Goog-Upload-Status": "final"})
        elif self.path == "/v1beta/models/m:batchGenerateContent":
            assert json.loads(data)["batch"]["inputConfig"] == {"fileName": "files/questions"}
            self.server.take([(each["key"], each["request"]) for each in self.server.file])
            self.send(200, self.job("BATCH_STATE_PENDING"))
        else:
            self.send(404, {"error": {"code": 404, "message": f"nothing at {self.path}"}})

    def job(self, state: str) -> dict[str, Any]:
        number = len(self.server.batches)
        output = {"responsesFile": f"files/answers-{number}"} if "SUCCEEDED" in state else {}
        metadata = {"model": "models/m", "state": state, "output": output}
        return {"name": f"batches/{number}", "metadata": metadata}

    def do_GET(self) -> None:
        words = self.path.strip("/").split("/")
        if words[:2] == ["v1beta", "batches"]:
            state = self.server.stands("BATCH_STATE_RUNNING", "BATCH_STATE_SUCCEEDED")
            self.send(200, self.job(state))
        elif words[0] == "v1beta":
            number = words[2].removeprefix("answers-").removesuffix(":download?alt=media")
            batch = self.server.batches[int(number) - 1]
            self.send(200, "\n".join(json.dumps(self.response(*each)) for each in batch))
        elif words[1] == "batches":
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
            "id": f"c-{KEY}",  # some servers repeat it
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
            "id": f"m-{KEY}",
            "type": "message",
            "content": content,
            "stop_reason": "end_turn",
            "usage": usage,
        }
        return {"custom_id": key, "result": {"type": "succeeded", "message": message}}

    def response(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        assert not set(body) - {"contents", "generationConfig"}
        assert [turn["role"] for turn in body["contents"]] == ["user"]
        if len(self.server.batches) == 1 and key == self.server.first:
            return {"key": key, "error": {"code": 14, "message": "The service is unavailable."}}
        content = {"role": "model", "parts": [{"text": RIGHT}]}
        reply = {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100},
            "responseId": f"r-{KEY}",
        }
        return {"key": key, "response": reply}

    def send(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
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
        self.announced = 0
        self.asked = 0  # one by one
        self.refuses = False
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


def leave(
    desk: BatchServer, papers: Dataset, out: Path, api: str, *more: str
) -> subprocess.CompletedProcess[str]:
    """Begin a run of two questions in a batch."""
    version = "v1beta" if api == "google" else "v1"
    url = f"http://127.0.0.1:{desk.server_address[1]}/{version}"
    asked = rcb(
        *("--agent", "single-shot", "--batch", "--samples", "2", "--model", "m", "--api", api),
        *("--base-url", url, "--input-price", "2", "--output-price", "10", "--cache", "off"),
        *("--out", str(out), "--dataset", str(papers.papers[0].root), *more),
    )
    assert asked.returncode == 0, asked.stderr
    return asked


def costs(out: Path) -> list[float]:
    lines = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    return [line["episode"]["usage"]["cost_usd"] for line in lines]


FULL = (1000 * 2 + 100 * 10) / 1e6


@pytest.mark.parametrize("api", ["chat", "anthropic", "google"])
def test_questions_are_left_and_their_answers_collected(
    desk: BatchServer, small_papers: Dataset, tmp_path: Path, api: str
) -> None:
    """A model that refuses a parameter, or a question that ran out of time, takes a second batch."""
    out = tmp_path / "run"
    asked = leave(desk, small_papers, out, api)
    assert (out / "run.json").exists()
    assert "2 questions are with" in asked.stderr
    assert len(desk.batches) == 1
    word = "running" if api == "google" else "in_progress"
    assert f"is not done ({word})" in rcb("--resume", str(out)).stderr
    again = rcb("--resume", str(out))
    assert ("2" if api == "chat" else "1") + " questions are with" in again.stderr
    assert len(desk.batches) == 2
    rcb("--resume", str(out))
    done = rcb("--resume", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["states"]["passed"] == 2
    assert costs(out) == pytest.approx([FULL / 2] * 2)
    records = "".join(path.read_text() for path in out.rglob("*.json*"))
    assert KEY not in records
    assert "-[key]" in records
    assert len(desk.batches) == 2


@pytest.mark.parametrize("done", [True, False], ids=["answered in part", "not done"])
def test_a_run_begun_in_a_batch_goes_on_without_one(
    desk: BatchServer, small_papers: Dataset, tmp_path: Path, done: bool
) -> None:
    """What the batch has answered is not asked again, since it is paid for; the rest is asked one by one."""
    out = tmp_path / "run"
    leave(desk, small_papers, out, "anthropic")
    if done:
        rcb("--resume", str(out))  # the server is done at the second look
    went_on = rcb("--resume", str(out), "--no-batch", "--json")
    assert went_on.returncode == 0, went_on.stderr
    assert json.loads(went_on.stdout.splitlines()[-1])["states"]["passed"] == 2
    assert (len(desk.batches), desk.asked) == (1, 1 if done else 2)
    assert sorted(costs(out)) == pytest.approx([FULL / 2, FULL] if done else [FULL, FULL])
    told = f"not done at http://127.0.0.1:{desk.server_address[1]}/v1/messages: msgbatch_1"
    assert (told in went_on.stderr) is not done
    report = rcb("--resume", str(out), "--no-batch", "--json")
    assert report.returncode == 0, report.stderr
    assert desk.asked == (1 if done else 2)  # nothing is left to be asked


def test_a_batch_that_is_refused_does_not_take_the_folder(
    desk: BatchServer, small_papers: Dataset, tmp_path: Path
) -> None:
    """One that was taken keeps it: its name is there, and it is to be paid for."""
    desk.refuses = True
    url = f"http://127.0.0.1:{desk.server_address[1]}/v1"
    refused = rcb(
        *("--agent", "single-shot", "--batch", "--model", "m", "--base-url", url),
        *("--out", str(tmp_path / "run"), "--dataset", str(small_papers.papers[0].root)),
    )
    assert refused.returncode == 2
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"rcb: {url}/chat/completions: the batch: ")
    assert "Incorrect API key" in last
    assert KEY not in refused.stderr
    assert not (tmp_path / "run" / "run.json").exists()


def test_an_agent_that_asks_as_it_goes_along_is_refused(
    desk: BatchServer, small_papers: Dataset, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{desk.server_address[1]}/v1"
    refused = rcb(
        *("--agent", "repair:2", "--batch", "--model", "m", "--base-url", url),
        *("--out", str(tmp_path / "run"), "--dataset", str(small_papers.papers[0].root)),
    )
    assert refused.returncode != 0
    assert "asks more than once per episode" in refused.stderr
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_limit_for_the_whole_run_is_refused_beside_a_batch() -> None:
    """All questions are sent before the first answer is paid for."""
    with pytest.raises(UsageError, match="cannot hold a limit"):
        RunConfig("single-shot", batch=True, run_cost_usd=1.0)
