"""One test run, watched from its start to its end: its limits, its output, and how it ended.

A run that talks (`conversation.py`) has each of its frames handed to the host as it comes. Where the host takes more than
two milliseconds to answer, every process of the run is stopped until it has, and the run's clock with them: nothing is
computed for free. For a time in which one of them is seen to go on, say by a timer that wakes it, the clock goes on, too.
Not covered: one that goes on, and stops itself before each look.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import time
from typing import Any, Protocol

from rcb_env.runner import memory, processes, zygote
from rcb_env.runner.conversation import Line

_WATCH_EVERY_S = 0.05
_CHUNK = 1 << 16
_MAX_PIPE = 1 << 20  # bytes that a pipe can be made to hold
_SOON_S = (
    0.002  # in which an answer may come before a run is stopped for it: to stop it takes time, too
)
_LAST_S = 1.0  # in which a run that has been told the last word has to end


class Capture:
    """The head and the tail of a stream that may be endless, in bounded memory, and which words it held."""

    def __init__(self, limit: int, words: list[str]) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._end = b""  # what a word that continues in the next chunk may have begun with
        self._words = [word.encode() for word in words]
        self.total = 0
        self.seen: set[str] = set()

    def feed(self, data: bytes) -> None:
        """Take the next chunk of the stream."""
        self.total += len(data)
        if self._words:
            text = self._end + data
            self.seen |= {word.decode() for word in self._words if word in text}
            self._end = text[-max(map(len, self._words)) :]
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            del self._tail[: -self._half]

    def content(self) -> bytes:
        """What is kept of the stream, with a mark where something was left out."""
        left_out = self.total - len(self._head) - len(self._tail)
        mark = f"\n[… {left_out} bytes left out …]\n".encode() if left_out else b""
        return bytes(self._head) + mark + bytes(self._tail)


class Surroundings(Protocol):
    """What the watch needs of what is around a run."""

    group: memory.Group
    host: int
    """Where the host can be heard."""

    def tell_host(self, frame: bytes) -> None:
        """Hand a frame of the run to the host."""

    def hear_host(self) -> tuple[bytes, bool]:
        """What the host answers, and whether it is the last word."""

    def others(self) -> list[int]:
        """Every living process but those that stay."""

    def host_is_gone(self) -> bool:
        """Whether nobody waits for the run any more."""

    def freeze(self) -> None:
        """Stop every process of the run."""

    def is_frozen(self) -> bool:
        """Whether every process of the run is stopped."""

    def thaw(self) -> None:
        """Have every process of the run go on."""

    def sweep(self) -> bool:
        """Kill every process of the run."""


class Watch:
    """One test run, watched from its start to its end."""

    def __init__(
        self,
        surroundings: Surroundings,
        pid: int,
        channel: socket.socket,
        pipes: list[int],
        limits: dict[str, Any],
        words: list[str],
        started: float,
        line: Line | None = None,
    ) -> None:
        self._surroundings, self._pid, self._channel, self._limits = (
            surroundings,
            pid,
            channel,
            limits,
        )
        self._started = started
        self._line = line
        self._deadline = started + limits["wall_s"]
        self._waited_s = self._looked = 0.0
        self._freeze_at = math.inf  # when to stop the run that waits
        self._stands = False  # whether it was stopped
        self._forks = False  # whether it was seen to have several processes
        self._too_long = False
        self.result = bytearray()
        self.stdout = Capture(limits["output_bytes"], words)
        self.stderr = Capture(limits["output_bytes"], words)
        self._end = pipes.pop()
        self._open = dict(zip(pipes, (None, self.stdout, self.stderr), strict=True))
        self.status: int | None = None  # as waitpid gives it
        self.wall_s = 0.0
        self._is_over = False
        self._poll = select.poll()
        os.set_blocking(self._end, False)
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)
        for end in (self._end, channel):
            self._poll.register(end, select.POLLIN)
        self._says = pipes[0]
        if line is not None:
            self._poll.register(surroundings.host, select.POLLIN)

    def until_the_end(self) -> str:
        """Wait for the run's main process; returns exit, timeout, memory, result (too large) or zygote (it died)."""
        next_look = self._started + _WATCH_EVERY_S
        ended = ""
        while True:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + _WATCH_EVERY_S
                zygote.reap()
                if self._surroundings.host_is_gone():
                    os._exit(0)
                if self._stands:
                    self._look()
                if not ended and self._memory_bytes() > self._limits["memory_bytes"]:
                    ended = self._stop("memory")
                if not ended and self._is_over_its_cpu():
                    ended = self._stop("timeout")
            if now >= self._freeze_at:
                self._freeze_at, self._stands, self._looked = math.inf, True, now
                self._surroundings.freeze()
            if not ended and now >= self._deadline and not self._waits:
                ended = self._stop("timeout")
            if not ended and (self._too_long or len(self.result) > self._limits["result_bytes"]):
                ended = self._stop("result")
            until = next_look if ended or self._waits else min(next_look, self._deadline)
            wait_s = min(until, self._freeze_at) - now
            for descriptor, _ in self._poll.poll(max(0.0, wait_s) * 1000):
                if self._line is not None and self._talks(self._line, descriptor):
                    continue
                if descriptor == self._end:
                    if not self._read_end():
                        continue
                elif descriptor != self._channel.fileno():
                    self._read(descriptor)
                    continue
                elif not self._hear_of_the_end():
                    ended = "zygote"
                self.wall_s = time.monotonic() - self._started - self._waited_s
                return ended or "exit"

    @property
    def _waits(self) -> bool:
        return self._line is not None and self._line.waits

    def _talks(self, line: Line, descriptor: int) -> bool:
        """Pass on what one of the two has said to the other; whether this descriptor was about that."""
        if descriptor == self._surroundings.host:
            told, last = self._surroundings.hear_host()
            if self._stands:
                self._look()
                self._surroundings.thaw()
            self._freeze_at, self._stands = math.inf, False
            line.answer(told, last=last)
            if last:
                self._deadline = min(self._deadline, time.monotonic() + _LAST_S)
        elif descriptor != line.inbox:
            return False
        inbox = line.inbox
        if line.pour():  # who does not listen is not heard, or answers would pile up here
            self._poll.register(inbox, select.POLLOUT)
            return True
        if inbox >= 0:
            with contextlib.suppress(KeyError):
                self._poll.unregister(inbox)
        if self._says in self._open:
            self._poll.register(self._says, select.POLLIN)
        self._pass_on(line)
        return True

    def _pass_on(self, line: Line) -> None:
        """Hand the next frame of the run to the host, and read no more of the run until it has answered."""
        frame = line.frame()
        if frame is not None:
            if self._says in self._open:
                self._poll.unregister(self._says)
            self._freeze_at = time.monotonic() + _SOON_S
            self._surroundings.tell_host(frame)

    def _look(self) -> None:
        """Take the time since the last look off the clock, if all of the run stands still, as it should."""
        now = time.monotonic()
        if self._surroundings.is_frozen():
            self._waited_s += now - self._looked
            self._deadline += now - self._looked
        else:
            self._surroundings.freeze()
        self._looked = now

    def _read_end(self) -> bool:
        """Whether the main process has said that it ends, and with which code."""
        try:
            code = os.read(self._end, 1)
        except BlockingIOError:  # another process of the run was quicker
            return False
        if not code:
            self._poll.unregister(self._end)  # it ends without a word
            return False
        self.status = code[0] << 8
        return True

    def _stop(self, reason: str) -> str:
        self._surroundings.sweep()  # all of them: a process that traces another keeps the news of its end
        return reason

    def is_over(self, wait_s: float) -> bool:
        """Whether the main process is gone; ends it if need be. False: its zygote does not say so in time."""
        if not self._is_over and self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)
            if select.select([self._channel], [], [], wait_s)[0]:
                self._hear_of_the_end()
        return self._is_over

    def _hear_of_the_end(self) -> bool:
        report, _ = zygote.receive(self._channel)
        self._is_over = bool(report)
        if self.status is None:
            self.status = report.get("status")
        return self._is_over

    def drain(self) -> None:
        """Take what is still in the pipes, of which somebody who is left may yet fill one as it is read."""
        if self._line is not None:  # nobody would answer any more
            self._line.close()
            if self._says in self._open:
                del self._open[self._says]
                os.close(self._says)
        for descriptor in list(self._open):
            for _ in range(_MAX_PIPE // _CHUNK + 1):
                if not self._read(descriptor):
                    break
            if descriptor in self._open:
                os.close(descriptor)
        os.close(self._end)

    def _read(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            with contextlib.suppress(KeyError):
                self._poll.unregister(descriptor)
            del self._open[descriptor]
            os.close(descriptor)
            return False
        capture = self._open[descriptor]
        if capture is not None:
            capture.feed(data)
        elif self._line is not None:
            self._too_long = not self._line.feed(data)
            if not self._too_long:
                self._pass_on(self._line)
        elif len(self.result) <= self._limits["result_bytes"]:
            self.result += data
        return True

    def _is_over_its_cpu(self) -> bool:
        """Whether the run used more processor time than it may.

        What a child used that nobody waited for is told nowhere, so for a run that was seen to have several processes every
        second by the clock counts.
        """
        limit: float | None = self._limits["cpu_s"]
        if limit is None:
            return False
        others = self._surroundings.others()
        self._forks = self._forks or len(others) > 1
        by_the_clock = time.monotonic() - self._started - self._waited_s
        used = sum(map(processes.cpu_s, others))
        return limit < (max(used, by_the_clock) if self._forks else used)

    def _memory_bytes(self) -> int:
        """Memory that the run holds: first a cheap upper bound, and exactly only above the limit."""
        others = self._surroundings.others()
        for pid in filter(processes.is_headless, others):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        limit, group = self._limits["memory_bytes"], self._surroundings.group
        if group.exists:  # what the runner itself has received is in it, too
            apart = 0 if group.counts_connections else memory.in_connections(others)
            apart -= len(self.result)
            total = group.at_most() + apart
            return total if total <= limit else group.exactly() + apart
        total = memory.at_most(others)
        if total > limit:
            self._surroundings.freeze()  # so that a horde of processes cannot starve the count
            total = memory.exactly(self._surroundings.others())
            if total <= limit and not self._stands:
                self._surroundings.thaw()
        return total
