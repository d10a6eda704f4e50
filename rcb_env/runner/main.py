"""The runner's loop: one request from the host, one answer, until the host closes the stream.

    {"do": "zygote", "name", "parent", "preload"}     start a zygote, from the runner or from another zygote
    {"do": "run", "zygote", "entry", "limits", "paths"}   blobs: the argument, then one per path
    {"do": "say", "last"}     blob: a frame; an answer to what a run that talks has said (`conversation.py`)
    {"do": "ping"}

Such a run ("talks" in its request) has messages {"said": true} with a frame as blob go out while it lasts. A run gets the files of the request in a fresh folder, nothing else. When its process has ended, the answer goes out;
then every process it left is killed and every file, shared memory and message queue removed, and a second message says
whether the box is clean (`clean`). When it is not, the box ends. Wall time, memory of all processes together, and output
are watched (`watch.py`); a run that passes a limit is ended and the answer says which.
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
from typing import Any

from rcb_env.runner import confine, folders, memory, namespaces, processes, wire, zygote
from rcb_env.runner.conversation import Line
from rcb_env.runner.watch import Watch

_SWEEP_FOR_S = 5.0
_SOON_S = 0.25  # in which the main process is gone once it has said that it ends
_AT_ONCE = 1 << 15  # bytes that the stream to the host takes without waiting for the host
_MAX_FILES_TO_REMOVE = 20_000  # beyond it a new box is quicker


class Runner:
    """The state of one box: its stream to the host and its zygotes."""

    def __init__(self, settings: dict[str, Any], group: memory.Group, *, own_folders: bool) -> None:
        self.host, self._output = os.dup(0), os.dup(1)
        self._serves = ""  # the request that is being done
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)
        self._bounds_processes = bool(settings["bounds_processes"])
        self._zygotes: dict[str, tuple[int, socket.socket]] = {}
        self._spare: tuple[str, int] | None = None  # name of its zygote, process id
        self._keep = {1, os.getpid()}
        self.group = group
        self._own_folders = (
            own_folders  # and not the maker's, which nobody in the box can make anew
        )
        self._scratch = [folders.attributes(folder) for folder in folders.SCRATCH]
        self._conditions = {os.getpid(): confine.condition(os.getpid())}

    def serve(self) -> None:
        """Answer requests until the host closes the stream."""
        while True:
            try:
                header, blobs = wire.unpack(self._read_exactly)
            except wire.WireError:
                return
            if header["do"] == "say":
                continue  # to a run that has ended meanwhile
            if header["do"] == "run":
                if not self._serve_run(header, blobs):
                    return
                continue
            zygote_wanted = header["do"] == "zygote"
            answer = self._start_zygote(header) if zygote_wanted else {"pid": os.getpid()}
            self._write(wire.pack({**answer, "id": header["id"]}))

    def _serve_run(self, header: dict[str, Any], blobs: list[bytes]) -> bool:
        """Run, answer, clean up and say whether it worked, in this order; returns the last."""
        self._serves = header["id"]
        run, answer, out = self._run(header, blobs)
        self._write(wire.pack({**answer, "id": header["id"]}, out))
        # Who is left may hold up the news of its end: stop its zygote, or trace it.
        is_over = run.is_over(_SOON_S) or (self.sweep() and run.is_over(_SWEEP_FOR_S))
        clean = is_over and self._clean_up()
        self._write(wire.pack({"clean": clean, "id": header["id"]}))
        if clean:
            self.group.mark()
            self._prepare_spare(header["zygote"])
        return clean

    def _read_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = os.read(self.host, min(count - len(data), 1 << 20))
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
        self.group.mark()
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
        self.group.close()
        os.close(self.host)
        os.close(self._output)
        for channel in (ours, *(channel for _, channel in self._zygotes.values())):
            channel.close()

    def _run(
        self, header: dict[str, Any], blobs: list[bytes]
    ) -> tuple[Watch, dict[str, Any], list[bytes]]:
        limits = header["limits"]
        if self._spare is not None and self._spare[0] == header["zygote"]:
            self._keep.discard(self._spare[1])  # from here on it is the run
            self._spare = None
        self._drop_spare()
        folders.stage(header["paths"], blobs[1:])
        argument = os.memfd_create("argument")
        _write_all(argument, blobs[0])
        pipes = [os.pipe() for _ in range(4)]  # its result, stdout, stderr, and end
        hears, line = self._line(limits) if header.get("talks") else ((), None)
        _, channel = self._zygotes[header["zygote"]]
        request = {
            "do": "run",
            "entry": header["entry"],
            "folder": str(folders.TREE),
            "limits": limits,
            "processes_now": len(self._keep) + 1 if self._bounds_processes else None,
        }
        kills_before = self.group.kills()
        started = time.monotonic()
        given = (argument, *(write for _, write in pipes), *hears)
        zygote.send(channel, request, given)
        for descriptor in given:
            os.close(descriptor)
        pid = zygote.receive(channel)[0].get("pid", 0)
        reading = [read for read, _ in pipes]
        run = Watch(self, pid, channel, reading, limits, header["words"], started, line)
        ended = run.until_the_end() if pid else "zygote"
        if ended == "exit" and self.group.kills() > kills_before:
            ended = "memory"
        if len(run.result) + run.stdout.total + run.stderr.total > _AT_ONCE:
            self.freeze()  # until the host has taken it, nobody watches what is left
        run.drain()
        seen = sorted(run.stdout.seen | run.stderr.seen)
        answer = {"ended": ended, "status": run.status, "wall_s": run.wall_s, "seen": seen}
        captured = [capture.content() for capture in (run.stdout, run.stderr)]
        return run, answer, [bytes(run.result), *captured]

    def _line(self, limits: dict[str, Any]) -> tuple[tuple[int, ...], Line]:
        """What a run that talks hears from, and the line to it."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        return (read,), Line(write, limits["message_bytes"])

    def tell_host(self, frame: bytes) -> None:
        """Hand a frame of the run to the host."""
        self._write(wire.pack({"said": True, "id": self._serves}, [frame]))

    def hear_host(self) -> tuple[bytes, bool]:
        """What the host answers, and whether it is the last word."""
        try:
            header, blobs = wire.unpack(self._read_exactly)
        except wire.WireError:
            os._exit(0)  # the host is gone
        return blobs[0], bool(header["last"])

    def others(self) -> list[int]:
        """Every living process of the box but init, the runner and the zygotes."""
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if pid not in self._keep and processes.lives(pid)
        ]

    def host_is_gone(self) -> bool:
        """Whether the host closed its end while a run was under way."""
        poll = select.poll()
        poll.register(self.host, select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    def freeze(self) -> None:
        """Stop every process of the run. This is one step for the kernel: a fork bomb cannot outrun it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
        self._wake_zygotes()

    def is_frozen(self) -> bool:
        """Whether every process of the run is stopped."""
        return all(map(processes.is_stopped, self.others()))

    def thaw(self) -> None:
        """Have every process of the run go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGCONT)

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
        return self._empty_folders() and self._is_as_it_was()

    def _empty_folders(self) -> bool:
        try:
            if self._own_folders:
                namespaces.renew_scratch(folders.SCRATCH)
                return True
            if folders.count_files() > _MAX_FILES_TO_REMOVE:
                return False
            return all(folders.empty(folder) for folder in folders.SCRATCH) and self._scratch == [
                folders.attributes(folder) for folder in folders.SCRATCH
            ]
        except (OSError, RecursionError):
            return False

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


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main(settings: dict[str, Any]) -> None:
    """Run until the host closes the stream."""
    confine.become_unprivileged(settings["uid"], dies_with_parent=settings["dies_with_parent"])
    confine.set_dumpable(True)  # while it says who is who in the namespace it makes
    own = namespaces.enter_own()
    confine.set_dumpable(False)
    os.chdir("/")
    for ignored in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    group = memory.Group()
    if own:
        namespaces.hide(memory.GROUP_PLACE)  # what it counts would tell a run of the runs before
    own_folders = own and namespaces.mount_scratch(folders.SCRATCH)
    Runner(settings, group, own_folders=own_folders).serve()
