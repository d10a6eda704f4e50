"""A zygote: a process that has imported the heavy packages once and forks a fresh child for every test run.

It can fork the child of the next run ahead of it, the *spare*: a fork of a process with torch, and the memory pages that
any first computation takes, cost more than most tests. The runner asks for a spare when a run has been swept away, and
has it dropped before a run of another zygote, so that no spare ever lives beside code of a candidate. At the other end,
a child says by a byte, its exit code, that it has done and written everything: that its memory goes takes long, too.

It talks to the runner over a Unix socket, one JSON datagram a message; file descriptors travel beside it. It has one
thread (a fork of a process with more is not safe) and says so when a package it preloaded started another. It runs no
code of a paper and none of an agent: only its children do, and each of them ends with its run.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from rcb_env.runner import confine, namespaces

_MAX_DATAGRAM = 1 << 18


def send(
    channel: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()
) -> None:
    """Send one message, with file descriptors for the other end."""
    control = (
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        if descriptors
        else []
    )
    channel.sendmsg([json.dumps(message).encode()], control)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and its file descriptors; an empty message when the other end is gone."""
    data, control, _, _ = channel.recvmsg(_MAX_DATAGRAM, socket.CMSG_SPACE(8 * 4))
    descriptors = array.array("i")
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return (json.loads(data) if data else {}), list(descriptors)


def spawn(
    channel: socket.socket, close: Callable[[], None], preload: list[str], *, first: bool = True
) -> int:
    """Fork this process into a zygote that serves `channel`; returns its pid (in the parent).

    Args:
        channel: the zygote's end.
        close: closes what the zygote must not have.
        preload: modules to import.
        first: whether it is no zygote's child, and so shares its memory with none.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        close()
        _serve(channel, preload, first)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _serve(channel: socket.socket, preload: list[str], first: bool) -> NoReturn:
    confine.set_dumpable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    failed = {}
    for name in preload:
        try:
            importlib.import_module(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"[:300]
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    gc.collect()
    gc.freeze()  # children must not copy the pages of what is here for good
    if first:  # others would no longer share their parent's pages
        confine.use_huge_pages()
    threads = len(os.listdir("/proc/self/task"))
    send(channel, {"ready": True, "failed": failed, "threads": threads})
    spare: tuple[int, socket.socket] | None = None
    while True:
        message, descriptors = receive(channel)
        if not message:
            os._exit(0)
        if message["do"] == "ping":
            reap()
            send(channel, {"alive": True})
            continue
        if message["do"] == "zygote":
            peer = socket.socket(fileno=descriptors[0])
            send(channel, {"pid": spawn(peer, channel.close, message["preload"], first=False)})
            peer.close()
            continue
        if message["do"] == "spare":
            spare = _fork_spare(channel)
            send(channel, {"pid": spare[0]})
            continue
        pid = 0
        if spare is not None:
            pid = _use_or_drop(spare, message, descriptors)
            spare = None
        if message["do"] == "drop":
            send(channel, {"dropped": True})
            continue
        if not pid:
            pid = os.fork()
            if pid == 0:
                channel.close()
                _separate()
                _test_run(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        send(channel, {"pid": pid})
        send(channel, {"status": os.waitpid(pid, 0)[1]})


def reap() -> None:
    """Take the ends of children nobody waits for.

    The runner has those whose parents are gone, and a zygote those that a test run made its siblings.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork_spare(channel: socket.socket) -> tuple[int, socket.socket]:
    """Fork the child of the next run; returns its process id and where it waits for its message."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        channel.close()
        ours.close()
        _wait_for_run(theirs)
    theirs.close()
    return pid, ours


def _wait_for_run(channel: socket.socket) -> NoReturn:
    try:
        _separate()
        if not select.select([channel], [], [], 0)[0]:
            with contextlib.suppress(Exception):  # what is preloaded may have changed torch's ways
                _warm_up()
        message, descriptors = receive(channel)
        channel.close()
    except BaseException:
        os._exit(1)
    if not message:
        os._exit(0)
    _test_run(message, descriptors)


def _use_or_drop(
    spare: tuple[int, socket.socket], message: dict[str, Any], descriptors: list[int]
) -> int:
    """Hand a run over to the spare; returns its pid, or 0 when it is gone or was not wanted."""
    pid, channel = spare
    used = False
    if message["do"] == "run":
        try:
            send(channel, message, tuple(descriptors))
            used = True
        except OSError:
            pass
    channel.close()
    if used:
        return pid
    os.waitpid(pid, 0)
    return 0


def _warm_up() -> None:
    """Compute a little, as nearly every test does; draws no random number and leaves no object behind."""
    want: Any = None
    outputs: dict[str, Any] = {"number": 0.5, "list": [1, "one"]}
    torch, cases = sys.modules.get("torch"), sys.modules.get("rcb_env.cases")
    if torch is not None:
        x = torch.ones(2, 3, requires_grad=True)
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(torch.full((3,), 0.5))
        (torch.tanh(x * layer.weight) @ x.T).sum().backward()
        outputs["tensor"] = x.grad
    if cases is not None:
        for array in cases.np.linspace(0.0, 1.0, 6).reshape(2, 3):
            outputs["array"] = array
            encoded = cases.encode(outputs)
            got = cases.decode(encoded)
            cases.difference(want or got, got, rtol=1e-5, atol=1e-8)
            want = got


def _separate() -> None:
    """What every child does first: a session and a network of its own, and no way to make what would outlive it."""
    os.setsid()
    own_network = namespaces.take_own_network()
    namespaces.give_up_rights()
    confine.forbid_what_outlives_a_process(internet=own_network)


def _test_run(message: dict[str, Any], descriptors: list[int]) -> NoReturn:
    code, pid = 1, os.getpid()
    argument_fd, result_fd, stdout_fd, stderr_fd, end_fd, *hears = descriptors
    try:
        for pipe, target in ((stdout_fd, 1), (stderr_fd, 2)):
            os.dup2(pipe, target)
            os.close(pipe)
        os.chdir(message["folder"])
        with open(argument_fd, "rb") as source:
            source.seek(0)
            argument = source.read()
        confine.set_dumpable(True)  # an ordinary process again: it may read its own /proc entries
        confine.be_the_first_to_end()
        confine.set_limits(message["limits"], processes_now=message["processes_now"])
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(os.environ["RCB_THREADS"]))
        module, _, function = message["entry"].partition(":")
        with open(result_fd, "wb") as result:
            heard = [os.fdopen(descriptor, "rb") for descriptor in hears]  # of a run that talks
            code = getattr(importlib.import_module(module), function)(argument, result, *heard) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if not stream.closed:
                    stream.flush()
            except Exception:
                code = 1
        if os.getpid() == pid:  # and not that of a fork which came this far
            with contextlib.suppress(OSError):
                os.write(end_fd, bytes([code & 0xFF]))
        os._exit(code)
