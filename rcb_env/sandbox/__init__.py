"""Boxes: where code that nobody trusts runs.

box.py         `Box`: the host's end of a box, whatever made it; its limits and results
bubblewrap.py  makes boxes with bubblewrap: no daemon needed
pool.py        warm boxes, leased to one test run at a time
images.py      the packages of a box, from a lock file under images/
"""

from __future__ import annotations

from rcb_env.errors import unknown
from rcb_env.sandbox.box import Maker

MAKERS = ("bubblewrap",)


def make(name: str = "auto") -> Maker:
    """The maker of this name; "auto" takes the first that works here.

    Raises:
        UsageError: no such maker.
        SandboxUnavailable: it does not work on this machine; the message says how to get it.
    """
    if name not in ("auto", *MAKERS):
        raise unknown("sandbox", name, ("auto", *MAKERS), where="rcb doctor")
    from rcb_env.sandbox.bubblewrap import Bubblewrap

    return Bubblewrap()
