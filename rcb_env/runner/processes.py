"""What the kernel tells of the processes in a box: which live, which are stopped, and what they have used."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """What /proc/PID/stat says after the name, which may hold anything; nothing of a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _state(pid: int) -> tuple[str, int]:
    """The state of a process's first thread, and how many threads it has."""
    fields = _fields(pid)
    return (fields[0], int(fields[17])) if fields else ("X", 0)


def lives(pid: int) -> bool:
    """Whether any thread of a process does."""
    state, threads = _state(pid)
    return state not in "ZX" or threads > 1


def is_stopped(pid: int) -> bool:
    """Whether a process stands still until somebody has it go on."""
    return _state(pid)[0] in "Tt"


def cpu_s(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    return sum(map(int, _fields(pid)[11:15])) / _TICKS_A_SECOND


def is_headless(pid: int) -> bool:
    """Whether only the first thread of a process has ended. Nobody can see the memory of such a one."""
    state, threads = _state(pid)
    return state == "Z" and threads > 1
