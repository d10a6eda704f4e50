"""The sandboxes that tests run on: all that are registered, each left out with its reason where it does not work.

RCB_REQUIRE_DOCKER=1 makes a missing engine, or a missing image, a failure: CI sets it.
"""

from __future__ import annotations

import functools
import os
import signal

import hypothesis
import pytest

from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import make, names

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, whose children ignore Ctrl-C; programs under test must not inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A machine with much to do takes any time for one example; what must be quick is measured by the benchmarks.
hypothesis.settings.register_profile("rcb", deadline=None)
hypothesis.settings.load_profile("rcb")


@functools.cache
def _obstacle(maker: str) -> str:
    """Why no box of this kind can be made here; "" when one can."""
    try:
        made = make(maker)
        if not made.digest("cpu"):
            made.prepare("cpu", lambda _line: None)
    except SandboxUnavailable as error:
        return str(error)
    return ""


def _require(maker: str) -> str:
    """This maker; the test is left out, or fails, where it does not work."""
    if why := _obstacle(maker):
        if maker == "docker" and os.environ.get("RCB_REQUIRE_DOCKER") == "1":
            pytest.fail(f"RCB_REQUIRE_DOCKER is set, but: {why}")
        pytest.skip(f"no {maker} here: {why}")
    return maker


@pytest.fixture(scope="module", params=names())
def maker_name(request: pytest.FixtureRequest) -> str:
    """The name of each maker in turn."""
    return _require(str(request.param))


@pytest.fixture(scope="module")
def docker_only() -> str:
    """The name of the Docker maker, for what only an engine can do."""
    return _require("docker")
