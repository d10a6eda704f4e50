"""What the kernel tells of the processes in a box: which live, what memory they hold, which were killed for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

KILLS_FILES = (  # where the kernel counts them: control groups of version 2, and of version 1
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
)


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


def is_headless(pid: int) -> bool:
    """Whether only the first thread of a process has ended. Nobody can see the memory of such a one."""
    state, threads = _state(pid)
    return state == "Z" and threads > 1


def memory_at_most(pids: Iterable[int]) -> int:
    """Bytes of memory that processes hold, what they share counted for each: cheap, and never too little."""
    return 1024 * sum(_kib(pid, "status", ("RssAnon", "RssShmem", "VmPTE")) for pid in pids)


def memory(pids: Iterable[int]) -> int:
    """Bytes of memory that processes hold, of what they share each one's share."""
    return 1024 * sum(map(_share_kib, pids))


def out_of_memory_kills() -> int:
    """How many processes of this box the kernel has killed for memory, where the box has a control group of its own."""
    for file in KILLS_FILES:
        with contextlib.suppress(OSError):
            rows = (line.split() for line in Path(file).read_text().splitlines())
            return sum(int(row[1]) for row in rows if row[0] == "oom_kill")
    return 0


def _kib(pid: int, file: str, fields: tuple[str, ...]) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:
        return 0
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0].rstrip(":") in fields)


def _share_kib(pid: int) -> int:
    """A process's share of the memory in use; all that it sees where it does not let its share be read."""
    share = _kib(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"))
    share = share or _kib(pid, "status", ("RssAnon", "RssShmem"))
    return share + _kib(pid, "status", ("VmPTE",))
