"""A terminal as a person has one: a real pseudo-terminal, a program in it, and what its screen then shows."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSCTTY, TIOCSWINSZ
from typing import Any

import pytest

pyte = pytest.importorskip("pyte")

RCB = (sys.executable, "-m", "rcb_env.cli")
_DEADLINE_S = 60.0  # for what is waited for; a busy machine may need it


class Terminal:
    """A screen, and the process that writes to it."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int, columns: int, rows: int) -> None:
        self.process = process
        self.raw = b""
        """Everything that was written."""
        self._fd = fd
        self._screen: Any = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def screen(self) -> str:
        """What the screen shows."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def cursor_is_shown(self) -> bool:
        return not self._screen.cursor.hidden

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size, as a window manager does."""
        ioctl(self._fd, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)
        self.process.send_signal(signal.SIGWINCH)

    def until(self, seen: Callable[[str], object]) -> str:
        """Wait for a screen; returns it."""
        deadline = time.monotonic() + _DEADLINE_S
        while not seen(self.screen):
            assert time.monotonic() < deadline, (
                f"not seen in time; the screen shows:\n{self.screen}"
            )
            if not self._read(1.0):
                break
        assert seen(self.screen), f"the program has ended; the screen shows:\n{self.screen}"
        return self.screen

    def end(self) -> int:
        """Read on until the program has ended; returns its exit code."""
        while self._read(_DEADLINE_S):
            pass
        return self.process.wait(_DEADLINE_S)

    def _read(self, wait_s: float) -> bool:
        """Show what comes; False: nothing will come any more."""
        if not select.select([self._fd], [], [], wait_s)[0]:
            return wait_s < _DEADLINE_S
        try:
            piece = os.read(self._fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.raw += piece
        self._stream.feed(piece)
        return bool(piece)


@contextlib.contextmanager
def terminal(
    command: Sequence[str | Path],
    *,
    columns: int = 100,
    rows: int = 24,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Run a command in a terminal of this size, in this folder."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    left_out = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**inherited, "TERM": "xterm-256color", **(environment or {})},
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, TIOCSCTTY, 0) and None,  # so that Ctrl-C is a signal
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours, columns, rows)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
