"""The sandboxes that tests run on, and the miniature papers they run.

All sandboxes that are registered are used, each left out with its reason where it does not work. RCB_REQUIRE_DOCKER=1
makes a missing engine, or a missing image, a failure: CI sets it.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import make, names

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, whose children ignore Ctrl-C; programs under test must not inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    import hypothesis
except ImportError:  # the environment of tests/adapters has none
    pass
else:  # on a busy machine any example may take its time
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


@pytest.fixture(scope="session")
def write_paper() -> Callable[..., Path]:
    """Writes a miniature paper to disk; returns its folder, which has the name of the paper.

    `files` are texts by path; what has a tag in it is annotated. Further arguments are entries of paper.yaml, or change
    those that every miniature has.
    """

    def write(folder: Path, files: Mapping[str, str], **entries: object) -> Path:
        index = {
            "id": folder.name,
            "title": folder.name.capitalize(),
            "authors": ["Nobody"],
            "domain": "none",
            "license": "MIT",
            "dates": {"v1": "2025-01-01"},
            "annotated": [path for path, text in files.items() if "<paper2code" in text],
            "image": "cpu",
            "limits": {"time_s": 10, "memory_mb": 512},
            **entries,
        }
        texts = {
            "paper.yaml": yaml.safe_dump(index, sort_keys=False),
            "paper.md": "Multiply by the factor and add one.\n",
            "tests/cases.py": "",
            "tests/checks.py": "",
            **files,
        }
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text.encode("utf-8", "surrogateescape"))
        return folder

    return write
