"""What a run shows while it is played: on a terminal of 80 columns, and where there is none."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

CHALLENGE = "SISS/the-defensive-mixture-and-its-importance-ratios"
SHOW = f"""
import time
from rcb_env.cli.progress import Progress

with Progress("single-shot (gpt-5)", plain_every_s=0) as shown:
    for second in range(3):
        now = f"{CHALLENGE} waits {{second}} s for its agent (and 3 more)"
        shown.update("8 passed, 3 failed, 1 timeout", 12, 120, now)
        time.sleep(0.15)
"""


def on_a_terminal(program: str) -> str:
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return seen.decode()


def test_a_narrow_terminal_still_shows_how_far_a_run_is() -> None:
    """The challenge in play and what it waits for took the place of the bar, the count and the time."""
    seen = on_a_terminal(SHOW)
    assert " 12/120" in seen
    assert "0:00:0" in seen
    assert "8 passed" in seen
    assert f"{CHALLENGE} waits 2 s for its" in seen
    assert "\n" in seen, "on a line of its own"


def test_without_a_terminal_one_line_says_it_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        f"single-shot (gpt-5): 12/120 8 passed, 3 failed, 1 timeout; {CHALLENGE} waits 2 s for its"
        " agent (and 3 more)"
    )
