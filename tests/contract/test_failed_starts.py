"""What a user does after a start that failed: the folder is free, the message says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = [sys.executable, "-m", "rcb_env.cli", "run"]


def rcb(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, cwd=cwd)


def test_a_wrong_model_name_does_not_take_the_run_directory(
    model_server: Any, tmp_path: Path
) -> None:
    model_server.plays(model_server.status(404))
    out = str(tmp_path / "run")
    words = ("--agent", "single-shot", "--challenges", "DyT/embedding-scale", "--out", out)
    refused = rcb(*words, "--model", "nope", "--base-url", model_server.url)
    assert refused.returncode == 2
    assert len([line for line in refused.stderr.splitlines() if line.startswith("rcb:")]) == 1
    again = rcb("--agent", "noop", "--challenges", "DyT/embedding-scale", "--out", out)
    assert again.returncode == 0, again.stderr


def test_an_agent_that_lies_in_the_current_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from rcb_env import ToolCall\n\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    def play(self, task):\n"
        "        yield ToolCall('submit')\n"
    )
    words = ("--agent", "mine:Mine", "--challenges", "DyT/embedding-scale", "--out", "run")
    done = rcb(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_resuming_a_folder_that_holds_no_run_says_so(tmp_path: Path) -> None:
    done = rcb("--resume", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "there is no run in" in done.stderr


def test_a_folder_that_may_not_be_read_is_one_line(tmp_path: Path) -> None:
    locked = tmp_path / "file"
    locked.write_text("")
    done = rcb("--agent", "noop", "--out", str(locked / "run"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_model_is_asked_where_no_box_starts(model_server: Any, tmp_path: Path) -> None:
    """Case T3: every answer was paid for, and none could be graded."""
    (tmp_path / "broken.py").write_text(
        "from rcb_env.sandbox.bubblewrap import Bubblewrap, BubblewrapChannel\n\n"
        "class Broken(Bubblewrap):\n"
        "    name = 'broken'\n"
        "    def start(self, settings):\n"
        "        command = ['sh', '-c', 'echo the kernel says no >&2; exit 1']\n"
        "        return BubblewrapChannel(command, None, None), {'uid': 0, 'dies_with_parent': True}\n"
    )
    words = ("--agent", "single-shot", "--challenges", "DyT/embedding-scale", "--out", "run")
    model = ("--model", "any", "--base-url", model_server.url, "--sandbox", "broken:Broken")
    failed = rcb(*words, *model, cwd=tmp_path)
    assert failed.returncode == 2, failed.stderr
    (line,) = (line for line in failed.stderr.splitlines() if line.startswith("rcb:"))
    assert "no broken box starts" in line
    assert "the kernel says no" in line
    assert "rcb doctor" in line
    assert model_server.requests == []


def test_a_sandbox_nobody_knows_is_named_with_the_nearest(tmp_path: Path) -> None:
    """`podman` once stood for Docker, without a word."""
    words = ("--agent", "noop", "--challenges", "DyT/embedding-scale", "--out", "run")
    for name, told in (
        ("podmn", "Did you mean podman? `rcb doctor` lists them."),
        ("nowhere:Box", "cannot be imported"),
        ("json:JSONEncoder", "must be a class with a method start(settings)"),
        ("bubblewrap:fast", "takes no settings"),
    ):
        refused = rcb(*words, "--sandbox", name, cwd=tmp_path)
        assert refused.returncode == 2
        assert told in refused.stderr, refused.stderr
    assert not (tmp_path / "run").exists()


def test_an_unprivileged_bubblewrap_is_told_of_a_profile(tmp_path: Path) -> None:
    """Ubuntu 24.04: a profile for bwrap comes before the switch that lets every program make namespaces."""
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns").write_text("1\n")
    program = (
        "import os, pathlib; os.geteuid() or os.setuid(65534)\n"
        f"print(refusal('/usr/bin/bwrap', 'bubblewrap 0.9.0', 'denied', settings=pathlib.Path({str(tmp_path)!r})))"
    )
    tmp_path.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", f"from rcb_env.sandbox.namespaces import refusal\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.index("profile bwrap /usr/bin/bwrap") < done.stdout.index("sysctl -w")


def test_a_user_without_a_home_is_told_what_to_set() -> None:
    """Case T2: a container run as a number that no passwd entry knows."""
    program = (
        "import os, rcb_env.caches\n"
        "from rcb_env.errors import UsageError\n"
        "os.environ['XDG_CACHE_HOME'] = '/there'\n"
        "print(rcb_env.caches.user_cache('boxes'))\n"  # all is imported while the Python can be read
        "del os.environ['XDG_CACHE_HOME']; os.environ.pop('HOME', None)\n"
        "os.geteuid() or os.setuid(54321)\n"
        "try: rcb_env.caches.user_cache('boxes')\n"
        "except UsageError as error: print(error)"
    )
    if os.geteuid() != 0:
        pytest.skip("only root can become a user that is in no list")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    there, told = done.stdout.splitlines()
    assert there == "/there/rcb-env/boxes"
    assert "set HOME, or XDG_CACHE_HOME" in told
