"""Control groups for boxes that no engine makes: the kernel counts and bounds all memory of a box, of whatever kind.

Memory of processes is a part of it only: there are shared maps that no process shows, files in memory, page tables, and
what waits in sockets and pipes. A group is made below the nearest group of the driver's own in which it may make some
(root nearly everywhere; others where the system has given them a part of the tree, as systemd does with `Delegate=yes`),
in version 1 or 2. The box finds its own group at `BOX_PLACE`, where containers have theirs, and reads it there.
Guarantees: a group is removed with its box; those of drivers that were killed are removed when the next group is made.
Not covered: the limits of a test run, which the runner watches (`runner/memory.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
"""Where control groups are mounted."""
OWN_GROUPS = Path("/proc/self/cgroup")
"""The file that names this process's own."""
_NAME = "rcb-env"  # then the driver's process id, and a number
_EMPTY_WITHIN_S = 2.0  # after the box's last process was killed
_numbers = itertools.count()


@dataclass(frozen=True)
class ControlGroup:
    """The group of one box."""

    folder: Path
    version: int

    @property
    def box_place(self) -> Path:
        """Where the box finds it."""
        return ROOT / "memory" if self.version == 1 else ROOT

    @property
    def door(self) -> Path:
        """The file in which a process writes its id to come in."""
        return self.folder / "cgroup.procs"

    def kills(self) -> int:
        """How many of its processes the kernel has killed for memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        with contextlib.suppress(OSError):
            for line in (self.folder / name).read_text(encoding="ascii").splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def remove(self) -> None:
        """Remove the group, whose processes were killed; what does not end in time is left to the next driver."""
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        while not _removed(self.folder) and time.monotonic() < deadline:
            time.sleep(0.01)


def make(memory_bytes: int) -> ControlGroup | None:
    """A new group bounded to this much memory, swap included; None where this user may not make any."""
    found = _parent()
    if found is None:
        return None
    parent, version = found
    _remove_orphans(parent)
    group = ControlGroup(parent / f"{_NAME}-{os.getpid()}-{next(_numbers)}", version)
    try:
        group.folder.mkdir()
        if version == 1:
            _write(group.folder, "memory.limit_in_bytes", memory_bytes)
            _write(group.folder, "memory.kmem.tcp.limit_in_bytes", memory_bytes // 8, optional=True)
            _write(group.folder, "memory.memsw.limit_in_bytes", memory_bytes, optional=True)
        else:
            _write(group.folder, "memory.max", memory_bytes)
            _write(group.folder, "memory.swap.max", 0, optional=True)
    except OSError:
        _removed(group.folder)
        return None
    return group


def _write(folder: Path, name: str, value: int, *, optional: bool = False) -> None:
    path = folder / name
    if path.exists() or not optional:
        path.write_text(str(value), encoding="ascii")


@cache
def _parent() -> tuple[Path, int] | None:
    """The group to make groups in, and its version."""
    for version, folder, top in own_groups("memory"):
        for candidate in (folder, *folder.parents):
            if _can_have_groups(candidate, version):
                return candidate, version
            if candidate == top:
                break
    return None


def own_groups(
    controller: str, root: Path = ROOT, groups: Path = OWN_GROUPS
) -> Iterator[tuple[int, Path, Path]]:
    """This process's groups of a controller: version, folder, and the top of its tree.

    Args:
        controller: "memory" or "cpu".
        root: where control groups are mounted.
        groups: the file that names those of the process.
    """
    with contextlib.suppress(OSError):
        for line in groups.read_text(encoding="utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            version = 1 if controller in controllers.split(",") else 2 if number == "0" else 0
            top = root / controller if version == 1 else root
            if version:
                folder = top / path.lstrip("/")
                # In a container the path may be the host's, of which only the container's own part is to be seen.
                yield version, folder if folder.is_dir() else top, top


def _can_have_groups(folder: Path, version: int) -> bool:
    if version == 2:
        try:
            given = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
        except OSError:
            return False
        if "memory" not in given:
            return False
    trial = folder / f"{_NAME}-{os.getpid()}-trial"
    try:
        trial.mkdir()
    except OSError:
        return False
    wanted = "memory.limit_in_bytes" if version == 1 else "memory.max"
    usable = (trial / wanted).exists() and os.access(folder / "cgroup.procs", os.W_OK)
    _removed(trial)
    return usable


def _remove_orphans(parent: Path) -> None:
    for folder in parent.glob(f"{_NAME}-*"):
        pid = folder.name.split("-")[2]
        if not Path("/proc", pid).exists():
            _removed(folder)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # it still has processes
        return False
    return True
