"""A server on loopback that plays a model API from a script, most often an OpenAI-compatible one, and `play`.

`model_server` is a real HTTP server in a thread: a client in the test or in a process started by it
talks to ``model_server.url``. To try a command by hand against it::

    python tests/contract/conftest.py "status:429" "answer:return x"

`play` lets an agent play the one region of a small paper, in real boxes.
"""

from __future__ import annotations

import http.server
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rcb_agents import tokens
from rcb_agents.replies import as_text

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.settings import Budgets
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import Agent, ModelSettings, Task
from rcb_env.play.episode import play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import make_agent

Behaviour = Callable[["Exchange"], None]
_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


class Exchange(http.server.BaseHTTPRequestHandler):
    """One request and what is done about it."""

    protocol_version = "HTTP/1.1"
    server: ModelServer
    body: Any

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.body = json.loads(data)
        self.server.behaviour(self)(self)

    def send(
        self,
        status: int,
        body: object,
        headers: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class ModelServer(http.server.ThreadingHTTPServer):
    """Plays its script, one behaviour a request; the last one is repeated.

    Attributes:
        requests: path, headers, body and time of each request so far.
        elsewhere: what is done about a path that is not the API's.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.requests: list[dict[str, Any]] = []
        self.elsewhere = self.status(404, {"error": {"message": "no such path", "code": None}})
        self._script: list[Behaviour] = [self.answer("```python\npass\n```")]
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"{self.origin}/v1"

    def plays(self, *script: Behaviour | str) -> None:
        """What the next requests get; a text is an answer."""
        with self._lock:
            self._script = [self.answer(part) if isinstance(part, str) else part for part in script]

    def behaviour(self, exchange: Exchange) -> Behaviour:
        with self._lock:
            self.requests.append(
                {
                    "path": exchange.path,
                    "headers": {name.lower(): value for name, value in exchange.headers.items()},
                    "body": exchange.body,
                    "at": time.monotonic(),
                }
            )
            if exchange.path not in _PATHS and not exchange.path.endswith(":generateContent"):
                return self.elsewhere
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    @property
    def pauses(self) -> list[float]:
        """Seconds between the requests."""
        times = [request["at"] for request in self.requests]
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    def stop(self) -> None:
        self._over.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is part of the play."""

    # --- behaviours ---

    @staticmethod
    def completion(
        text: object = None,
        *,
        finish: str | None = "stop",
        usage: Mapping[str, Any] | None = None,
        **message: Any,
    ) -> dict[str, Any]:
        """The body of a completion; ``usage={}`` leaves the usage out."""
        counts = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        choice = {
            "index": 0,
            "finish_reason": finish,
            "message": {"role": "assistant", "content": text, **message},
        }
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
            **({"usage": counts} if usage is None else {"usage": usage} if usage else {}),
        }

    @classmethod
    def answer(cls, text: object = None, *, headers: Any = None, **fields: Any) -> Behaviour:
        body = cls.completion(text, **fields)
        return lambda exchange: exchange.send(200, body, headers)

    @classmethod
    def counted(cls, text: str, length: int) -> Behaviour:
        """An answer of so many tokens, or of as many as are asked for; what was sent is counted too."""

        def play(exchange: Exchange) -> None:
            asked = exchange.body
            sent = tokens.estimate(as_text(asked["messages"]), asked["model"])
            made = min(length, asked.get("max_tokens", length))
            usage = {"prompt_tokens": sent, "completion_tokens": made}
            finish = "stop" if made == length else "length"
            exchange.send(200, cls.completion(text, usage=usage, finish=finish))

        return play

    @classmethod
    def calls(cls, *calls: tuple[str, object], text: object = None, **fields: Any) -> Behaviour:
        """Tool calls; arguments that are no text become JSON."""
        made = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for number, (name, given) in enumerate(calls)
        ]
        return cls.answer(text, **{"finish": "tool_calls", "tool_calls": made, **fields})

    @staticmethod
    def response(*output: Mapping[str, Any], **fields: Any) -> Behaviour:
        """The body of a reply of the responses API, by its items."""
        usage = {
            "input_tokens": 100,
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
        }
        body = {"id": "resp_1", "status": "completed", "output": output, "usage": usage, **fields}
        return lambda exchange: exchange.send(200, body)

    @staticmethod
    def by(reply: Callable[[Any], str]) -> Behaviour:
        """An answer made from the request's body."""
        return lambda exchange: exchange.send(200, ModelServer.completion(reply(exchange.body)))

    @staticmethod
    def status(status: int, body: object = None, **headers: str) -> Behaviour:
        """A status with an error body; header names with ``_`` for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        said = {"error": {"message": f"status {status}"}} if body is None else body
        return lambda exchange: exchange.send(status, said, named)

    @staticmethod
    def error(status: int, message: str, **fields: Any) -> Behaviour:
        """An error as OpenAI words it: ``code``, ``param``, ``type`` beside the message."""
        body = {"error": {"message": message, "type": None, "param": None, "code": None, **fields}}
        return lambda exchange: exchange.send(status, body)

    @staticmethod
    def page(text: str, kind: str = "text/html", status: int = 200) -> Behaviour:
        return lambda exchange: exchange.send(status, text, kind=kind)

    @classmethod
    def no_choices(cls) -> Behaviour:
        body = {**cls.completion("x"), "choices": []}
        return lambda exchange: exchange.send(200, body)

    @staticmethod
    def drop() -> Behaviour:
        """The connection ends without a reply."""

        def play(exchange: Exchange) -> None:
            exchange.close_connection = True
            exchange.connection.shutdown(socket.SHUT_RDWR)

        return play

    @staticmethod
    def cut_off() -> Behaviour:
        """Half of a body, then the end of the connection."""

        def play(exchange: Exchange) -> None:
            data = json.dumps(ModelServer.completion("x" * 200)).encode()
            exchange.send_response(200)
            exchange.send_header("Content-Type", "application/json")
            exchange.send_header("Content-Length", str(len(data)))
            exchange.end_headers()
            exchange.wfile.write(data[: len(data) // 2])
            exchange.wfile.flush()
            exchange.close_connection = True
            exchange.connection.shutdown(socket.SHUT_RDWR)

        return play

    def hang(self) -> Behaviour:
        """The connection stays open and nothing comes."""

        def play(_: Exchange) -> None:
            self._over.wait(60)

        return play

    @classmethod
    def slow(cls, seconds: float, text: str) -> Behaviour:
        def play(exchange: Exchange) -> None:
            time.sleep(seconds)
            exchange.send(200, cls.completion(text))

        return play


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model API that does as the test says; no address or key is taken from the environment."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    server = ModelServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


# --- playing ----------------------------------------------------------------------------------

_SOURCE = '''"""Scaling."""


def scale(x, factor):
    """Multiply, then add one."""
    # <paper2code name="scale">
    return x * factor + 1
    # </paper2code name="scale">
'''
_CASES = """
from rcb_env.cases import case

@case(seeds=2)
def scales(tree, rng):
    return tree.load("small").scale(float(rng.numpy.normal()), 2.5)
"""


@pytest.fixture(scope="session")
def small_papers(
    tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]
) -> Dataset:
    """One paper with one region."""
    files = {
        "paper.md": "Multiply {x} by the factor and add one.\n",
        "src/small.py": _SOURCE,
        "tests/cases.py": _CASES,
    }
    return load_dataset(write_paper(tmp_path_factory.mktemp("papers") / "small", files))


@pytest.fixture(scope="session")
def small_grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


class Records:
    """A trajectory in memory; everything in it must be JSON."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        self.kept.append((kind, json.loads(json.dumps(payload))))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [payload for each, payload in self.kept if each == kind]

    @property
    def tools(self) -> list[str]:
        return [step["action"]["tool"] for step in self.of("step")]


@pytest.fixture
def play(
    small_papers: Dataset, small_grader: Grader, request: pytest.FixtureRequest
) -> Callable[..., tuple[Episode, Records]]:
    """Lets an agent play the one region of the small paper."""

    def run(
        agent: Agent | str,
        *,
        server: ModelServer | None = None,
        budgets: Budgets | None = None,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        task: Mapping[str, Any] | None = None,
        **env: Any,
    ) -> tuple[Episode, Records]:
        model = None
        if server is not None:
            name = f"{request.node.name}-{id(server)}"  # nothing learnt from another test
            chosen = {"name": name, "base_url": server.url, **(settings or {})}
            model = ModelSettings(**chosen)
        if isinstance(agent, str):
            agent = make_agent(agent, model=model.name if model else None)
        records = Records()
        played = play_episode(
            ResearchCodeEnv("small/scale", dataset=small_papers, grader=small_grader, **env),
            agent,
            Task(small_papers.challenge("small/scale"), seed=seed, model=model, **(task or {})),
            records,
            budgets=budgets,
        )
        assert Episode.from_dict(json.loads(json.dumps(played.to_dict()))) == played
        return played, records

    return run


# --- by hand ----------------------------------------------------------------------------------


def _scripted(words: Sequence[str]) -> list[Behaviour]:
    script: list[Behaviour] = []
    for word in words:
        kind, _, value = word.partition(":")
        if kind == "status":
            script.append(ModelServer.status(int(value)))
        else:
            script.append(ModelServer.answer(f"```python\n{value or kind}\n```"))
    return script


if __name__ == "__main__":
    by_hand = ModelServer()
    by_hand.plays(*_scripted(sys.argv[1:] or ["pass"]))
    sys.stdout.write(f"export OPENAI_BASE_URL={by_hand.url}\n")
    sys.stdout.flush()
    by_hand.serve_forever()
