"""What the runner takes for the kernel's word on memory: how much is used, and whether a process was killed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.runner.memory import Group

MIB = 1 << 20
KILLS_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
KILLS_2 = "low 0\nhigh 7\nmax 9\noom 8\noom_kill 2\noom_group_kill 1\n"
VERSION_1 = {
    "memory/memory.usage_in_bytes": f"{50 * MIB}\n",
    "memory/memory.kmem.tcp.usage_in_bytes": f"{7 * MIB}\n",
    "memory/memory.stat": f"active_file 0\ntotal_active_file {4 * MIB}\ntotal_inactive_file {MIB}\n",
    "memory/memory.oom_control": KILLS_1,
}
VERSION_2 = {
    "memory.current": f"{57 * MIB}\n",
    "memory.stat": f"anon {40 * MIB}\nactive_file {4 * MIB}\ninactive_file {MIB}\n",
    "memory.events": KILLS_2,
}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        (VERSION_1, 3),
        (VERSION_2, 2),
        # Both are mounted, and memory is counted in the older one.
        ({**VERSION_1, "cgroup.procs": "1\n"}, 3),
        # Kernels before 4.13 tell of the state only.
        ({**VERSION_1, "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, 0),
        ({}, 0),
    ],
)
def test_kills_are_counted_in_both_versions_of_control_groups(
    files: dict[str, str], kills: int, tmp_path: Path
) -> None:
    """Case C025: a limit that was only touched is no kill, nor is a count that is not there."""
    _write(tmp_path, files)
    assert Group(tmp_path).kills() == kills


@pytest.mark.parametrize("files", [VERSION_1, VERSION_2])
def test_copies_of_files_are_not_counted_as_memory_of_a_run(
    files: dict[str, str], tmp_path: Path
) -> None:
    """The kernel drops them when it needs the space; a run that reads a large library holds nothing."""
    _write(tmp_path, files)
    group = Group(tmp_path)
    assert group.exists
    assert (group.at_most(), group.exactly()) == (57 * MIB, 52 * MIB)
    group.mark()
    assert (group.at_most(), group.exactly()) == (0, 0)


def test_a_box_without_a_control_group_says_so(tmp_path: Path) -> None:
    assert not Group(tmp_path).exists
