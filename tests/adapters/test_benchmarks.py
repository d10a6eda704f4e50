"""The benchmarks find what they compare with, and draw their chart; what they measure is nobody's business here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.instead import STEPS, WAYS
from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import docker_images, make
from rcb_env.sandbox.engine import engine

ROOT = Path(__file__).parents[2]


def _has_docker() -> bool:
    try:
        make("docker")
        return bool(docker_images.digest("cpu"))
    except SandboxUnavailable:
        return False


def test_every_step_stands_beside_the_other_ways_in_one_chart(tmp_path: Path) -> None:
    if not _has_docker():
        if os.environ.get("RCB_REQUIRE_DOCKER") == "1":
            pytest.fail("RCB_REQUIRE_DOCKER is set, but there is no engine or no image")
        pytest.skip("no Docker engine here, or no image")
    chart, out = tmp_path / "chart.svg", tmp_path / "times.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "instead", "envs", "--quick"),
            *("--sandbox", "bubblewrap", "--sandbox", "docker", "--chart", chart, "--out", out),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(out.read_text())["results"][0]
    rows = found["rows"]
    left_out = {note.partition(" is left out: ")[0] for note in found["notes"]}
    ports = bool(engine().networks.list(names=["bridge"]))
    assert left_out == (set() if ports else {"swe-rex"})
    there = {row["what"] for row in rows}
    assert there >= {f"{way}: {step}" for way in WAYS.keys() - left_out for step in STEPS[:4]}
    assert all(row["beside"] for row in rows if row["what"].startswith("bubblewrap"))
    assert "<svg" in chart.read_text()
