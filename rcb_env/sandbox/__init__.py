"""Boxes: where code that nobody trusts runs.

box.py         `Box`: the host's end of a box, whatever made it; its limits and results
bubblewrap.py  makes boxes with bubblewrap: no daemon needed
docker.py      makes boxes with a Docker-compatible engine
pool.py        warm boxes, leased to one test run at a time
fleet.py       all boxes of one grader, by role and image
images.py, docker_images.py   the packages of a box, from a lock file under images/
scratch.py     temporary folders, and what killed processes left
"""

from __future__ import annotations

from collections.abc import Iterable

from rcb_env.errors import SandboxUnavailable, unknown
from rcb_env.sandbox.box import Maker

MAKERS = ("docker", "bubblewrap")


def choose(name: str = "auto", images: Iterable[str] = ("cpu",)) -> tuple[str, str]:
    """Which maker a name stands for, and why.

    "auto" is Docker where an engine answers and has all the images, else bubblewrap.

    Raises:
        UsageError: no such maker.
    """
    if name not in ("auto", *MAKERS):
        raise unknown("sandbox", name, ("auto", *MAKERS), where="rcb doctor")
    if name != "auto":
        return name, "as asked for"
    from rcb_env.sandbox import docker_images

    try:
        missing = [image for image in sorted(set(images)) if not docker_images.digest(image)]
    except SandboxUnavailable:
        return "bubblewrap", "no Docker engine answers"
    if missing:
        return "bubblewrap", f"the Docker engine has no image {', '.join(missing)}"
    return "docker", "an engine answers and has the images"


def make(name: str = "auto") -> Maker:
    """The maker of this name.

    Raises:
        UsageError: no such maker.
        SandboxUnavailable: it does not work on this machine; the message says how to get it.
    """
    chosen, _ = choose(name)
    if chosen == "bubblewrap":
        from rcb_env.sandbox.bubblewrap import Bubblewrap

        return Bubblewrap()
    from rcb_env.sandbox.docker import Docker

    return Docker()
