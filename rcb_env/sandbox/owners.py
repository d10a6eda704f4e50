"""Who a container belongs to, so that what a killed driver left is found and nobody else's is touched.

Containers carry labels that say which run they are for (the name of its folder, or "") and who owns them: a process id
with its start time, on one boot of one machine.
Not covered: removing containers (`docker.py`, `podman.py`).
"""

from __future__ import annotations

import os
from pathlib import Path

LABEL = "rcb-env.owner"
RUN_LABEL = "rcb-env.run"


def owner(pid: int | None = None) -> str:
    """Who owns a container: machine boot, process id, and the start time that tells reused ids apart."""
    pid = os.getpid() if pid is None else pid
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = Path("/proc/self/ns/pid").readlink().name
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{boot} {namespace} {pid} {fields[19]}"


def is_orphan(label: str) -> bool:
    """Whether the owner was a process of this machine's present boot and is gone, or of an earlier boot."""
    boot, namespace, pid, started = label.split(" ")
    ours = owner().split(" ")
    if (boot, namespace) != (ours[0], ours[1]):
        return False  # of another machine that shares this engine: not ours to judge
    try:
        return owner(int(pid)).split(" ")[3] != started
    except OSError:
        return True
