"""A server over stdio that outlives its client.

A client that leaves closes the pipes and, a second or two later, kills what it started. Grading what
it left may take longer. So the process that the client started only carries bytes; the server is its
child, in a session of its own, and sees no more than the end of its input.
"""

from __future__ import annotations

import contextlib
import os
import selectors

_CHUNK = 65_536


def outlive_the_client() -> None:
    """Go on as the server; the process of before carries bytes, and ends with the server's exit code.

    Called before any thread is started.
    """
    request_end, requests = os.pipe()
    answers, answer_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(request_end, 0)
        os.dup2(answer_end, 1)
        for end in (request_end, requests, answers, answer_end):
            os.close(end)
        return
    os.close(request_end)
    os.close(answer_end)
    with contextlib.suppress(KeyboardInterrupt):
        _carry(requests, answers)
    with contextlib.suppress(OSError):
        os.close(requests)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _carry(requests: int, answers: int) -> None:
    """Carry bytes from stdin to the server, and from the server to stdout, until the server ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(answers, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, _CHUNK)
                if key.fd == answers and not data:
                    return
                if key.fd == answers:
                    _write(1, data)
                elif not data or not _write(requests, data):
                    selector.unregister(0)
                    os.close(requests)


def _write(target: int, data: bytes) -> bool:
    """False where nobody reads any more."""
    try:
        while data:
            data = data[os.write(target, data) :]
    except OSError:
        return False
    return True
