"""A server over stdio that outlives its client.

A client that leaves closes the pipes and, a second or two later, kills what it started. Grading what
it left may take longer. So the process that the client started only carries bytes; the server is its
child, in a session of its own, and sees no more than the end of its input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading

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
    threading.Thread(target=_carry, args=(0, requests), daemon=True).start()
    try:
        _carry(answers, 1)
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _carry(source: int, target: int) -> None:
    """Carry bytes until the source ends; then the target does. What nobody reads any more is dropped."""
    while data := os.read(source, _CHUNK):
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(target, data) :]
    os.close(target)
