"""A run that talks while it runs: frames from its process to the host and back, one at a time.

    4 bytes big-endian length | that many bytes

The process says a frame, and then it is the host's turn: nothing more is read from the process until the host has
answered; what the host does in between costs the run next to no time (`watch.py`). `Line` is the runner's side of it,
`Voice` the process's. A process that says half a frame, too long a frame or several at once harms nobody: its own time
runs, its own run ends, or the rest waits.
Not covered: what is said (`open_run.py`), and limits other than a frame's length (`watch.py`).
"""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO

MAX_FRAME_BYTES = 8 * 1024 * 1024
_LENGTH = 4


class Over(Exception):
    """Nothing more will be said."""


class Line:
    """The runner's side of a conversation between a run and the host.

    Args:
        inbox: the pipe on which the process hears; not blocking. Closed by `close`.
        most_bytes: the longest frame a process may say.
    """

    def __init__(self, inbox: int, most_bytes: int) -> None:
        self.inbox = inbox
        self._most_bytes = most_bytes
        self._said = bytearray()
        self._to_write = memoryview(b"")
        self.waits = False
        """Whether it is the host's turn."""
        self._ends = False

    def feed(self, data: bytes) -> bool:
        """Take what the process wrote; False: a frame of it is too long."""
        if self._ends:  # nobody listens any more
            return True
        self._said += data
        return self._length() <= self._most_bytes

    def _length(self) -> int:
        return int.from_bytes(self._said[:_LENGTH], "big") if len(self._said) >= _LENGTH else 0

    def frame(self) -> bytes | None:
        """A whole frame that has not been taken yet; from then on it is the host's turn."""
        end = _LENGTH + self._length()
        if self.waits or self._ends or len(self._said) < max(end, _LENGTH):
            return None
        frame = bytes(self._said[_LENGTH:end])
        del self._said[:end]
        self.waits = True
        return frame

    def answer(self, data: bytes, *, last: bool) -> None:
        """Take the host's answer."""
        self.waits = False
        self._ends = self._ends or last
        if self.inbox >= 0:
            self._to_write = memoryview(
                bytes(self._to_write) + len(data).to_bytes(_LENGTH, "big") + data
            )

    def pour(self) -> bool:
        """Write as much to the process as its pipe takes; whether something is left."""
        try:
            while self._to_write:
                self._to_write = self._to_write[os.write(self.inbox, self._to_write) :]
        except BlockingIOError:
            return True
        except OSError:  # it does not listen any more
            self._to_write = memoryview(b"")
        if self._ends:
            self.close()
        return False

    def close(self) -> None:
        """Let the process hear that nothing more will be said. Idempotent."""
        if self.inbox >= 0:
            os.close(self.inbox)
            self.inbox = -1


class Voice:
    """The process's side: says frames and hears frames."""

    def __init__(self, result: BinaryIO, inbox: BinaryIO) -> None:
        self._result, self._inbox = result, inbox
        self._turn = (
            os.pipe()
        )  # holds one byte while nobody speaks: a lock between threads, and between processes
        os.write(self._turn[1], b".")

    def ask(self, frame: bytes) -> bytes:
        """Say a frame and hear the answer to it, whichever threads and forks of the process do so at once.

        Raises:
            ValueError: the frame is too long.
            Over: nothing more will be said.
        """
        os.read(self._turn[0], 1)
        try:
            self.say(frame)
            return self.hear()
        finally:
            os.write(self._turn[1], b".")

    def say(self, frame: bytes) -> None:
        """Say a frame.

        Raises:
            ValueError: it is too long.
        """
        if len(frame) > MAX_FRAME_BYTES:
            most = MAX_FRAME_BYTES >> 20
            raise ValueError(f"{len(frame)} bytes at once are too large; {most} MB may be said")
        self._result.write(len(frame).to_bytes(_LENGTH, "big") + frame)
        self._result.flush()

    def say_last(self, frame: bytes) -> None:
        """Say a frame, and wait until it was taken: what a process says as it ends may be lost."""
        self.say(frame)
        with contextlib.suppress(Over):
            self.hear()

    def hear(self) -> bytes:
        """The next frame.

        Raises:
            Over: nothing more will be said.
        """
        length = self._inbox.read(_LENGTH)
        if len(length) < _LENGTH:
            raise Over("the conversation is over")
        frame = self._inbox.read(int.from_bytes(length, "big"))
        if len(frame) < int.from_bytes(length, "big"):
            raise Over("the conversation is over")
        return frame
