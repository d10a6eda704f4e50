"""Makes docs/pictures: what the report and the viewer show of a run that anybody can repeat, light and dark.

    python docs/site/pictures.py [RUNS]

RUNS is a folder of runs; without one, arms that ask no real model are played first (minutes). Needs Debian's chromium and the
development set-up. Pictures are WebP, each below 150 KB, for the README and the gallery.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

_PICTURES = Path(__file__).resolve().parents[1] / "pictures"
_ARMS = (
    "run --quiet --arms reference,single-shot,best-of-n:n=3,repair:rounds=3 --model simulated:skill=0.5"
    " --papers DyT,minp,schedule_free"
)
_WIDTH = 1280
_LARGEST_BYTES = 150_000
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def _rcb(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "rcb_env.cli", *words], check=True)


@contextlib.contextmanager
def _viewer(runs: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "rcb_env.cli", "view", str(runs), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield next(line.split()[1] for line in server.stderr if line.startswith("serving "))
        finally:
            server.terminate()


def _mended(runs: Path) -> str:
    """The viewer's address of an episode that passed at the second attempt."""
    (file,) = runs.glob("repair*/episodes.jsonl")
    for line in file.read_text("utf-8").splitlines():
        episode = json.loads(line)["episode"]
        if episode["status"] == "passed" and episode["test_runs"] == 2:
            asked = urlencode({"challenge": episode["challenge"], "sample": episode["sample"]})
            return f"episode/{file.parent.name}?{asked}"
    raise SystemExit("pictures: no episode of repair was mended")


def _save(page: Page, name: str, address: str, height: int, start: str = "body") -> None:
    """A page from an element on, in both schemes."""
    page.set_viewport_size({"width": _WIDTH, "height": height})
    page.goto(address)
    box = page.locator(start).first.bounding_box()
    assert box is not None
    clip = {"x": 0, "y": max(0, box["y"] - 16), "width": _WIDTH, "height": height, "scale": 1}
    for scheme in _SCHEMES:
        page.emulate_media(color_scheme=scheme)
        shot = page.context.new_cdp_session(page).send(
            "Page.captureScreenshot",
            {"format": "webp", "quality": 80, "clip": clip, "captureBeyondViewport": True},
        )
        data = base64.b64decode(shot["data"])
        if len(data) > _LARGEST_BYTES:
            raise SystemExit(f"pictures: {name} has {len(data)} bytes; lower its height")
        (_PICTURES / f"{name}-{scheme}.webp").write_bytes(data)


def main(runs: Path) -> None:
    """Make all of them."""
    _PICTURES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("pictures: no chromium here; apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        _rcb("report", str(runs), "--html", str(report))
        with sync_playwright() as playwright, _viewer(runs) as viewer:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            _save(page, "report", report.as_uri(), 1010)
            _save(page, "report-effort", report.as_uri(), 800, "h2:has-text('At equal effort')")
            _save(page, "runs", viewer, 480)
            _save(page, "episode", viewer + _mended(runs), 1010, "article")
            _save(page, "compare", f"{viewer}compare?a=single-shot&b=repair", 960)
            _save(page, "matrix", f"{viewer}matrix", 800)
            browser.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as place:
            _rcb(*_ARMS.split(), "--out", f"{place}/runs")
            main(Path(place) / "runs")
