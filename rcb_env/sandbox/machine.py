"""What this machine really gives a process, and how many boxes that is.

Processors are those the process may run on, and no more than its control groups' quotas (`docker run --cpus`, limits of
Kubernetes) or those of groups above; memory likewise. Both versions of control groups are read.
Guarantees: at least 1 of everything; a machine without control groups gives all it has.
Not covered: what other processes of the machine use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rcb_env.errors import UsageError
from rcb_env.sandbox.control_groups import OWN_GROUPS, ROOT, own_groups

BOX_BYTES = 1024**3
"""Memory that is reckoned for a box: a warm one holds a quarter of it, and a test run needs some more."""


def boxes(wanted: int | None = None, *, most: int | None = None) -> int:
    """How many boxes to keep.

    Args:
        wanted: as many; None: one for each processor, as far as there is memory for them.
        most: never more than this.

    Raises:
        UsageError: the number wanted is none.
    """
    if wanted is not None and (
        isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1
    ):
        raise UsageError(f"boxes is {wanted!r}; it must be an integer of at least 1")
    count = wanted or max(1, min(processors(), memory_bytes() // BOX_BYTES))
    return count if most is None else min(count, most)


def processors(root: Path = ROOT, groups: Path = OWN_GROUPS) -> int:
    """How many processors this process may keep busy.

    Args:
        root: where control groups are mounted.
        groups: the file that names those of this process.
    """
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = (_quota(folder, version) for version, folder in _above("cpu", root, groups))
    return max(1, min([free, *(int(quota) for quota in quotas if quota is not None)]))


def memory_bytes(root: Path = ROOT, groups: Path = OWN_GROUPS) -> int:
    """How much memory this process and what it starts may use; arguments as of `processors`."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (
        _number(folder / ("memory.limit_in_bytes" if version == 1 else "memory.max"))
        for version, folder in _above("memory", root, groups)
    )
    return min([whole, *(limit for limit in limits if limit is not None)])


def _above(controller: str, root: Path, groups: Path) -> Iterator[tuple[int, Path]]:
    """The groups of this process and those above them, with their version."""
    for version, folder, top in own_groups(controller, root, groups):
        yield version, folder
        while folder != top:
            folder = folder.parent
            yield version, folder


def _quota(folder: Path, version: int) -> float | None:
    """Processors that a group may use; None: it says nothing."""
    if version == 1:
        share, period = (_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    else:
        try:
            texts = (folder / "cpu.max").read_text(encoding="ascii").split()
        except OSError:
            return None
        share, period = (int(text) if text.isdigit() else None for text in texts)
    return share / period if share is not None and period and share > 0 else None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max", or -1
