"""What the machine gives: quotas of control groups, read from trees of both versions, and met by a process in a real group."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.errors import UsageError
from rcb_env.sandbox.control_groups import ROOT, own_groups
from rcb_env.sandbox.machine import BOX_BYTES, boxes, memory_bytes, processors

SCRIPT = """
import os, sys
from pathlib import Path
Path(sys.argv[1]).write_text(str(os.getpid()))
from concurrent.futures import ThreadPoolExecutor
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.vector import ChallengeVectorEnv
from rcb_env.grading import shared
from rcb_env.sandbox.machine import boxes, processors
envs = ChallengeVectorEnv(4, challenge="DyT/forward", sandbox="bubblewrap")
envs.reset(seed=0)
submit = {"tool": "submit", "arguments": {}}
write = {"tool": "write_region", "arguments": {"code": "        return None\\n"}}
envs.step([write] * 4)
_, rewards, ended, *_ = envs.step([submit] * 4)
assert ended.all()
children = [p for p in Path("/proc").glob("[0-9]*/stat") if p.exists() and p.read_text().rpartition(")")[2].split()[1] == str(os.getpid())]
print(processors(), boxes(), len(children))
"""


def test_quotas_of_both_versions_and_of_groups_above_count(tmp_path: Path) -> None:
    free = len(os.sched_getaffinity(0))
    table = tmp_path / "cgroup"
    root = tmp_path / "fs"

    def write(path: str, text: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")

    table.write_text("0::/pod/app\n")
    write("pod/app/cpu.max", "max 100000")
    write("pod/cpu.max", "100000 100000")
    write("pod/app/memory.max", str(3 * BOX_BYTES))
    assert processors(root, table) == 1
    assert memory_bytes(root, table) == min(3 * BOX_BYTES, memory_bytes(tmp_path, tmp_path / "no"))
    write("pod/cpu.max", "50000 100000")
    assert processors(root, table) == 1  # half a processor is one box
    write("pod/cpu.max", f"{free}90000 100000")
    assert processors(root, table) == free
    table.write_text("7:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n0::/\n")
    write("cpu/cpu.cfs_quota_us", "-1")
    write("cpu/cpu.cfs_period_us", "100000")
    assert processors(root, table) == free
    write(
        "cpu/cpu.cfs_quota_us", "100000"
    )  # of a container, which sees the host's name of its group
    assert processors(root, table) == 1
    write("memory/memory.limit_in_bytes", "9223372036854771712")
    assert memory_bytes(root, table) == memory_bytes(tmp_path, tmp_path / "no")
    write("memory/memory.limit_in_bytes", "1000")
    assert memory_bytes(root, table) == 1000


def test_what_is_asked_for_counts_and_never_more_than_most() -> None:
    assert boxes(5) == 5
    assert boxes(5, most=3) == 3
    assert boxes(most=1) == 1 <= boxes()
    with pytest.raises(UsageError, match="boxes is 0"):
        boxes(0)


@pytest.fixture
def limited() -> Iterator[Path]:
    """A control group that may use one processor; the file that lets a process in."""
    version, _, top = next(own_groups("cpu"), (0, ROOT, ROOT))
    group = top / f"rcb-env-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("this user may not make control groups")
    try:
        if version == 1:
            (group / "cpu.cfs_quota_us").write_text("100000")
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text("100000 100000")
        else:
            pytest.skip("no group may limit processors here")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_a_process_with_one_processor_starts_boxes_for_one(limited: Path) -> None:
    """A pod that is limited to one processor of many: affinity says nothing of it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(limited)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    given, count, running = map(int, done.stdout.split())
    assert (given, count) == (1, 1)
    assert running == 2  # one box for four environments, and the judge's
