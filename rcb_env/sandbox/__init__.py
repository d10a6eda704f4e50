"""Boxes: where code that nobody trusts runs.

box.py         `Box`: the host's end of a box, whatever made it; its limits and results; bootstrap.py: how its runner gets in
bubblewrap.py  makes boxes with bubblewrap: no daemon needed; namespaces.py: why the kernel lets it make none
control_groups.py, users.py   what such a box has of the machine: its memory counted, a user no other has
docker.py      makes boxes with a Docker-compatible engine; engine.py: the way to that
podman.py      makes boxes with Podman, without root and without a daemon; podman_command.py: the way to that
process.py, owners.py   what makers share: a program's standard streams, and whose a container is
conformance.py what every kind of box must do, tried on a real one: `rcb doctor --conformance NAME`; trial.py: how it is tried
pool.py        warm boxes, leased to one test run at a time
machine.py     how many boxes the machine has processors and memory for
fleet.py       all boxes of one grader, by role and image
images.py, docker_images.py, podman_images.py   the packages of a box, from a lock file under images/
scratch.py     temporary folders, and what killed processes left

A sandbox is a class that follows `Maker` (box.py), found by entry point as agents are, or as ``module:Class``.
"""

from __future__ import annotations

from collections.abc import Iterable

from rcb_env import plugins
from rcb_env.errors import SandboxUnavailable, UsageError
from rcb_env.sandbox.box import Maker

SANDBOXES = "rcb_env.sandboxes"
"""The entry point group in which sandboxes are registered."""

AUTO = ("bubblewrap", "docker")
"""What "auto" stands for: the first that works. One of somebody else's, or Podman, is used when it is named."""

_DOCTOR = "`rcb doctor` says what works here"


def names() -> list[str]:
    """The registered sandboxes."""
    return plugins.names(SANDBOXES)


def choose(name: str = "auto", images: Iterable[str] = ("cpu",)) -> tuple[str, str]:
    """Which sandbox a name stands for, and why.

    Args:
        name: of a sandbox, or "auto": the first that works here and has the images.
        images: what boxes will be made of.

    Raises:
        UsageError: no such sandbox.
        SandboxUnavailable: "auto", and none works here.
    """
    if name != "auto":
        find(name)
        return name, "as asked for"
    refused: list[SandboxUnavailable] = []
    for candidate in AUTO:
        try:
            maker = find(candidate)()
            missing = [image for image in sorted(set(images)) if not maker.digest(image)]
            if missing:
                maker.prepare(missing[0], lambda _line: None)
        except SandboxUnavailable as error:
            refused.append(error)
        else:
            why = "it works here" if not refused else f"{AUTO[0]} does not work: {refused[0].why}"
            return candidate, why
    told = "; ".join(f"{one}: {error.why}" for one, error in zip(AUTO, refused, strict=True))
    raise SandboxUnavailable(
        f"no sandbox works here ({told})", fix="`rcb doctor` says how to get one"
    )


def make(name: str = "auto") -> Maker:
    """The maker of this name.

    Raises:
        UsageError: no such sandbox.
        SandboxUnavailable: it does not work on this machine; the message says how to get it.
    """
    chosen, _ = choose(name)
    try:
        return find(chosen)()
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"no sandbox {chosen} here: {error.why}",
            fix=f"{error.fix}; {_DOCTOR}" if error.fix else _DOCTOR,
        ) from None


def find(spec: str) -> type[Maker]:
    """The class that makes boxes of this kind.

    Raises:
        UsageError: no such sandbox.
    """
    found, label, rest = plugins.find(
        SANDBOXES, spec, kind="sandbox", method="start(settings)", where="rcb doctor"
    )
    if rest:
        raise UsageError(f"the sandbox {label!r} takes no settings: leave out {rest!r}")
    return found
