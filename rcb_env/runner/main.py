"""The runner's loop: one request from the host, one answer, until the host closes the stream.

    {"do": "zygote", "name", "parent", "preload"}     start a zygote, from the runner or from another zygote
    {"do": "run", "zygote", "entry", "limits", "paths"}   blobs: the argument, then one per path
    {"do": "ping"}

A run gets the files of the request in a fresh folder, nothing else. When its process has ended, the answer goes out;
then every process it left is killed and every file, shared memory and message queue removed, and a second message says
whether the box is clean (`clean`). When it is not, the box ends. Wall time, memory of all processes together, and output
are watched here; a run that passes a limit is ended and the answer says which.
Not covered: what a run means. This program knows nothing of papers, cases or verdicts.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any

from rcb_env.runner import confine, wire, zygote

TREE = Path("/work/tree")
_SCRATCH = (Path("/work"), Path("/tmp"), Path("/dev/shm"))
_WATCH_EVERY_S = 0.05
_SWEEP_FOR_S = 5.0
_SOON_S = 0.25  # in which the main process is gone once it has said that it ends
_AT_ONCE = 1 << 15  # bytes that the stream to the host takes without waiting for the host
_CHUNK = 1 << 16
_MAX_PIPE = 1 << 20  # bytes that a pipe can be made to hold
_MAX_FILES_TO_REMOVE = 20_000  # beyond it a new box is quicker
_FILE_BYTES = 1024  # of memory that a file takes besides its content
_KILLS_FILES = (  # where the kernel counts them: control groups of version 2, and of version 1
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
)


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


class Runner:
    """The state of one box: its stream to the host and its zygotes."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)
        self._bounds_processes = bool(settings["bounds_processes"])
        self._zygotes: dict[str, tuple[int, socket.socket]] = {}
        self._spare: tuple[str, int] | None = None  # name of its zygote, process id
        self._keep = {1, os.getpid()}
        self._scratch = [_attributes(folder) for folder in _SCRATCH]
        self._conditions = {os.getpid(): confine.condition(os.getpid())}

    def serve(self) -> None:
        """Answer requests until the host closes the stream."""
        while True:
            try:
                header, blobs = wire.unpack(self._read_exactly)
            except wire.WireError:
                return
            if header["do"] == "run":
                if not self._serve_run(header, blobs):
                    return
                continue
            zygote_wanted = header["do"] == "zygote"
            answer = self._start_zygote(header) if zygote_wanted else {"pid": os.getpid()}
            self._write(wire.pack({**answer, "id": header["id"]}))

    def _serve_run(self, header: dict[str, Any], blobs: list[bytes]) -> bool:
        """Run, answer, clean up and say whether it worked, in this order; returns the last."""
        run, answer, out = self._run(header, blobs)
        self._write(wire.pack({**answer, "id": header["id"]}, out))
        # Who is left may hold up the news of its end: stop its zygote, or trace it.
        is_over = run.is_over(_SOON_S) or (self.sweep() and run.is_over(_SWEEP_FOR_S))
        clean = is_over and self._clean_up()
        self._write(wire.pack({"clean": clean, "id": header["id"]}))
        if clean:
            self._prepare_spare(header["zygote"])
        return clean

    def _read_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = os.read(self._input, min(count - len(data), 1 << 20))
            if not part:
                raise wire.WireError("the host closed the stream")
            data += part
        return bytes(data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._output, view) :]

    def _start_zygote(self, header: dict[str, Any]) -> dict[str, Any]:
        self._drop_spare()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = self._zygotes.get(header.get("parent") or "")
        with theirs:
            if parent is None:
                forget = functools.partial(self._forget_channels, ours)
                pid = zygote.spawn(theirs, forget, header["preload"])
            else:
                request = {"do": "zygote", "preload": header["preload"]}
                zygote.send(parent[1], request, (theirs.fileno(),))
                pid = zygote.receive(parent[1])[0].get("pid", 0)
        report, _ = zygote.receive(ours)
        if not report:
            ours.close()
            return {"started": False, "failed": {}, "threads": 0}
        usable = report["threads"] == 1
        if usable:
            self._zygotes[header["name"]] = (pid, ours)
            self._keep.add(pid)
            self._conditions[pid] = confine.condition(pid)
        else:
            ours.close()
        return {"started": usable, "failed": report["failed"], "threads": report["threads"]}

    def _prepare_spare(self, name: str) -> None:
        """Have the zygote fork the child of its next run now, while the host is busy with the answer to this one."""
        _, channel = self._zygotes[name]
        zygote.send(channel, {"do": "spare"})
        pid = zygote.receive(channel)[0].get("pid", 0)
        if pid:
            self._spare = (name, pid)
            self._keep.add(pid)

    def _drop_spare(self) -> None:
        if self._spare is not None:
            name, pid = self._spare
            zygote.send(self._zygotes[name][1], {"do": "drop"})
            zygote.receive(self._zygotes[name][1])
            self._spare = None
            self._keep.discard(pid)

    def _forget_channels(self, ours: socket.socket) -> None:
        os.close(self._input)
        os.close(self._output)
        for channel in (ours, *(channel for _, channel in self._zygotes.values())):
            channel.close()

    def _run(
        self, header: dict[str, Any], blobs: list[bytes]
    ) -> tuple[_Watch, dict[str, Any], list[bytes]]:
        limits = header["limits"]
        if self._spare is not None and self._spare[0] == header["zygote"]:
            self._keep.discard(self._spare[1])  # from here on it is the run
            self._spare = None
        self._drop_spare()
        _stage(header["paths"], blobs[1:])
        argument = os.memfd_create("argument")
        _write_all(argument, blobs[0])
        pipes = [os.pipe() for _ in range(4)]  # its result, stdout, stderr, and end
        _, channel = self._zygotes[header["zygote"]]
        request = {
            "do": "run",
            "entry": header["entry"],
            "folder": str(TREE),
            "limits": limits,
            "processes_now": len(self._keep) + 1 if self._bounds_processes else None,
        }
        kills_before = _out_of_memory_kills()
        started = time.monotonic()
        zygote.send(channel, request, (argument, *(write for _, write in pipes)))
        os.close(argument)
        for _, write in pipes:
            os.close(write)
        pid = zygote.receive(channel)[0].get("pid", 0)
        reading = [read for read, _ in pipes]
        run = _Watch(self, pid, channel, reading, limits, header["words"], started)
        ended = run.until_the_end() if pid else "zygote"
        if ended == "exit" and _out_of_memory_kills() > kills_before:
            ended = "memory"
        if len(run.result) + run.stdout.total + run.stderr.total > _AT_ONCE:
            self.freeze()  # until the host has taken it, nobody watches what is left
        run.drain()
        seen = sorted(run.stdout.seen | run.stderr.seen)
        answer = {"ended": ended, "status": run.status, "wall_s": run.wall_s, "seen": seen}
        captured = [capture.content() for capture in (run.stdout, run.stderr)]
        return run, answer, [bytes(run.result), *captured]

    def others(self) -> list[int]:
        """Every living process of the box but init, the runner and the zygotes."""
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if pid not in self._keep and _lives(pid)
        ]

    def host_is_gone(self) -> bool:
        """Whether the host closed its end while a run was under way."""
        poll = select.poll()
        poll.register(self._input, select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    def freeze(self) -> None:
        """Stop every process of the run. This is one step for the kernel: a fork bomb cannot outrun it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
        self._wake_zygotes()

    def _wake_zygotes(self) -> None:
        for pid, _ in self._zygotes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def sweep(self) -> bool:
        """Kill every process of the run, and have the zygotes go on that it stopped; returns whether all are gone."""
        deadline = time.monotonic() + _SWEEP_FOR_S
        while self.others():
            self.freeze()
            for pid in self.others():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return False
        self._wake_zygotes()
        return True

    def _clean_up(self) -> bool:
        if not self.sweep():
            return False
        zygote.reap()
        confine.remove_system_v_objects()
        if _files() > _MAX_FILES_TO_REMOVE:
            return False
        try:
            emptied = all(_empty(folder) for folder in _SCRATCH)
            emptied = emptied and [_attributes(folder) for folder in _SCRATCH] == self._scratch
        except (OSError, RecursionError):
            return False
        return emptied and self._is_as_it_was()

    def _is_as_it_was(self) -> bool:
        """Whether the processes that stay are alive and nobody of the same user has changed them."""
        if not all(self._answers(channel) for _, channel in self._zygotes.values()):
            return False
        try:
            return all(confine.condition(pid) == was for pid, was in self._conditions.items())
        except OSError:
            return False

    def _answers(self, channel: socket.socket) -> bool:
        """Whether a zygote answers, and had said nothing unasked. One that was just killed may look alive for a while."""
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        if poll.poll(0):
            return False
        try:
            zygote.send(channel, {"do": "ping"})
            return bool(poll.poll(_SWEEP_FOR_S * 1000)) and zygote.receive(channel)[0] == {
                "alive": True
            }
        except OSError:
            return False


class _Watch:
    """One test run, watched from its start to its end."""

    def __init__(
        self,
        runner: Runner,
        pid: int,
        channel: socket.socket,
        pipes: list[int],
        limits: dict[str, Any],
        words: list[str],
        started: float,
    ) -> None:
        self._runner, self._pid, self._channel, self._limits = runner, pid, channel, limits
        self._started = started
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

    def until_the_end(self) -> str:
        """Wait for the run's main process; returns exit, timeout, memory, result (too large) or zygote (it died)."""
        deadline = self._started + self._limits["wall_s"]
        next_look = self._started + _WATCH_EVERY_S
        ended = ""
        while True:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + _WATCH_EVERY_S
                zygote.reap()
                if self._runner.host_is_gone():
                    os._exit(0)
                if not ended and self._memory_bytes() > self._limits["memory_bytes"]:
                    ended = self._stop("memory")
            if not ended and now >= deadline:
                ended = self._stop("timeout")
            if not ended and len(self.result) > self._limits["result_bytes"]:
                ended = self._stop("result")
            wait_s = next_look - now if ended else min(next_look, deadline) - now
            for descriptor, _ in self._poll.poll(max(0.0, wait_s) * 1000):
                if descriptor == self._end:
                    if not self._read_end():
                        continue
                elif descriptor != self._channel.fileno():
                    self._read(descriptor)
                    continue
                elif not self._hear_of_the_end():
                    ended = "zygote"
                self.wall_s = time.monotonic() - self._started
                return ended or "exit"

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
        self._runner.sweep()  # all of them: a process that traces another keeps the news of its end
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
            self._poll.unregister(descriptor)
            del self._open[descriptor]
            os.close(descriptor)
            return False
        capture = self._open[descriptor]
        if capture is not None:
            capture.feed(data)
        elif len(self.result) <= self._limits["result_bytes"]:
            self.result += data
        return True

    def _memory_bytes(self) -> int:
        """Memory of all processes of the run: first a cheap upper bound, and the exact share only above the limit."""
        others = self._runner.others()
        for pid in filter(_is_headless, others):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        total = sum(_proc_kib(pid, "status", ("RssAnon", "RssShmem", "VmPTE")) for pid in others)
        if total * 1024 > self._limits["memory_bytes"]:
            self._runner.freeze()  # so that a horde of processes cannot starve the count
            others = self._runner.others()
            total = sum(map(_share_kib, others))
            if total * 1024 <= self._limits["memory_bytes"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGCONT)
        return total * 1024 + _files() * _FILE_BYTES


def _out_of_memory_kills() -> int:
    """How many processes of this box the kernel has killed for memory, where the box has a control group of its own."""
    for file in _KILLS_FILES:
        with contextlib.suppress(OSError):
            rows = (line.split() for line in Path(file).read_text().splitlines())
            return sum(int(row[1]) for row in rows if row[0] == "oom_kill")
    return 0


def _proc_kib(pid: int, file: str, fields: tuple[str, ...]) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:
        return 0
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0].rstrip(":") in fields)


def _share_kib(pid: int) -> int:
    """A process's share of the memory in use; all that it sees where it does not let its share be read."""
    share = _proc_kib(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"))
    share = share or _proc_kib(pid, "status", ("RssAnon", "RssShmem"))
    return share + _proc_kib(pid, "status", ("VmPTE",))


def _files() -> int:
    """How many files and folders a run has made."""
    total = 0
    for folder in _SCRATCH:
        with contextlib.suppress(OSError):
            space = os.statvfs(folder)
            total += space.f_files - space.f_ffree
    return total


def _state(pid: int) -> tuple[str, int]:
    """The state of a process's first thread, and how many threads it has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X", 0
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[17])


def _lives(pid: int) -> bool:
    state, threads = _state(pid)
    return state not in "ZX" or threads > 1


def _is_headless(pid: int) -> bool:
    """Whether only the first thread of a process has ended. Nobody can see the memory of such a one."""
    state, threads = _state(pid)
    return state == "Z" and threads > 1


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _stage(paths: list[str], contents: list[bytes]) -> None:
    TREE.mkdir(parents=True)
    made = {TREE}
    for path, content in zip(paths, contents, strict=True):
        target = TREE / path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        target.write_bytes(content)


def _empty(folder: Path) -> bool:
    """Remove what is in a folder, whatever its modes; nobody is left who could put something in its place meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        _remove_entries(str(folder))
        return not os.listdir(folder)
    return True


def _remove_entries(folder: str) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            _remove_entries(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def _attributes(folder: Path) -> tuple[object, ...]:
    """What code may change of a scratch folder where it owns it; the times are put back."""
    with contextlib.suppress(PermissionError):
        os.utime(folder, (0, 0))
    status = folder.stat()
    return status.st_mode, status.st_uid, status.st_gid, tuple(os.listxattr(folder))


def main(settings: dict[str, Any]) -> None:
    """Run until the host closes the stream."""
    confine.become_unprivileged(settings["uid"], dies_with_parent=settings["dies_with_parent"])
    confine.set_dumpable(False)
    for ignored in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    Runner(settings).serve()
