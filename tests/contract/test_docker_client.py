"""How the engine is talked to: whose time-outs decide, and over whose connections; with an engine that a test plays."""

from __future__ import annotations

import gc
import http.server
import itertools
import json
import multiprocessing
import os
import re
import socket
import socketserver
import struct
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import docker_images
from rcb_env.sandbox import engine as engine_client

CONTAINER = {
    "Id": "c1",
    "Config": {"Tty": False},
    "HostConfig": {"LogConfig": {"Type": "json-file"}},
}
ANSWERS: dict[str, list[tuple[int, Any]]] = {  # status and body; the last one is repeated
    "GET /version": [(200, {"ApiVersion": "1.44", "Version": "28"})],
    "GET /_ping": [(200, "OK")],
    "POST /containers/create": [(404, {"message": "No such image"}), (201, {"Id": "c1"})],
    "POST /images/create": [(200, {"status": "pulled"})],
    "GET /images/slow/base:1/json": [(200, {"Id": "sha256:1"})],
    "GET /containers/c1/json": [(200, CONTAINER)],
    "POST /containers/c1/start": [(204, "")],
    "GET /containers/c1/logs": [(200, "\x01\0\0\0\0\0\0\x053.11\n")],
    "POST /containers/c1/wait": [(200, {"StatusCode": 0})],
    "DELETE /containers/c1": [(204, "")],
    "POST /build": [(200, {"stream": "Successfully built abc\n"})],
    "GET /images/abc/json": [(200, {"Id": "sha256:abc"})],
}


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers what `ANSWERS` says, some requests after a silence.

    Attributes:
        silences: seconds before the answer, by request.
        asked: each request so far, and the process that opened its connection.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Request)
        self.silences: dict[str, float] = {}
        self.asked: list[tuple[str, int]] = []
        self.answers = {request: list(answers) for request, answers in ANSWERS.items()}

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is part of the play."""


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = re.sub(r"^/v1\.\d+|\?.*", "", self.path)
        request = f"{self.command} {place}"
        opened_by = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.server.asked.append((request, struct.unpack("3i", opened_by)[0]))
        time.sleep(self.server.silences.get(request, 0))
        answers = self.server.answers.get(request, [(404, {"message": "No such image"})])
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine that this process knows; its client waits a second for an answer."""
    clients: dict[int, Any] = {}
    monkeypatch.setattr(engine_client, "_clients", lambda: clients)
    monkeypatch.setattr(engine_client, "_TIMEOUT_S", 1)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/socket")
    with Engine(tmp_path / "socket") as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        for client in clients.values():
            client.close()
        made.shutdown()
        thread.join()


def test_a_slow_pull_and_a_slow_build_are_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C030: an engine that is silent for longer than the client waits for an answer is still at work."""
    engine.silences = dict.fromkeys(("POST /images/create", "POST /build"), 1.5)
    monkeypatch.setattr(docker_images, "_collect", lambda *_: None)
    assert docker_images.build("cpu", base="slow/base:1") == docker_images.tag("cpu")
    asked = [request for request, _ in engine.asked]
    assert asked.index("POST /images/create") < asked.index("POST /build")


def test_an_engine_that_answers_nothing_is_not_waited_for_without_end(engine: Engine) -> None:
    engine.silences = {"GET /version": 3.0}
    started = time.monotonic()
    with pytest.raises(SandboxUnavailable, match="no Docker engine answers"):
        engine_client.engine()
    assert time.monotonic() - started < 2.5


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_talks_to_the_engine_over_a_connection_of_its_own(
    engine: Engine, method: str
) -> None:
    """Case C067: the parent's is open when the child begins, and still works when it has ended."""
    context: Any = multiprocessing.get_context(method)
    engine_client.await_engine()
    # Newer Pythons warn of any fork while threads run.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = context.Process(target=engine_client.await_engine)
        child.start()
    child.join(30)
    assert child.exitcode == 0
    engine_client.await_engine()
    openers = [opened_by for request, opened_by in engine.asked if request == "GET /_ping"]
    assert [pid for pid, _ in itertools.groupby(openers)] == [os.getpid(), child.pid, os.getpid()]
    assert openers.count(child.pid) == 2  # when it made its client, and when it was told to


@pytest.mark.parametrize(
    "address",
    [
        *("tcp://", "unix://", "foo://x", "http:/x", "127.0.0.1:99999", "tcp://localhost:notaport"),
        *("npipe:////./pipe/x", "ssh://nobody@127.0.0.1", "unix:///nowhere/docker.sock", "  "),
        "tcp://127.0.0.1:9",
    ],
)
def test_an_address_that_leads_to_no_engine_is_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: dict[int, Any] = {}
    monkeypatch.setattr(engine_client, "_clients", lambda: clients)
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(SandboxUnavailable, match="no Docker engine answers") as refused:
        docker_images.build("cpu", base="any/base:1")
    assert "\n" not in str(refused.value)
    assert "DOCKER_HOST" in str(refused.value)
    assert "Max retries" not in str(refused.value), "the words of a library for a library"


@pytest.mark.parametrize("base_is_there", [True, False])
def test_a_helper_for_credentials_that_is_not_there_is_one_line(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base_is_there: bool
) -> None:
    """Docker Desktop leaves its name in the settings, and the client fails on it, with a traceback.

    It does so when it pulls, and with another kind of error when it builds.
    """
    if base_is_there:
        engine.answers["POST /containers/create"].pop(0)
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "nowhere"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(docker_images, "_collect", lambda *_: None)
    with pytest.raises(SandboxUnavailable, match="docker-credential-nowhere") as refused:
        docker_images.build("cpu", base="slow/base:1")
    assert "\n" not in str(refused.value)
    del refused
    with warnings.catch_warnings():  # where it fails, the client leaves a file of its own open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
