"""How much memory a test run holds, of whatever kind, and whether the kernel killed any of its processes for it.

Where the box has a control group, the kernel counts everything, also what no process shows: shared maps that nobody looks
at, files in memory, page tables, what waits in sockets and pipes. What was there before the run is taken off.
Without one it is counted kind by kind: what processes show, their page tables, shared maps by their size (also where they
are not filled), sockets between processes by the most that they can hold, those of the internet by what waits in them,
files by the space they take. Not covered then: the kernel's records of maps and open files, and pipes, which it bounds for
a user itself (64 MB).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from rcb_env.runner import folders

GROUP_PLACE = Path("/sys/fs/cgroup")
# What of a group is read, by its version: all memory, what waits in TCP where that is apart, its parts, and kills.
_FILES = (
    ("memory.current", None, "memory.stat", "memory.events"),
    (
        "memory/memory.usage_in_bytes",
        "memory/memory.kmem.tcp.usage_in_bytes",
        "memory/memory.stat",
        "memory/memory.oom_control",
    ),
)
_OF_FILES = ("active_file", "inactive_file", "total_active_file", "total_inactive_file")
_NO_BOUND = 1 << 62
_FILE_BYTES = 1024  # of memory that a file takes besides its content
_UNIX_SOCKET_BYTES = 2 * 212_992  # the kernel's largest buffer, and as much again for its records
_SHARED_MAP = "/dev/zero (deleted)"  # how the kernel calls shared memory without a file


class Group:
    """A box's control group, read through files that were opened before any run."""

    def __init__(self, place: Path = GROUP_PLACE) -> None:
        self._opened: list[int | None] = []
        self._counts_connections = False
        for names in _FILES:
            opened = [_open(place, name) for name in names]
            if all(opened[at] is not None for at in (0, 2, 3)):
                self._opened = opened
                bound = _bound_of_connections(place)
                self._counts_connections = names[1] is None or bound < _NO_BOUND
        self._before = self._files_before = 0

    @property
    def exists(self) -> bool:
        """Whether the box has one."""
        return bool(self._opened)

    @property
    def counts_connections(self) -> bool:
        """Whether what waits in connections is counted; in version 1 only where it is bounded."""
        return self._counts_connections

    def kills(self) -> int:
        """How many processes of this box the kernel has killed for memory."""
        return _table(self._read(3)).get("oom_kill", 0) if self._opened else 0

    def mark(self) -> None:
        """Count from here on."""
        if self._opened:
            self._before, self._files_before = self._all(), self._of_files()

    def at_most(self) -> int:
        """Bytes of memory beyond the mark, with copies of files that the kernel can drop at any time."""
        return self._all() - self._before

    def exactly(self) -> int:
        """Bytes of memory beyond the mark, without copies of files."""
        return self.at_most() - self._of_files() + self._files_before

    def close(self) -> None:
        """Close the files: a zygote and a run have no use for them."""
        for descriptor in self._opened:
            if descriptor is not None:
                os.close(descriptor)
        self._opened = []

    def _all(self) -> int:
        return int(self._read(0)) + (0 if self._opened[1] is None else int(self._read(1)))

    def _of_files(self) -> int:
        parts = _table(self._read(2))
        # Version 1 tells its own part, and with "total" those of the groups in it, too.
        names = _OF_FILES[2:] if _OF_FILES[2] in parts else _OF_FILES[:2]
        return sum(parts.get(name, 0) for name in names)

    def _read(self, which: int) -> str:
        descriptor = self._opened[which]
        assert descriptor is not None
        return os.pread(descriptor, 1 << 14, 0).decode("ascii", "replace")


def _bound_of_connections(place: Path) -> int:
    try:
        return int((place / "memory/memory.kmem.tcp.limit_in_bytes").read_text())
    except OSError:
        return _NO_BOUND


def _open(place: Path, name: str | None) -> int | None:
    with contextlib.suppress(OSError):
        return None if name is None else os.open(place / name, os.O_RDONLY | os.O_CLOEXEC)
    return None


def at_most(pids: Iterable[int]) -> int:
    """Bytes of memory that processes hold, what they share counted for each: cheap, and never too little."""
    pids = list(pids)
    shown = 1024 * sum(_kib(pid, "status", ("RssAnon", "RssShmem", "VmPTE")) for pid in pids)
    return shown + _unseen(pids)


def exactly(pids: Iterable[int]) -> int:
    """Bytes of memory that processes hold, of what they share each one's share."""
    pids = list(pids)
    return 1024 * sum(map(_share_kib, pids)) + _unseen(pids)


def _unseen(pids: list[int]) -> int:
    """Bytes that are held by processes, or may be, and stand in the account of none."""
    between_processes = len(_of_the_first(pids, "net/unix")) * _UNIX_SOCKET_BYTES
    files = folders.count_files() * _FILE_BYTES
    return _shared_maps(pids) + between_processes + in_connections(pids) + files


def _shared_maps(pids: Iterable[int]) -> int:
    ends: dict[str, int] = {}
    for pid in pids:
        for line in _text(pid, "maps").splitlines():
            if line.endswith(_SHARED_MAP):
                where, _, offset, _, inode, *_ = line.split()
                start, end = (int(part, 16) for part in where.split("-"))
                ends[inode] = max(ends.get(inode, 0), int(offset, 16) + end - start)
    return sum(ends.values())


def in_connections(pids: Iterable[int]) -> int:
    """Bytes, about, that wait in the connections of a run, all of whose processes have one network."""
    rows = [
        row.split()
        for kind in ("tcp", "tcp6", "udp", "udp6")
        for row in _of_the_first(pids, f"net/{kind}")
    ]
    return 2 * sum(int(size, 16) for row in rows for size in row[4].split(":"))


def _of_the_first(pids: Iterable[int], table: str) -> list[str]:
    """The rows, without the header, of a table that is the same for all processes of a run."""
    texts = (_text(pid, table) for pid in pids)
    return next((text.splitlines()[1:] for text in texts if text), [])


def _share_kib(pid: int) -> int:
    """A process's share of the memory in use; all that it sees where it does not let its share be read."""
    share = _kib(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"))
    share = share or _kib(pid, "status", ("RssAnon", "RssShmem"))
    return share + _kib(pid, "status", ("VmPTE",))


def _kib(pid: int, file: str, fields: tuple[str, ...]) -> int:
    rows = (line.split() for line in _text(pid, file).splitlines())
    return sum(int(row[1]) for row in rows if row and row[0].rstrip(":") in fields)


def _text(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:
        return ""


def _table(text: str) -> Mapping[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
