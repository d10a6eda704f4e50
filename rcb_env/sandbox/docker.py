"""Boxes made with a Docker-compatible engine: one container per warm box, spoken to over an attached stream.

A container has no network, a read-only root, three size-capped temporary folders, an unprivileged user, no capabilities
and no way to new ones, and limits on memory (without swap), processes and processors. Its first process is the runner,
which reaps: another init would run as the same user, and code in the box could write into the stream through it. Nothing
is ever executed in the container after its start: a `docker exec` costs a thousand times a message over the stream.

Containers carry labels that say which run they are for and who owns them (`owners.py`). Making a `Docker` removes what
owners left that are gone (killed drivers); so does `remove_containers`, or all of them.
Not covered: the client (`engine.py`), building images (`docker_images.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import platform
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import docker
import docker.errors

from rcb_env.errors import BoxDied, SandboxUnavailable
from rcb_env.runner.confine import ARCHITECTURES
from rcb_env.sandbox import docker_images
from rcb_env.sandbox.bootstrap import BOOTSTRAP
from rcb_env.sandbox.box import BOX_MEMORY_BYTES, BoxSettings
from rcb_env.sandbox.engine import ENGINE_ERRORS, await_engine, engine, reason
from rcb_env.sandbox.owners import LABEL, RUN_LABEL, is_orphan, owner

_PACKAGES = "/opt/rcb/packages"  # where images/*/Dockerfile puts them
_USER = 1000
_PROCESSES = 128  # of the whole container; the runner watches each run's own
_OWN_FILTER = ("seccomp=unconfined",) if platform.machine() in ARCHITECTURES else ()
_PERIOD_US = 100_000  # of the kernel's clock that shares out processors
_END_KNOWN_AFTER_S = 5.0  # until the engine knows that a container whose stream ended is gone
_ASK_AFTER_S = 2.0  # of silence: an engine may leave the stream of an ended container open


class Docker:
    """Makes containers with the engine that ``DOCKER_HOST`` or the default socket leads to."""

    name = "docker"
    bounds_processes = (
        False  # processes of one user are counted across containers; the cgroup bounds them
    )

    def __init__(self) -> None:
        client = engine()
        try:
            self.version = f"docker {client.version()['Version']}"
            remove_containers(of_everybody=False)
        except ENGINE_ERRORS as error:
            raise SandboxUnavailable(
                f"the Docker engine does not answer: {reason(error)}"
            ) from None

    def digest(self, image: str) -> str:
        """The engine's id of the image; see `Maker.digest`."""
        return docker_images.digest(image)

    def prepare(self, image: str, progress: Callable[[str], None]) -> None:  # noqa: ARG002
        """Nothing but a look whether the image is there; see `Maker.prepare`."""
        if not self.digest(image):
            raise docker_images.missing(image)

    def start(self, settings: BoxSettings) -> tuple[DockerChannel, Mapping[str, Any]]:
        """A fresh container; see `Maker.start`."""
        tag = docker_images.tag(settings.image)
        # As root's, the folders themselves cannot be changed: their permissions stay for the next run.
        scratch = f"rw,nosuid,nodev,exec,mode=1777,size={settings.scratch_bytes}"
        await_engine()
        api = engine().api
        try:
            host = api.create_host_config(
                network_mode="none",
                ipc_mode="private",
                read_only=True,
                tmpfs={"/work": scratch, "/tmp": scratch},
                shm_size=settings.shared_memory_bytes,
                cap_drop=["ALL"],
                # Without the engine's filter, which refuses namespaces: `confine.py` filters what a run may call.
                security_opt=["no-new-privileges", *_OWN_FILTER],
                mem_limit=BOX_MEMORY_BYTES,
                memswap_limit=BOX_MEMORY_BYTES,
                pids_limit=_PROCESSES,
                # One beyond the threads, for the runner. A quota may be more than the machine has; `nano_cpus` may not.
                cpu_period=_PERIOD_US,
                cpu_quota=_PERIOD_US * (settings.threads + 1),
                log_config=docker.types.LogConfig(type="none"),
            )
            container = api.create_container(
                tag,
                ["python3", "-s", "-S", "-P", "-B", "-c", BOOTSTRAP],
                user=f"{_USER}:{_USER}",
                working_dir="/tmp",
                hostname="box",
                environment={**settings.environment(), "PYTHONPATH": _PACKAGES},
                stdin_open=True,
                network_disabled=True,
                labels={LABEL: owner(), RUN_LABEL: settings.label},
                stop_signal="SIGKILL",  # an engine that shuts down need not wait for the runner
                host_config=host,
            )["Id"]
        except docker.errors.ImageNotFound:
            raise docker_images.missing(settings.image) from None
        except ENGINE_ERRORS as error:
            raise BoxDied(f"a container could not be created: {reason(error)}") from None
        try:
            attached = api.attach_socket(
                container, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            )
            api.start(container)
        except ENGINE_ERRORS as error:
            _remove_one(container)
            raise BoxDied(f"a container could not be started: {reason(error)}") from None
        return DockerChannel(container, attached), {"uid": _USER, "dies_with_parent": False}


class DockerChannel:
    """The attached stream of one container. The engine frames what comes out of it: kind, length, bytes."""

    def __init__(self, container: str, attached: Any) -> None:
        self._container = container
        self._attached = attached
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._socket.settimeout(0)
        self._frame = 0  # bytes left of the present frame
        self._is_output = True
        self._errors = bytearray()
        self._closing = threading.Lock()
        self._closed = False

    def send(self, data: bytes, deadline: float) -> None:
        """See `Channel.send`."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except (OSError, ValueError):
                raise self._dead("ended") from None

    def receive(self, count: int, deadline: float) -> bytes:
        """See `Channel.receive`."""
        data = bytearray()
        while len(data) < count:
            if not self._frame:
                header = self._read(8, deadline, exactly=True)
                self._is_output = header[0] == 1
                self._frame = int.from_bytes(header[4:], "big")
                continue
            wanted = min(self._frame, count - len(data)) if self._is_output else self._frame
            part = self._read(wanted, deadline)
            self._frame -= len(part)
            if self._is_output:
                data += part
            elif len(self._errors) < 4000:
                self._errors += part
        return bytes(data)

    def _read(self, count: int, deadline: float, *, exactly: bool = False) -> bytes:
        data = b""
        while True:
            try:
                part = self._socket.recv(count - len(data))
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
                continue
            except (OSError, ValueError):
                raise self._dead("ended") from None
            if not part:
                raise self._dead("ended")
            data += part
            if not exactly or len(data) == count:
                return data

    def _wait(self, event: int, deadline: float) -> None:
        poll = select.poll()
        try:
            poll.register(self._socket, event)
        except (OSError, ValueError):
            raise self._dead("ended") from None
        while not poll.poll(min(max(0.0, deadline - time.monotonic()), _ASK_AFTER_S) * 1000):
            if not self._runs():
                # What it still said arrives before the engine says that it ended; so this is the end.
                if poll.poll(0):
                    return
                raise self._dead("ended")
            if time.monotonic() >= deadline:
                raise self._dead("did not answer in time")

    def _runs(self) -> bool:
        """False only when the engine says that the container ended, or does not know it any more."""
        try:
            return bool(engine().api.inspect_container(self._container)["State"]["Running"])
        except docker.errors.NotFound:
            return False
        except (*ENGINE_ERRORS, SandboxUnavailable, KeyError):
            return True  # nothing is known; an engine that stops ends the stream itself

    def _dead(self, why: str) -> BoxDied:
        said = bytes(self._errors).decode("utf-8", "replace").strip()
        out_of_memory, from_outside = self._how_it_ended() if why == "ended" else (False, False)
        self.close()
        what = f"a container {why}{': ' + said.splitlines()[-1] if said else ''}"
        return BoxDied(what, out_of_memory=out_of_memory, from_outside=from_outside)

    def _how_it_ended(self) -> tuple[bool, bool]:
        """Whether the kernel ended the container for memory, and whether somebody outside did.

        The runner is the first process of its namespace: nothing in the box can send it SIGKILL.
        """
        deadline = time.monotonic() + _END_KNOWN_AFTER_S
        try:
            while True:
                state = engine().api.inspect_container(self._container)["State"]
                if not state["Running"]:
                    break
                if time.monotonic() > deadline:  # only the stream was lost
                    return False, True
                time.sleep(0.02)
        except (*ENGINE_ERRORS, SandboxUnavailable, KeyError):
            return False, not self._closed  # the engine, or the container itself, is gone
        out_of_memory = bool(state["OOMKilled"])
        return out_of_memory, not out_of_memory and state["ExitCode"] == 128 + signal.SIGKILL

    def close(self) -> None:
        """See `Channel.close`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            # The reply that the stream came with goes first: later it finds its file closed, and complains.
            reply = getattr(self._attached, "_response", self._attached)
            for stream in (reply, self._attached, self._socket):
                with contextlib.suppress(OSError):
                    stream.close()
            _remove_one(self._container)


def remove_containers(*, of_everybody: bool) -> list[str]:
    """Remove containers that no living process owns, or all of them; returns their ids.

    Raises:
        SandboxUnavailable: no engine answers.
    """
    try:
        found = [c for c in _containers() if of_everybody or is_orphan(c.labels[LABEL])]
    except ENGINE_ERRORS as error:
        raise SandboxUnavailable(f"the Docker engine does not answer: {reason(error)}") from None
    for container in found:
        _remove_one(container.id)
    return [str(container.id) for container in found]


_not_removed: set[str] = set()  # containers that are done, but the engine did not answer


@atexit.register
def _remove_the_rest() -> None:
    for container in list(_not_removed):
        _remove_one(container)


def _containers() -> list[Any]:
    found: list[Any] = engine().containers.list(
        all=True, filters={"label": LABEL}, ignore_removed=True
    )
    return found


def _remove_one(container: str) -> None:
    try:
        engine().api.remove_container(container, v=True, force=True)
    except docker.errors.NotFound:
        pass
    except (*ENGINE_ERRORS, SandboxUnavailable):
        _not_removed.add(container)
    else:
        _not_removed.discard(container)
