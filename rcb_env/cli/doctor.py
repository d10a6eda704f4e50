"""`rcb doctor`: what works on this machine, and the one command that gets what does not.

Nothing is believed that can be tried: a sandbox works if a box starts in it. Keys are reported as set or not, never shown.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo

_BUBBLEWRAP = (
    "Debian, Ubuntu: sudo apt-get install bubblewrap; Fedora: sudo dnf install bubblewrap;"
    " Arch: sudo pacman -S bubblewrap; openSUSE: sudo zypper install bubblewrap"
)
# Kernel settings that keep bubblewrap from making a user namespace: file, value that forbids, the command that allows.
_FORBIDS_NAMESPACES = (
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "sudo sysctl -w user.max_user_namespaces=15000",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        works: None where it is neither good nor bad.
        fix: what to do to get it; "" where it is there.
    """

    name: str
    works: bool | None
    found: str
    fix: str = ""


@click.command()
@click.option(
    "--prepare",
    is_flag=True,
    help="Also install the packages of boxes now, where they are missing.",
)
@options.dataset
@options.quiet
@options.as_json
def doctor(prepare: bool, dataset: str, quiet: bool, as_json: bool) -> None:
    """Say what works on this machine. Exit code 0 if code can be run in at least one sandbox."""
    from rcb_env.cli.session import realise
    from rcb_env.dataset.loading import load_dataset

    images = sorted({paper.image for paper in load_dataset(dataset).papers})
    if prepare:
        realise(sorted(images))
    sandboxes = [_bubblewrap(), _docker(images)]
    findings = [_python(), *sandboxes, *_environments(images), *_keys()]
    able = any(finding.works for finding in sandboxes)
    if as_json:
        echo(json.dumps({"works": able, "findings": [asdict(one) for one in findings]}))
    elif not quiet or not able:
        for one in findings:
            mark = {True: "ok", False: "--", None: "  "}[one.works]
            echo(f"{mark:<3}{one.name + ':':<22}{one.found}")
            if one.fix:
                echo(f"{'':<25}to get it: {one.fix}")
        where = " and ".join(one.name for one in sandboxes if one.works)
        echo(f"\nCode can be run in {where}." if able else "\nNo sandbox works here yet.")
    if not able:
        raise click.exceptions.Exit(1)


def _python() -> Finding:
    return Finding("Python", True, f"{platform.python_version()} at {sys.executable}")


def _bubblewrap() -> Finding:
    name = "bubblewrap"
    program = shutil.which("bwrap")
    if program is None:
        return Finding(name, False, "not installed", _BUBBLEWRAP)
    version = _output([program, "--version"])[1]
    namespaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    if os.geteuid() != 0:
        namespaces.append("--unshare-user")
    mounts = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    works, said = _output([program, *namespaces, *mounts, "--cap-drop", "ALL", "/bin/true"])
    if works:
        return Finding(name, True, f"{version} at {program}; a box starts")
    for file, forbids, command in _FORBIDS_NAMESPACES:
        if os.geteuid() != 0 and _read(file) == forbids:
            return Finding(name, False, f"{version}, but {file} is {forbids}", command)
    fix = (
        "in a container, run it with --privileged or --security-opt seccomp=unconfined, or as root"
    )
    return Finding(name, False, f"{version}, but no box starts: {said}", fix)


def _docker(images: Sequence[str]) -> Finding:
    from rcb_env.errors import RcbError

    name = "Docker engine"
    try:
        from rcb_env.sandbox.docker import Docker

        version = Docker().version
    except RcbError as error:
        fix = "start an engine, or name one with DOCKER_HOST; bubblewrap needs none"
        return Finding(name, False, str(error), fix)
    from rcb_env.sandbox import docker_images

    missing = [image for image in images if not docker_images.digest(image)]
    if missing:
        return Finding(
            name,
            False,
            f"{version}, without the image {docker_images.tag(missing[0])}",
            f"rcb images build {missing[0]}",
        )
    return Finding(name, True, f"{version}, with the images of boxes")


def _environments(names: Sequence[str]) -> list[Finding]:
    from rcb_env.sandbox import images

    findings = []
    for image in names:
        built = images.find(image)
        name = f"packages of {image!r}"
        if built is None:
            found = f"not yet in {images.cache_folder()}; made on first use"
            findings.append(Finding(name, None, found, "rcb doctor --prepare"))
        else:
            findings.append(Finding(name, True, str(built.prefix)))
    return findings


def _keys() -> list[Finding]:
    from rcb_env.errors import without_credentials

    key = "OPENAI_API_KEY"
    found = (
        Finding(key, True, "set")
        if os.environ.get(key)
        else Finding(key, None, "not set", f"export {key}=… (only models behind an API need one)")
    )
    base_url = os.environ.get("OPENAI_BASE_URL")
    if not base_url:
        return [found]
    return [found, Finding("OPENAI_BASE_URL", None, without_credentials(base_url))]


def _output(command: list[str]) -> tuple[bool, str]:
    """Whether a command succeeds, and its last line."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else ""


def _read(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError:
        return ""
