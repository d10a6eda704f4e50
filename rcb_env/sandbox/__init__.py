"""Boxes: where code that nobody trusts runs.

box.py         `Box`: the host's end of a box, whatever made it; its limits and results
bubblewrap.py  makes boxes with bubblewrap: no daemon needed
pool.py        warm boxes, leased to one test run at a time
images.py      the packages of a box, from a lock file under images/
"""

from __future__ import annotations

from rcb_env.errors import SandboxUnavailable, unknown
from rcb_env.sandbox.box import Maker

MAKERS = ("docker", "bubblewrap")


def make(name: str = "auto") -> Maker:
    """The maker of this name; "auto" takes Docker where an engine has the image, else bubblewrap.

    Raises:
        UsageError: no such maker.
        SandboxUnavailable: it does not work on this machine; the message says how to get it.
    """
    if name not in ("auto", *MAKERS):
        raise unknown("sandbox", name, ("auto", *MAKERS), where="rcb doctor")
    if name == "bubblewrap" or (name == "auto" and not _docker_is_ready()):
        from rcb_env.sandbox.bubblewrap import Bubblewrap

        return Bubblewrap()
    from rcb_env.sandbox.docker import Docker

    return Docker()


def _docker_is_ready() -> bool:
    from rcb_env.sandbox import docker_images

    try:
        return bool(docker_images.digest("cpu"))
    except SandboxUnavailable:
        return False
