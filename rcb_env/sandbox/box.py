"""The host's end of a box: start its runner, ask it to run things, trust nothing it says.

A maker (`Maker`) gives a byte stream to a Python process inside a box; everything else is the same for all makers. A box
serves one test run at a time and is used by one thread at a time. Whatever goes wrong with the box itself is a
`BoxDied`: end of stream, silence past the deadline, an answer that is not the protocol. What goes wrong with the code
in it is a `RunResult`.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from rcb_env.errors import BoxDied
from rcb_env.runner import wire
from rcb_env.runner.conversation import MAX_FRAME_BYTES
from rcb_env.sandbox.bootstrap import served_modules

MIB = 1024 * 1024
# Of a whole box with its zygotes, where a control group bounds it; the runner watches each run's own.
BOX_MEMORY_BYTES = 4096 * MIB
START_DEADLINE_S = 60.0  # to start the runner's interpreter
PRELOAD_DEADLINE_S = 300.0  # to import a paper's packages once
GRACE_S = 15.0  # beyond a run's wall time, and for cleaning up, before the box counts as dead


@dataclass(frozen=True)
class Limits:
    """What one test run may use; passing any of them ends the run."""

    wall_s: float = 20.0  # seconds from the fork to the end of its main process
    cpu_s: float | None = (
        None  # processor seconds of all its processes; None: what fits into the time
    )
    memory_bytes: int = 1024 * MIB  # all its processes together, beyond what the zygote holds
    processes: int = 64  # processes and threads at once
    file_size_bytes: int = 256 * MIB  # the largest single file; its folder may hold less
    open_files: int = 256  # descriptors per process
    output_bytes: int = 32 * 1024  # of stdout and of stderr that is kept (head and tail)
    result_bytes: int = 96 * MIB  # of outputs sent to the host
    message_bytes: int = MAX_FRAME_BYTES  # of one thing said by a run that talks


@dataclass(frozen=True)
class RunRequest:
    """One test run: ``module:function`` in a fresh folder, in a process that has the packages of an image."""

    entry: str
    """The function; it gets the argument and a binary stream for its result."""
    argument: bytes
    """What the function gets."""
    limits: Limits
    """What the run may use."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents by path, relative to the folder."""
    words: Sequence[str] = ()
    """Words to look for in all it prints, also in what is not kept."""
    image: str = "cpu"
    """The image whose boxes may run it."""
    paper: str = ""
    """The paper whose packages are imported beforehand; "": those that are in every image."""


@dataclass(frozen=True)
class RunResult:
    """How a test run ended, and what it left: its outputs, unchecked, and the head and tail of what it printed."""

    ended: Literal["exit", "timeout", "memory", "result"]
    exit_code: int | None  # negative: the signal that ended the process
    result: bytes
    stdout: str
    stderr: str
    words: tuple[str, ...]  # those of the words to look for that it printed
    wall_s: float


@dataclass(frozen=True)
class BoxSettings:
    """How a box is made."""

    image: str = "cpu"  # the lock file its packages come from
    scratch_bytes: int = 64 * MIB  # size of each of its temporary folders, /work and /tmp
    shared_memory_bytes: int = 256 * MIB  # size of /dev/shm, through which processes share tensors
    threads: int = 1  # torch's threads in a test run
    hash_seed: int = 0  # PYTHONHASHSEED
    label: str = ""  # the name of the run that the box is for, where a sandbox has labels

    def environment(self) -> dict[str, str]:
        """The whole environment of the processes in the box."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "USER": "box",  # the name of a user that stands in no list
            "LOGNAME": "box",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": str(self.hash_seed),
            # Zygotes must have one thread to be forked; a test run sets its own number after the fork.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait must not spin: on a busy machine seconds become minutes
            # Boxes have no compiler, the same everywhere: torch.compile gives back what it is given.
            "TORCH_COMPILE_DISABLE": "1",
            "RCB_THREADS": str(self.threads),
        }


class Channel(Protocol):
    """A byte stream to the Python process in a box."""

    def send(self, data: bytes, deadline: float) -> None:
        """Write all of `data`; BoxDied when the box is gone or does not read by the (monotonic) deadline."""

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes; BoxDied when the box is gone or silent at the (monotonic) deadline."""

    def close(self) -> None:
        """End the box and everything in it, at once. Idempotent; never raises."""


class Maker(Protocol):
    """Makes boxes of one kind: all that has to be written for a new kind of sandbox.

    Making one takes no arguments, is quick, and raises `SandboxUnavailable` where such boxes cannot be made.
    """

    name: str
    version: str  # of the tool and the image, as recorded in a run
    bounds_processes: bool  # whether the runner's own limit on processes holds in this kind of box

    def digest(self, image: str) -> str:
        """What identifies the content of an image, or "" when it is not there and a user has to get it."""

    def prepare(self, image: str, progress: Callable[[str], None]) -> None:
        """Do what may take long before the first box with this image starts; tell in short lines what is done.

        Raises:
            SandboxUnavailable: the image cannot be had; says what to do.
        """

    def start(self, settings: BoxSettings) -> tuple[Channel, Mapping[str, Any]]:
        """A fresh box running ``python -c BOOTSTRAP``, and the runner's settings (``uid``).

        Raises:
            SandboxUnavailable: this kind of box cannot be made here; says what to do.
            BoxDied: this one could not be made; another try may work.
        """


class Box:
    """One box with a running runner. Use it from one thread at a time."""

    def __init__(self, maker: Maker, settings: BoxSettings) -> None:
        self.runs = 0
        self._clean = True
        self._cleaning = ""  # the request after which the box still cleans up
        self._zygotes: set[str] = set()
        self._channel, runner = maker.start(settings)
        try:
            boot = {
                "modules": served_modules(),
                "packages": ["rcb_env", "rcb_env.runner"],
                "settings": {**runner, "bounds_processes": maker.bounds_processes},
            }
            data = json.dumps(boot).encode()
            deadline = time.monotonic() + START_DEADLINE_S
            self._channel.send(len(data).to_bytes(4, "big") + data, deadline)
            self._ask({"do": "ping"}, (), START_DEADLINE_S)
        except BaseException:
            self._channel.close()
            raise

    def zygote(self, name: str, preload: Sequence[str], *, parent: str = "") -> bool:
        """Have a zygote of this name that imported `preload`; False when it cannot be had (use its parent).

        A name always stands for the same packages; asking again costs nothing.
        """
        if name in self._zygotes:
            return True
        request = {"do": "zygote", "name": name, "parent": parent, "preload": list(preload)}
        answer, _ = self._ask(request, (), PRELOAD_DEADLINE_S)
        if answer.get("started") is not True:
            return False
        self._zygotes.add(name)
        return True

    def run(self, zygote: str, asked: RunRequest) -> RunResult:
        """Do a test run in a fork of a zygote, by its name; this box must have it.

        Raises:
            BoxDied: the box is gone or does not answer; nothing is known about the run.
        """
        try:
            answer, told = self._ask(*self._request(zygote, asked), asked.limits.wall_s + GRACE_S)
            return self._read_result(answer, told)
        except BoxDied as error:
            error.during_run = True
            raise

    @contextlib.contextmanager
    def talk(self, zygote: str, asked: RunRequest) -> Iterator[Talk]:
        """Start a test run with which one talks while it lasts. One that is left before its end takes the box with it.

        Raises:
            BoxDied: the box is gone; also from the methods of `Talk`.
        """
        self._settle()
        header, blobs = self._request(zygote, asked)
        talk = Talk(self, asked.limits.wall_s + GRACE_S)
        try:
            self._send({**header, "talks": True}, blobs, talk.identity, GRACE_S)
            yield talk
        finally:
            if not talk.over:
                self._clean = False
                self.close()

    def _request(self, zygote: str, asked: RunRequest) -> tuple[dict[str, Any], list[bytes]]:
        self.runs += 1
        request = {
            "do": "run",
            "zygote": zygote,
            "entry": asked.entry,
            "limits": asdict(asked.limits),
            "paths": list(asked.files),
            "words": list(asked.words),
        }
        return request, [asked.argument, *asked.files.values()]

    def _read_result(self, answer: Mapping[str, Any], blobs: Sequence[bytes]) -> RunResult:
        try:
            status = answer["status"]
            result, stdout, stderr = blobs
            if answer["ended"] == "zygote":
                raise self._dead("lost the process its test runs are forked from")
            return RunResult(
                ended=answer["ended"],
                exit_code=None if status is None else _exit_code(int(status)),
                result=result,
                stdout=stdout.decode("utf-8", "replace"),
                stderr=stderr.decode("utf-8", "replace"),
                words=tuple(answer["seen"]),
                wall_s=float(answer["wall_s"]),
            )
        except (KeyError, TypeError, ValueError):
            raise self._dead("answered with something that is not a result") from None

    @property
    def clean(self) -> bool:
        """Whether nothing of a run is left in the box; waits until it has cleaned up after the last."""
        with contextlib.suppress(BoxDied):
            self._settle()
        return self._clean

    def ping(self, timeout_s: float = 5.0) -> None:
        """Raise BoxDied unless the runner answers."""
        self._ask({"do": "ping"}, (), timeout_s)

    def close(self) -> None:
        """End the box. Idempotent."""
        self._channel.close()

    def _ask(
        self, header: Mapping[str, Any], blobs: Sequence[bytes], timeout_s: float
    ) -> wire.Message:
        self._settle()
        deadline = time.monotonic() + timeout_s
        # Whoever can write into the stream, but cannot read the runner's memory, cannot answer in its place.
        identity = secrets.token_hex(16)
        self._send(header, blobs, identity, timeout_s)
        message = self._receive(identity, deadline)
        if header["do"] == "run":
            self._cleaning = identity
        return message

    def _send(
        self, header: Mapping[str, Any], blobs: Sequence[bytes], identity: str, timeout_s: float
    ) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            self._channel.send(wire.pack({**header, "id": identity}, blobs), deadline)
        except BoxDied:
            self._clean = False
            raise

    def _settle(self) -> None:
        """Hear whether the box is clean after the last run."""
        if self._cleaning:
            identity, self._cleaning = self._cleaning, ""
            answer, _ = self._receive(identity, time.monotonic() + GRACE_S)
            self._clean = answer.get("clean") is True

    def _receive(self, identity: str, deadline: float) -> wire.Message:
        try:
            answer, out = wire.unpack(lambda count: self._channel.receive(count, deadline))
            if answer.get("id") != identity:
                raise wire.WireError("sent an answer to another request")
            return answer, out
        except wire.WireError as error:
            raise self._dead(str(error)) from None
        except BoxDied:
            self._clean = False
            raise

    def _dead(self, why: str) -> BoxDied:
        self._clean = False
        self.close()
        return BoxDied(f"a box {why}")


class Talk:
    """A test run with which one talks: it says something, it is answered, until it has ended.

    Attributes:
        identity: of the request.
        over: whether it has ended.
    """

    def __init__(self, box: Box, patience_s: float) -> None:
        self._box, self._patience_s = box, patience_s
        self.identity = secrets.token_hex(16)
        self.over = False

    def hear(self) -> bytes | RunResult:
        """The next thing it says, as it is; or how it ended.

        Raises:
            BoxDied: the box is gone or does not answer.
        """
        try:
            answer, blobs = self._box._receive(self.identity, time.monotonic() + self._patience_s)
            if answer.get("said") is True and len(blobs) == 1:
                return blobs[0]
            self.over = True
            self._box._cleaning = self.identity
            return self._box._read_result(answer, blobs)
        except BoxDied as error:
            error.during_run = True
            raise

    def say(self, data: bytes, *, last: bool = False) -> None:
        """Answer it; after the last word it has a second to end.

        Raises:
            BoxDied: the box is gone or does not take it.
        """
        try:
            self._box._send({"do": "say", "last": last}, [data], self.identity, self._patience_s)
        except BoxDied as error:
            error.during_run = True
            raise


def _exit_code(status: int) -> int:
    return -(status & 0x7F) if status & 0x7F else (status >> 8) & 0xFF
