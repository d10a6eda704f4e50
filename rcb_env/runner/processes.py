"""What the kernel tells of the processes in a box: which live, and which are stopped."""

from __future__ import annotations

from pathlib import Path


def _state(pid: int) -> tuple[str, int]:
    """The state of a process's first thread, and how many threads it has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X", 0
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[17])


def lives(pid: int) -> bool:
    """Whether any thread of a process does."""
    state, threads = _state(pid)
    return state not in "ZX" or threads > 1


def is_stopped(pid: int) -> bool:
    """Whether a process stands still until somebody has it go on."""
    return _state(pid)[0] in "Tt"


def is_headless(pid: int) -> bool:
    """Whether only the first thread of a process has ended. Nobody can see the memory of such a one."""
    state, threads = _state(pid)
    return state == "Z" and threads > 1
