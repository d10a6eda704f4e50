"""What tests of the viewer have in common: a server as users start it, and a browser."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.caches import user_cache

_AXE = "axe-core@4.10.2"
_FETCH_S = 90.0
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def viewer(folder: Path, *options: str, cache: Path) -> Iterator[str]:
    """`rcb view` of a folder; yields its address, and fails if it said anything of an error."""
    server = subprocess.Popen(
        [sys.executable, "-m", "rcb_env.cli", "view", str(folder), "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    assert server.stderr is not None
    said = []
    try:
        for line in server.stderr:
            said.append(line)
            if line.startswith("serving "):
                yield line.split()[1]
                break
        else:
            pytest.fail(f"rcb view did not come up: {''.join(said)}")
    finally:
        server.terminate()
        _, rest = server.communicate(timeout=20)
    assert "Traceback" not in rest


def chromium() -> str:
    """The browser of this machine; the test is left out, or fails, where there is none."""
    found = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if found is None:
        if os.environ.get("RCB_REQUIRE_CHROMIUM") == "1":
            pytest.fail("RCB_REQUIRE_CHROMIUM is set, but there is no chromium")
        pytest.skip("no chromium here: apt-get install chromium")
    return found


def axe() -> str:
    """The source of axe-core, fetched once by npm; the test is left out where that is not possible."""
    kept = user_cache("tests") / f"{_AXE}.js"
    if not kept.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm here to fetch axe-core with")
        kept.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            scratch = kept.parent / f"axe-{os.getpid()}"
            scratch.mkdir()
            stack.callback(shutil.rmtree, scratch)
            done = subprocess.run(
                [npm, "pack", _AXE, "--silent"],
                cwd=scratch,
                capture_output=True,
                timeout=_FETCH_S,
                check=False,
            )
            packed = next(scratch.glob("*.tgz"), None)
            if done.returncode or packed is None:
                pytest.skip("axe-core cannot be fetched here")
            with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
                member = archive.extractfile("package/axe.min.js")
                assert member is not None
                unfinished = scratch / "axe.js"
                unfinished.write_bytes(member.read())
                unfinished.replace(kept)
    return kept.read_text("utf-8")
