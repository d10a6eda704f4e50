"""This process's client of the Docker engine that ``DOCKER_HOST`` or the default socket leads to.

Errors of the engine and of the way to it are `ENGINE_ERRORS`, and `reason` words them in one line.
Not covered: containers (`docker.py`) and images (`docker_images.py`).
"""

from __future__ import annotations

import atexit
import os
import socket
import time
from functools import cache

import docker
import docker.credentials.errors
import docker.errors
import requests.exceptions

from rcb_env.errors import SandboxUnavailable

ENGINE_ERRORS = (
    docker.errors.DockerException,
    docker.credentials.errors.StoreError,  # of the helper that ~/.docker/config.json names
    requests.exceptions.RequestException,
    OSError,
    ValueError,  # of an address that is none
)
_TIMEOUT_S = (
    60  # of a request to the engine; never of a test run, which goes over the attached stream
)
_BACK_AFTER_S = 15.0  # how long an engine that is being restarted is waited for


@cache
def _clients() -> dict[int, docker.DockerClient]:
    return {}


def engine() -> docker.DockerClient:
    """This process's client: a fork never shares its parent's sockets."""
    clients = _clients()
    if os.getpid() not in clients:
        try:
            _knock()
            client = docker.from_env(timeout=_TIMEOUT_S)
            client.ping()
        except ENGINE_ERRORS as error:
            raise SandboxUnavailable(
                f"no Docker engine answers ({reason(error)})",
                fix="start one, set DOCKER_HOST, or use --sandbox bubblewrap",
            ) from None
        clients.clear()
        clients[os.getpid()] = client
    return clients[os.getpid()]


def _knock() -> None:
    """Raise OSError where nobody listens on the engine's local socket (the client would leave its own open)."""
    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_TIMEOUT_S)
            probe.connect(address.removeprefix("unix://"))


def await_engine() -> None:
    """Return once the engine answers, which one that is being restarted does after some seconds.

    Raises:
        SandboxUnavailable: it stays away.
    """
    deadline = time.monotonic() + _BACK_AFTER_S
    while True:
        try:
            engine().ping()
        except ENGINE_ERRORS as error:
            if time.monotonic() > deadline:
                raise SandboxUnavailable(
                    f"the Docker engine does not answer any more ({reason(error)});"
                    " start it again, then resume the run"
                ) from None
            time.sleep(0.2)
        else:
            return


@atexit.register
def _close_client() -> None:
    if client := _clients().pop(os.getpid(), None):
        client.close()


def reason(error: BaseException) -> str:
    """The engine's own words for an error, on one line."""
    explanation = getattr(error, "explanation", None)
    cause: BaseException | None = error
    while cause is not None and "Max retries exceeded" in str(error):  # words of a library, nested
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(explanation or error).strip().splitlines()[-1][:300]
