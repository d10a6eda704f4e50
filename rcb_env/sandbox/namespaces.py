"""Why the kernel lets bubblewrap make no box, and what to do about it.

Not covered: whether one can be made; `Bubblewrap` tries.
"""

from __future__ import annotations

import os
from pathlib import Path

from rcb_env.errors import SandboxUnavailable

# Ubuntu 24.04 lets only programs with an AppArmor profile make user namespaces. One for bwrap alone keeps the rule for
# all others.
_PROFILE = r"abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap PROGRAM flags=(unconfined) {\n  userns,\n}\n"
_APPARMOR = (
    f"give bwrap an AppArmor profile: printf '{_PROFILE}' | sudo tee /etc/apparmor.d/bwrap"
    " && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
    " (or let every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"
)
# Settings that keep a user from making a user namespace: file below /proc/sys, value that forbids, what allows.
_SETTINGS = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", _APPARMOR),
)


def refusal(
    program: str, version: str, said: str, *, settings: Path = Path("/proc/sys")
) -> SandboxUnavailable:
    """The error for a bubblewrap that makes no box here.

    Args:
        program: where ``bwrap`` lies.
        version: what it calls itself.
        said: its last words.
        settings: the kernel's, as files.
    """
    for name, forbids, allow in _SETTINGS:
        if os.geteuid() != 0 and _read(settings / name) == forbids:
            why = f"{version} makes no box: {said} ({settings / name} is {forbids})"
            return SandboxUnavailable(why, fix=allow.replace("PROGRAM", program))
    return SandboxUnavailable(
        f"{version} makes no box: {said}",
        fix="in a container, start that with --privileged or --security-opt seccomp=unconfined, or be root in it",
    )


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
