"""Boxes made with Podman's own command line: one container per warm box, without root and without a daemon.

A container is made as `docker.py` makes them: no network, a read-only root, three size-capped temporary folders, a user of
its own without capabilities and without a way to new ones. ``podman run`` stays as the way to its standard streams; a
driver that is killed closes them, and the runner ends. Making a `Podman` removes the containers of drivers that are gone.
What Podman is told elsewhere holds (``containers.conf``, ``storage.conf``): its runtime, where its images lie.
Not covered: images (`podman_images.py`). Without root, the kernel bounds memory, processes and processors of a whole
container only where control groups of version 2 give the user those; elsewhere the runner's own watch is the limit.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from typing import Any

from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import podman_images
from rcb_env.sandbox.bootstrap import BOOTSTRAP
from rcb_env.sandbox.box import MIB, BoxSettings
from rcb_env.sandbox.owners import LABEL, RUN_LABEL, is_orphan, owner
from rcb_env.sandbox.podman_command import ULIMITS, podman, program
from rcb_env.sandbox.process import ProcessChannel

_PACKAGES = "/opt/rcb/packages"  # where images/*/Dockerfile puts them
_PROCESSES = 128  # of the whole container; the runner watches each run's own
_MEMORY_BYTES = 4096 * MIB  # of the whole container; the runner watches each run's own
_PERIOD_US = 100_000  # of the kernel's clock that shares out processors
# Boxes get users nobody else has, so that limits per user are limits per box; below the 65,536 a user can give away.
_uids = itertools.count(10_000 + os.getpid() % 3_000 * 16)


class Podman:
    """Makes containers with the ``podman`` program."""

    name = "podman"
    bounds_processes = True

    def __init__(self) -> None:
        host = json.loads(podman("info", "--format", "json"))
        rootless = bool(host["host"]["security"]["rootless"])
        self.version = f"podman {host['version']['Version']}{' (rootless)' if rootless else ''}"
        self._limited = _controllers(host["host"], rootless=rootless)
        remove_containers(of_everybody=False)

    def digest(self, image: str) -> str:
        """Podman's id of the image; see `Maker.digest`."""
        return podman_images.digest(image)

    def prepare(self, image: str, progress: Callable[[str], None]) -> None:  # noqa: ARG002
        """Nothing but a look whether the image is there; see `Maker.prepare`."""
        if not self.digest(image):
            raise podman_images.missing(image)

    def start(self, settings: BoxSettings) -> tuple[PodmanChannel, Mapping[str, Any]]:
        """A fresh container; see `Maker.start`."""
        self.prepare(settings.image, lambda _line: None)
        name = f"rcb-env-{secrets.token_hex(8)}"
        uid = next(_uids)
        scratch = f"rw,nosuid,nodev,exec,mode=1777,size={settings.scratch_bytes}"
        environment = {**settings.environment(), "PYTHONPATH": _PACKAGES}
        command = [
            *(program(), "run", "--interactive", "--name", name, "--pull=never"),
            *(f"--label={LABEL}={owner()}", f"--label={RUN_LABEL}={settings.label}"),
            *(
                "--network=none",
                "--ipc=private",
                "--hostname=box",
                "--no-hosts",
                "--http-proxy=false",
            ),
            *("--read-only", "--read-only-tmpfs=false", f"--shm-size={settings.scratch_bytes}b"),
            # As root's, the folders themselves cannot be changed: their permissions stay for the next run.
            *(f"--tmpfs=/work:{scratch}", f"--tmpfs=/tmp:{scratch}", "--workdir=/tmp"),
            *(f"--user={uid}:{uid}", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
            *(*ULIMITS, "--systemd=false"),
            *("--log-driver=none", "--stop-signal=SIGKILL"),
            *self._limits(settings.threads),
            *(f"--env={key}={value}" for key, value in environment.items()),
            *(
                podman_images.tag(settings.image),
                "python3",
                "-s",
                "-S",
                "-P",
                "-B",
                "-c",
                BOOTSTRAP,
            ),
        ]
        return PodmanChannel(command, name), {"uid": uid, "dies_with_parent": False}

    def _limits(self, threads: int) -> list[str]:
        """Those of the whole container that the kernel lets this user set."""
        words = []
        if "memory" in self._limited:
            words += [f"--memory={_MEMORY_BYTES}", f"--memory-swap={_MEMORY_BYTES}"]
        if "pids" in self._limited:
            words += [f"--pids-limit={_PROCESSES}"]
        if "cpu" in self._limited:  # one beyond the threads, for the runner
            words += [f"--cpu-period={_PERIOD_US}", f"--cpu-quota={_PERIOD_US * (threads + 1)}"]
        return words


def _controllers(host: Mapping[str, Any], *, rootless: bool) -> frozenset[str]:
    """What control groups bound here; with version 1 all for root and nothing for anybody else."""
    if host["cgroupVersion"] == "v1":
        return frozenset() if rootless else frozenset(("memory", "pids", "cpu"))
    return frozenset(host.get("cgroupControllers") or ())


class PodmanChannel(ProcessChannel):
    """The standard streams of a ``podman run``."""

    def __init__(self, command: list[str], container: str) -> None:
        self._container = container
        super().__init__(command, "Podman container", new_session=True)

    def _how_it_ended(self) -> tuple[bool, bool]:
        try:
            state = json.loads(podman("inspect", "--format", "{{json .State}}", self._container))
        except SandboxUnavailable:
            return False, True  # the container itself is gone
        out_of_memory = bool(state["OOMKilled"])
        return out_of_memory, not out_of_memory and state["ExitCode"] == 128 + signal.SIGKILL

    def _end_box(self) -> None:
        if self._container:
            _remove(self._container)
            self._container = ""


def remove_containers(*, of_everybody: bool) -> list[str]:
    """Remove containers that no living process owns, or all of them; returns their ids.

    Raises:
        SandboxUnavailable: Podman does not work here.
    """
    told = podman("ps", "--all", "--filter", f"label={LABEL}", "--format", "json")
    found = [
        str(one["Id"])
        for one in json.loads(told or "[]")
        if of_everybody or is_orphan(one["Labels"][LABEL])
    ]
    for container in found:
        _remove(container)
    return found


def _remove(container: str) -> None:
    with contextlib.suppress(SandboxUnavailable):
        podman("rm", "--force", "--volumes", "--ignore", container)
