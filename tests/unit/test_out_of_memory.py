"""What the runner takes for the kernel's word that it killed a process for memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.runner import processes

VERSION_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
VERSION_2 = "low 0\nhigh 7\nmax 9\noom 8\noom_kill 2\noom_group_kill 1\n"


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"memory/memory.oom_control": VERSION_1}, 3),
        ({"memory.events": VERSION_2}, 2),
        # Both are mounted, and memory is counted in the older one.
        ({"memory/memory.oom_control": VERSION_1, "cgroup.procs": "1\n"}, 3),
        # Kernels before 4.13 tell of the state only.
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, 0),
        ({}, 0),
    ],
)
def test_kills_are_counted_in_both_versions_of_control_groups(
    files: dict[str, str], kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C025: a limit that was only touched is no kill, nor is a count that is not there."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    places = [
        str(tmp_path / Path(file).relative_to("/sys/fs/cgroup")) for file in processes.KILLS_FILES
    ]
    monkeypatch.setattr(processes, "KILLS_FILES", places)
    assert processes.out_of_memory_kills() == kills
