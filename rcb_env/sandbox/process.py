"""The standard streams of a program that makes a box and stays until it ends, as bubblewrap and Podman do."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO

from rcb_env.errors import BoxDied


class ProcessChannel:
    """A byte stream to the Python process in a box that a command made; see `rcb_env.sandbox.box.Channel`.

    Args:
        command: the program and its arguments; its standard input and output are the box's.
        what: how messages call the box.
        new_session: whether Ctrl-C in the terminal shall not reach the program.
    """

    def __init__(self, command: Sequence[str], what: str, *, new_session: bool = False) -> None:
        self._what = what
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=new_session,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._closing = threading.Lock()

    def send(self, data: bytes, deadline: float) -> None:
        """See `Channel.send`."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                self._wait(self._in, select.POLLOUT, deadline)
            except (OSError, ValueError):
                raise self._dead("ended") from None

    def receive(self, count: int, deadline: float) -> bytes:
        """See `Channel.receive`."""
        data = bytearray()
        while len(data) < count:
            try:
                part = os.read(self._out, count - len(data))
            except BlockingIOError:
                self._wait(self._out, select.POLLIN, deadline)
                continue
            except (OSError, ValueError):
                raise self._dead("ended") from None
            if not part:
                raise self._dead("ended")
            data += part
        return bytes(data)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise self._dead("did not answer in time")

    def _dead(self, why: str) -> BoxDied:
        said = ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            said = self._errors.read(4000).decode("utf-8", "replace").strip()
        out_of_memory, from_outside = self._how_it_ended() if why == "ended" else (False, False)
        self.close()
        what = f"a {self._what} {why}{': ' + said.splitlines()[-1] if said else ''}"
        return BoxDied(what, out_of_memory=out_of_memory, from_outside=from_outside)

    def _how_it_ended(self) -> tuple[bool, bool]:
        """Whether the kernel ended the box for memory, and whether somebody outside did."""
        raise NotImplementedError

    def _end_box(self) -> None:
        """End what the program started and would leave behind."""
        raise NotImplementedError

    def close(self) -> None:
        """See `Channel.close`."""
        with self._closing:
            self._end_box()
            self._process.kill()
            self._process.wait()
            self._in = self._out = -1
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
