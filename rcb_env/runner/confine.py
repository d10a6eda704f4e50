"""What a process in a box does to itself: drop root, set limits, hide its memory from its siblings.

Limits here are per process (setrlimit). What must hold for all processes of a run together (memory, number, wall time)
is watched by `main.py`; what must hold for the box as a whole (network, files, capabilities) is the maker's.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Mapping
from typing import Any

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)


def become_unprivileged(uid: int) -> None:
    """Give up root for good, if this process has it: no groups, `uid` as user and group, no way back."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may read or write this one's memory (ptrace, /proc/PID/mem and fd)."""
    if _libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) failed")


def set_limits(limits: Mapping[str, Any], *, processes_now: int | None) -> None:
    """Bind this process and its children to the limits of one run.

    Args:
        limits: wall_s, memory_bytes, processes, file_size_bytes, open_files (see `sandbox.box.Limits`).
        processes_now: processes the user runs already, or None where the box bounds their number itself.
    """
    # RLIMIT_DATA and not RLIMIT_AS: torch reserves far more address space than it ever uses.
    data = _status_bytes("VmData") + int(limits["memory_bytes"])
    _limit(resource.RLIMIT_DATA, data)
    _limit(resource.RLIMIT_FSIZE, int(limits["file_size_bytes"]))
    _limit(resource.RLIMIT_NOFILE, int(limits["open_files"]))
    _limit(resource.RLIMIT_CPU, int(limits["wall_s"]) * 4 + 5)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_MSGQUEUE, 0)
    _limit(resource.RLIMIT_MEMLOCK, 0)
    if processes_now is not None:
        _limit(resource.RLIMIT_NPROC, processes_now + int(limits["processes"]))


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _status_bytes(field: str) -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def remove_system_v_objects() -> None:
    """Delete the box's System V shared memory, semaphores and queues, which outlive the processes that made them."""
    for kind, remove in (("shm", _libc.shmctl), ("msg", _libc.msgctl), ("sem", _remove_semaphore)):
        try:
            with open(f"/proc/sysvipc/{kind}") as table:
                rows = table.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            remove(int(row.split()[1]), 0, None)


def _remove_semaphore(identity: int, _command: int, _argument: None) -> None:
    _libc.semctl(identity, 0, 0)
