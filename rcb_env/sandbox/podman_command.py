"""The ``podman`` program: found, called, and its words when it fails.

Not covered: containers (`podman.py`) and images (`podman_images.py`).
"""

from __future__ import annotations

import shutil
import subprocess

from rcb_env.errors import SandboxUnavailable

_INSTALL = (
    "install it: sudo apt-get install podman uidmap (Debian, Ubuntu), sudo dnf install podman (Fedora),"
    " sudo pacman -S podman (Arch), sudo zypper install podman (openSUSE)"
)
# Podman's own defaults may be more than this process may give away.
ULIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")
_TIMEOUT_S = 60  # of commands that start nothing


def installed() -> bool:
    """Whether there is such a program."""
    return shutil.which("podman") is not None


def program() -> str:
    """Where ``podman`` lies.

    Raises:
        SandboxUnavailable: it is not installed.
    """
    found = shutil.which("podman")
    if found is None:
        raise SandboxUnavailable("Podman is not installed", fix=_INSTALL)
    return found


def podman(*words: str, timeout_s: float | None = _TIMEOUT_S) -> str:
    """What a command of Podman's prints.

    Raises:
        SandboxUnavailable: it fails; with its last words.
    """
    try:
        done = subprocess.run(
            [program(), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"`podman {words[0]}` fails: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise SandboxUnavailable(f"`podman {words[0]}` fails: {said.removeprefix('Error: ')}")
    return done.stdout
