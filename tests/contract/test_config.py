"""Defaults of one's own in rcb.toml: what counts, what wins, and what a mistake in it says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rcb_env.cli import main
from tests.terminals import RCB


def _rcb(
    *arguments: str, folder: Path, home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RCB, *arguments],
        cwd=folder,
        env={**os.environ, **({"HOME": str(home)} if home else {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _ids(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["id"] for line in done.stdout.splitlines()]


def test_a_file_sets_defaults_for_one_command_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "rcb.toml").write_text(
        '[list.challenges]\npapers = ["DyT", "minp"]\njson = true\n\n[list.papers]\nscope = "open"\n'
    )
    listed = _rcb("list", "challenges", folder=tmp_path)
    assert {id.partition("/")[0] for id in _ids(listed)} == {"DyT", "minp"}
    assert listed.stderr == f"defaults from {tmp_path}/rcb.toml: papers, json, scope\n"
    given = _ids(_rcb("list", "challenges", "--papers", "minp", folder=tmp_path))
    assert {id.partition("/")[0] for id in given} == {"minp"}
    without = _rcb("--no-config", "list", "challenges", folder=tmp_path)
    assert without.stdout.startswith("ID ")
    assert without.stderr == ""
    shown = _rcb("list", "challenges", "--help", folder=tmp_path)
    assert shown.returncode == 0


def test_config_says_where_each_value_is_from(tmp_path: Path) -> None:
    (tmp_path / "rcb.toml").write_text(
        '[run]\nworkers = 8\nbase-url = "http://me:secret@127.0.0.1:1/v1"\n'
    )
    path = str(tmp_path / "rcb.toml")
    own = json.loads(_rcb("config", "--json", folder=tmp_path).stdout)
    assert own["file"] == path
    assert {"command": "run", "option": "workers", "value": 8, "from": path} in own["values"]
    lines = _rcb("config", "run", folder=tmp_path).stdout.splitlines()
    assert f"run --workers = 8  ({path})" in lines
    assert "run --max-steps = 50  (default)" in lines
    assert not any("secret" in line for line in lines)
    without = _rcb("--no-config", "config", "run", folder=tmp_path).stdout.splitlines()
    assert "run --base-url = null  (default)" in without
    nothing = _rcb("--no-config", "config", folder=tmp_path)
    assert nothing.stdout == ""


def test_the_nearest_file_counts_up_to_the_repository_and_no_further(tmp_path: Path) -> None:
    """A file of somebody else in a folder above, such as /tmp, would have named the server that gets one's key."""
    repository = tmp_path / "repository"
    inside = repository / "a" / "b"
    inside.mkdir(parents=True)
    (tmp_path / "rcb.toml").write_text("[run]\nworkers = 1\n")
    (repository / ".git").mkdir()

    def counts(folder: Path, home: Path) -> str | None:
        found = json.loads(_rcb("config", "--json", folder=folder, home=home).stdout)["file"]
        return None if found is None else str(Path(found).relative_to(tmp_path))

    assert counts(inside, tmp_path) is None
    project = repository / "pyproject.toml"
    project.write_text("[tool.other]\nx = 1\n")
    assert counts(inside, tmp_path) is None
    project.write_text("[tool.rcb.run]\nworkers = 2\n")
    assert counts(inside, tmp_path) == "repository/pyproject.toml"
    (repository / "a" / "rcb.toml").write_text("[run]\nworkers = 3\n")
    assert counts(inside, tmp_path) == "repository/a/rcb.toml"
    (repository / ".git").rmdir()
    (repository / "a" / "rcb.toml").unlink()
    project.unlink()
    assert counts(inside, tmp_path) == "rcb.toml", "below the home folder"
    assert counts(inside, inside / "elsewhere") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nwokers = 8\n", ["[run] wokers", "Did you mean workers", "rcb run --help"]),
        ("[run]\nmax_steps = 8\n", ["[run] max_steps", "max-steps"]),
        ("[rum]\nworkers = 8\n", ["[rum]", "Did you mean run"]),
        ("workers = 8\n", ["workers is no table of a command", "[run]"]),
        ("run = 8\n", ["run is no table", "[run]"]),
        ('[run]\nworkers = "many"\n', ["[run] workers", "'many'", "--no-config"]),
        ("[run]\nworkers = 2.5\n", ["[run] workers", "'2.5'"]),
        ("[run]\nworkers = true\n", ["[run] workers", "a text or a number"]),
        ("[run]\nworkers = 0\n", ["[run] workers", "x>=1"]),
        ("[run]\nhint = 1\n", ["[run] hint", "true or false"]),
        ("[run]\npapers = [[1]]\n", ["[run] papers", "a list"]),
        ('[run]\npapers = [""]\n', ["[run] papers", "it is empty"]),
        ('[run]\nfeedback = "all"\n', ["[run] feedback", "'all'", "messages"]),
        ("[run\n", ["is not TOML", "line 1", "--no-config"]),
        ('[run]\nmodel = "\udcff"\n', ["is not TOML", "utf-8"]),
    ],
)
def test_a_mistake_is_one_line_with_file_key_and_what_to_do(
    text: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "rcb.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["list", "agents"])
    shown = capfd.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    (line,) = shown.err.splitlines()
    assert line.startswith(f"rcb: {tmp_path}/rcb.toml")
    for word in words:
        assert word in line


def test_defaults_that_do_not_fit_what_is_asked_for_give_way(
    tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    """With a model in the file, `rcb run --agent noop` said that noop takes none; resuming said that the run was another."""
    files = {
        "src/one.py": 'def one():\n    # <paper2code name="one">\n    return 1\n    # </paper2code name="one">\n',
        "tests/cases.py": "from rcb_env.cases import case\n\n@case(seeds=1)\ndef is_one(tree, rng):\n"
        '    return tree.load("one").one()\n',
    }
    paper = write_paper(tmp_path / "one", files)
    config = tmp_path / "rcb.toml"
    shared = f'[run]\ndataset = "{paper}"\nmodel = "simulated:skill=1"\nagent = "single-shot"\n'
    config.write_text(shared)
    noop = _rcb("run", "--agent", "noop", "--out", "a", "--json", folder=tmp_path)
    assert json.loads(noop.stdout.splitlines()[-1])["states"]["no_change"] == 1
    record = json.loads((tmp_path / "a" / "run.json").read_text())
    assert record["config"]["model"] is None
    config.write_text(f"{shared}max-steps = 3\nsamples = 2\nworkers = 3\n")
    again = _rcb("run", "--resume", "a", "-q", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    arms = _rcb("run", "--arms", "reference,noop", "--out", "b", "--json", folder=tmp_path)
    assert arms.returncode == 0, arms.stderr
    assert [run["planned"] for run in json.loads(arms.stdout.splitlines()[-1])["arms"]] == [2, 2]
    record = json.loads((tmp_path / "b" / "noop" / "run.json").read_text())
    assert record["config"]["max_steps"] == 3, "what was in effect is on record"
