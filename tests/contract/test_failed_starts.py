"""What a user does after a start that failed: the folder is free, the message says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

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
