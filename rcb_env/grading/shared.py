"""The graders that the environments of one process share, one for each kind of sandbox.

A grader has as many boxes as this machine gives (`rcb_env.sandbox.machine`) or as were asked for, and starts one only when the
others are in use: one environment takes one box, eight of them in threads take all. A forked or spawned child
makes its own and never touches its parent's.
Not covered: graders that a caller makes and closes (`rcb_env.grading.grader`).
"""

from __future__ import annotations

import multiprocessing.util
import os
import threading

from rcb_env import plugins
from rcb_env.grading.grader import Grader
from rcb_env.sandbox.machine import boxes

GRADERS = "rcb_env.graders"
"""The entry point group of graders whose boxes another process has; each goes by the name of a sandbox."""


class _Graders:
    """The graders of this process, by sandbox and number of boxes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: dict[tuple[str, int], Grader] = {}


_graders = _Graders()
_of_parents: list[_Graders] = []


def _forget_graders() -> None:
    # The boxes are the parent's: a child neither talks to them nor, by collecting the objects,
    # closes them. The lock may be held by a thread that does not exist here.
    global _graders
    _of_parents.append(_graders)
    _graders = _Graders()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_graders)


def shared_grader(sandbox: str, count: int | None = None) -> Grader:
    """The grader that all environments of this process with this sandbox share.

    Args:
        sandbox: the name of one.
        count: how many boxes it may have; None: as many as the machine gives.

    Raises:
        SandboxUnavailable: no such sandbox works here.
    """
    key = sandbox, boxes(count)
    with _graders.lock:
        grader = _graders.made.get(key)
        if grader is None:
            grader = _graders.made[key] = make_grader(sandbox, workers=key[1])
            # Runs at the end of this process, and also of a worker process, where atexit does not.
            multiprocessing.util.Finalize(None, grader.close, exitpriority=10)
        return grader


def make_grader(sandbox: str, *, workers: int) -> Grader:
    """A grader with boxes of its own, or the one that is registered under this name.

    Raises:
        SandboxUnavailable: no such sandbox works here.
        UsageError: what it needs is not installed.
    """
    if sandbox not in plugins.names(GRADERS):
        return Grader(sandbox, workers=workers)
    kind, _, _ = plugins.find(
        GRADERS, sandbox, kind="sandbox", method="grade(challenge, code)", where="rcb doctor"
    )
    grader: Grader = kind(workers=workers)
    return grader
