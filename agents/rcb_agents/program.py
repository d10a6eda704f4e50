"""Running somebody else's program: its output, its time, its end.

Guarantees: a wall-time budget ends the program shortly before it is gone; everything of its process
group is killed when it ends, and when this process does.
Not covered: what it may see (confinement.py). Without a box, processes that leave its session, and a
driver ended by SIGKILL, leave things running.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import functools
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rcb_env import Task

_MAX_OUTPUT_BYTES = 1 << 20  # kept in the trajectory
_FLUSH_BYTES, _FLUSH_S = 8_192, 1.0
_POLL_S = 0.05
_TO_COLLECT_S = 1.0  # kept of the wall-time budget, at most a tenth of it
_TO_END_S = 0.5  # between asking a program to end and killing it


@dataclass
class Ended:
    """How a program ended."""

    code: int
    """As the shell's; negative: the signal that ended it."""
    out_of_time: bool
    last_line: str
    """Of its output."""


@dataclass
class _Output:
    """What a program prints, put into the trajectory as it comes."""

    task: Task
    began: float = field(default_factory=time.monotonic)
    last_line: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _waiting: str = ""
    _seen: int = 0
    _flushed: float = field(default_factory=time.monotonic)

    def add(self, data: bytes) -> None:
        room = max(0, _MAX_OUTPUT_BYTES - self._seen)
        cut = self._seen <= _MAX_OUTPUT_BYTES < self._seen + len(data)
        self._seen += len(data)
        text = self._decoder.decode(data)
        if stripped := text.strip():
            self.last_line = stripped.rpartition("\n")[2][:200]
        self._waiting += text if room >= len(data) else text[:room]
        if cut:
            self._waiting += "\n[further output is left out]\n"
        if len(self._waiting) >= _FLUSH_BYTES or time.monotonic() - self._flushed > _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            elapsed_s = round(time.monotonic() - self.began, 3)
            self.task.record("output", {"text": self._waiting, "elapsed_s": elapsed_s})
        self._waiting, self._flushed = "", time.monotonic()


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], task: Task) -> Ended:
    """Run a command to its end, or to the end of the episode's time; its output goes into the trajectory."""
    left = task.seconds_left()
    reserve_s = 0.0 if left is None else min(_TO_COLLECT_S, left / 10)
    output = _Output(task)
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    _groups().add(process.pid)
    out_of_time = False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            is_open = True
            while not _over(process.pid):
                left = task.seconds_left()
                if left is not None and left <= reserve_s:
                    out_of_time = True
                    break
                if not is_open:
                    time.sleep(_POLL_S)
                elif selector.select(_POLL_S):
                    is_open = _drain(process.stdout, output, once=True)
        if out_of_time:
            _signal(process.pid, signal.SIGTERM)
            # The shell ends at once, what it started may need the time to write its files.
            time.sleep(min(_TO_END_S, reserve_s / 2))
    finally:
        # Before the process is waited for: until then nobody else can get its number.
        _signal(process.pid, signal.SIGKILL)
        process.wait()
        _groups().discard(process.pid)
        _drain(process.stdout, output)
        process.stdout.close()
    output.flush()
    return Ended(process.returncode, out_of_time, output.last_line)


def _drain(stream: IO[bytes], output: _Output, *, once: bool = False) -> bool:
    """Take what there is; False when there will be nothing more."""
    for _ in range(1 if once else 64):  # a process that escaped could go on for ever
        try:
            data = os.read(stream.fileno(), 65_536)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.add(data)
    return True


def _over(pid: int) -> bool:
    """Whether a child has ended; it stays to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal(group: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


@functools.cache
def _groups() -> set[int]:
    """The process groups that are to end with this process."""
    groups: set[int] = set()

    def end() -> None:
        for group in groups.copy():
            _signal(group, signal.SIGKILL)

    atexit.register(end)
    return groups
