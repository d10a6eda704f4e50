"""`rcb run --arms`, and `rcb report` and `rcb compare` on what it leaves, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = """def scale(x, factor):
    # <paper2code name="scale">
    return x * factor + 1
    # </paper2code name="scale">
"""
CASES = """
from rcb_env.cases import case

@case(seeds=2)
def scales(tree, rng):
    return tree.load("small").scale(float(rng.numpy.normal()), 2.5)
"""


@pytest.fixture(scope="module")
def selection(
    tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]
) -> tuple[str, ...]:
    """The options that choose the one region of each of two papers."""
    root = tmp_path_factory.mktemp("papers")
    (root / "papers.yaml").write_text("name: two\ntitle: Two\npapers: [one, other]\n")
    for name in ("one", "other"):
        write_paper(root / name, {"src/small.py": SOURCE, "tests/cases.py": CASES})
    return "--dataset", str(root), "--sandbox", "bubblewrap"


def _rcb(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_arms_are_played_resumed_reported_and_compared(
    selection: tuple[str, ...], tmp_path: Path
) -> None:
    done = _rcb(
        *("run", "--arms", "reference,simulated:skill=0,noop", "--out", "arms", "--json"),
        *selection,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert [run["run"] for run in result["arms"]] == [
        "arms/reference",
        "arms/simulated-skill-0.0",
        "arms/noop",
    ]
    assert [run["pass_rate"] for run in result["arms"]] == [100.0, 0.0, 0.0]
    assert "exact McNemar" in done.stderr

    lines = tmp_path / "arms" / "noop" / "episodes.jsonl"
    before = lines.read_bytes()
    lines.write_bytes(before.splitlines(keepends=True)[0])
    resumed = _rcb("run", "--resume", "arms", "--json", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout.splitlines()[-1]) == result
    assert len(lines.read_bytes().splitlines()) == 2

    refused = _rcb("run", "--resume", "arms", "--agent", "noop", folder=tmp_path)
    assert refused.returncode == 2
    assert "arms holds the arms reference, simulated:skill=0" in refused.stderr

    reports = _rcb("report", "arms", "--json", folder=tmp_path).stdout.splitlines()
    assert [json.loads(line)["agent"] for line in reports] == [
        "reference",
        "simulated:skill=0.0",
        "noop",
    ]
    pairs = [
        json.loads(line)
        for line in _rcb("compare", "arms", "--json", folder=tmp_path).stdout.splitlines()
    ]
    assert [(pair["a"], pair["b"]) for pair in pairs] == [
        ("reference", "simulated-skill-0.0"),
        ("reference", "noop"),
        ("simulated-skill-0.0", "noop"),
    ]
    assert pairs[1]["comparison"]["difference"]["value"] == -100.0
    assert pairs[1]["comparison"]["warnings"] == []
    table = _rcb("compare", "arms/noop", "arms/reference", folder=tmp_path)
    assert table.returncode == 0, table.stderr
    assert "only B: one/scale, other/scale" in table.stdout
    alone = _rcb("compare", "arms/noop", folder=tmp_path)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "name another one to compare it with" in alone.stderr


def test_a_folder_that_holds_runs_stands_for_them_in_the_order_they_were_made(
    selection: tuple[str, ...], tmp_path: Path
) -> None:
    """The demo's last command named a file beside the runs, and failed."""
    for name, agent in (("two", "noop"), ("one", "reference")):
        done = _rcb("run", "--agent", agent, "--out", f"runs/{name}", *selection, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    (tmp_path / "runs" / "trajectory.md").write_text("As the demo leaves it.\n")
    reports = _rcb("report", "runs", "--json", folder=tmp_path).stdout.splitlines()
    assert [json.loads(line)["run"] for line in reports] == ["runs/two", "runs/one"]
    pair = json.loads(_rcb("compare", "runs", "--json", folder=tmp_path).stdout)
    assert (pair["a"], pair["b"]) == ("two", "one")
    done = _rcb("export", "runs", "--format", "rl", "--out", "rl.jsonl", folder=tmp_path)
    assert "4 rows" in done.stdout, done.stderr
    which = _rcb("trajectory", "runs", "--longest", folder=tmp_path)
    assert (which.returncode, which.stdout) == (2, "")
    assert (
        which.stderr
        == "rcb: runs is not a run but a folder of runs: name one of runs/one, runs/two\n"
    )


def test_what_cannot_be_compared_or_played_side_by_side_gives_one_line(tmp_path: Path) -> None:
    for arguments, word in (
        (["compare", "nowhere", "nowhere2"], "there is no folder nowhere"),
        (["compare", "nowhere"], "there is no folder nowhere"),
        (["run", "--arms", "noop,refrence"], "refrence"),
        (["run", "--arms", "noop,reference", "--agent", "noop"], "--arms"),
        (["run", "--arms", ","], "--arms"),
    ):
        done = _rcb(*arguments, folder=tmp_path)
        assert done.returncode == 2, arguments
        (line,) = done.stderr.splitlines()
        assert line.startswith("rcb: ")
        assert word in line
    assert list(tmp_path.iterdir()) == []
