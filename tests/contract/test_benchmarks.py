"""Every benchmark runs; what it measures is nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("benchmarks") / "times.json"
    run("--sandbox", "bubblewrap", "--out", str(out))
    found: dict[str, Any] = json.loads(out.read_text())
    return {result["name"]: result for result in found["results"]}


def test_each_benchmark_measures_something_or_says_why_not(told: dict[str, Any]) -> None:
    assert list(told) == [
        "instead",
        "envs",
        "grading",
        "actions",
        "folders",
        "steps",
        "waiting",
    ]
    for result in told.values():
        assert result["rows"] or result["figures"] or result["notes"]


def test_grading_and_test_runs_stand_beside_a_fresh_interpreter(told: dict[str, Any]) -> None:
    for name, what in (("grading", "one grading"), ("actions", "run_tests")):
        row = next(row for row in told[name]["rows"] if row["what"] == f"bubblewrap: {what}")
        assert "fresh interpreter" in row["beside"]
        assert row["p99_ms"] >= row["p50_ms"] > 0


def test_folders_without_the_public_data_set_are_skipped_with_a_line_that_says_so(
    told: dict[str, Any], tmp_path: Path
) -> None:
    assert any("--public" in note for note in told["folders"]["notes"])
    missing = tmp_path / "missing"
    assert "Skipped" in run("--sandbox", "bubblewrap", "--public", str(missing), "folders")
