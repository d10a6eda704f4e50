"""Every benchmark runs; what it measures is nobody's business here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks import folders
from benchmarks.instead import STEPS

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


@dataclass(frozen=True)
class Told:
    """What a run of everything printed, and its numbers."""

    text: str
    results: dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("benchmarks")
    out, missing = folder / "made" / "times.json", folder / "missing"
    words = ["--sandbox", "bubblewrap", "--public", str(missing), "--out", str(out)]
    text = run(*words, "--chart", str(folder / "chart.svg"))
    found: dict[str, Any] = json.loads(out.read_text())
    return Told(text, {result["name"]: result for result in found["results"]})


def test_each_benchmark_measures_something_or_says_why_not(told: Told) -> None:
    assert list(told.results) == [
        "instead",
        "envs",
        "grading",
        "actions",
        "folders",
        "steps",
        "oracle",
        "scopes",
        "waiting",
        "stored",
        "leaks",
    ]
    for name, result in told.results.items():
        assert result["rows"] or result["figures"] or name == "folders"
    assert told.results["instead"]["notes"][0].startswith("Other ways are left out")
    assert {row["what"].partition(": ")[2] for row in told.results["instead"]["rows"]} == set(STEPS)


def test_the_summary_has_what_is_to_be_reached_beside_each_number(told: Told) -> None:
    _, _, summary = told.text.partition("In one run")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in summary.splitlines()]
    reach = {row[0]: row[-1] for row in rows if row and row[1]}
    assert reach["reset"] == "p50 <= 4 ms"
    assert reach["fork"] == reach["restore"] == "p50 <= 1 ms"
    assert reach["run_tests"].startswith("p50 <= the tests in a warm process + 15 ms")
    assert reach["bubblewrap: run_tests beyond the tests in a warm process, ms"] == "<= 15"
    actions = "bubblewrap: file actions per second, a reset every 50 included"
    assert reach[actions] == ">= 2,500"
    assert reach["descriptors left"] == "0"
    assert "graded completions per second" in reach
    assert told.results["envs"]["targets"] == {"run_tests: 8 envs over 1": ">= 1.7"}
    assert ">= 1,500" in told.results["steps"]["targets"].values()


def test_grading_and_test_runs_stand_beside_a_fresh_interpreter(told: Told) -> None:
    for name, what in (("grading", "one grading"), ("actions", "run_tests")):
        row = next(
            row for row in told.results[name]["rows"] if row["what"] == f"bubblewrap: {what}"
        )
        assert "fresh interpreter" in row["beside"]
        assert row["p99_ms"] >= row["p50_ms"] > 0


def test_folders_without_the_public_data_set_are_skipped_with_a_line_that_says_so(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (note,) = told.results["folders"]["notes"]
    assert re.search(r"Skipped: .*there is none at .*missing", note)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (note,) = folders.run(None, [], quick=True).notes
    assert re.search("Skipped: .*rcb pull researchcodebench", note)


def test_memory_of_warm_boxes_is_told_and_each_answers() -> None:
    command = [sys.executable, "-m", "benchmarks.memory", "--boxes", "2", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"bubblewrap .* 2 .* MiB .* 2/2 ", done.stdout), done.stdout
