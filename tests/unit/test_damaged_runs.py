"""Every command that reads runs, on run folders that are damaged, incomplete, or made to do harm."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rcb_env.cli.main import rcb
from rcb_env.errors import RcbError
from rcb_env.runs.plan import RunConfig
from rcb_env.runs.spending import RunMeter
from rcb_env.runs.store import RunStore
from tests.made_runs import finish, plan_of

GOOD = ("A/one", "B/three")
BAD = "A/two"
CONTROL = "\x1b]0;owned\x07\x1b[2J\x9b2J"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three finished episodes; the second line is the one to be damaged."""
    folder = tmp_path_factory.mktemp("sound") / "run"
    plan = plan_of({"A/one": 8, BAD: 2, "B/three": 5})
    with RunStore.create(folder, {"config": {"agent": "repair"}, "plan": plan}) as store:
        finish(store, "A/one", "passed")
        finish(store, BAD, "failed")
        finish(store, "B/three", "failed")
    return folder


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def run(*words: str) -> Ended:
    """A command in this process; an exception that is none of ours is a traceback, and fails."""
    done = CliRunner().invoke(rcb, words, color=True, standalone_mode=False)
    error = done.exception
    if error is not None and not isinstance(error, RcbError | click.ClickException):
        raise error
    return Ended(2 if error else 0, done.stdout, done.stderr + (f"rcb: {error}" if error else ""))


Change = Callable[[dict[str, Any]], Any]


def _without(*path: str) -> Change:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        place = line
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]
        return line

    return change


def _with(value: object, *path: str) -> Change:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        place = line
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        return line

    return change


DAMAGES: dict[str, Change] = {
    "no challenge": _without("episode", "challenge"),
    "no trajectory": _without("trajectory"),
    "no key": _without("key"),
    "no episode": _without("episode"),
    "no code": _without("episode", "code"),
    "a list": lambda line: [line],
    "nested": lambda _line: "[" * 100_000,
    "nested inside": lambda _line: '{"key": ' + "[" * 300 + "]" * 300 + "}",
    "usage": _with("x", "episode", "usage"),
    "tokens": _with("x", "episode", "usage", "prompt_tokens"),
    "huge tokens": _with(10**400, "episode", "usage", "prompt_tokens"),
    "cost": _with(float("nan"), "episode", "usage", "cost_usd"),
    "attempt": _with("x", "attempt"),
    "attempt zero": _with(0, "attempt"),
    "verdict": _with([1], "episode", "verdict"),
    "verdict of nothing": _with({}, "episode", "verdict"),
    "message": _with(["x"], "episode", "verdict", "message"),
    "cases": _with([7], "episode", "verdict", "cases"),
    "steps": _with("a", "episode", "steps"),
    "negative steps": _with(-1, "episode", "steps"),
    "sample": _with("0", "episode", "sample"),
    "lines": _with(None, "episode", "lines"),
    "time": _with(float("inf"), "episode", "wall_s"),
    "status": _with(CONTROL, "episode", "status"),
    "end reason": _with(CONTROL, "episode", "end_reason"),
    "trajectory elsewhere": _with("../../etc/passwd", "trajectory"),
    "absolute trajectory": _with("/etc/passwd", "trajectory"),
    "another run's key": _with("0123456789abcdef", "key"),
    "another challenge's key": _with("B/three", "episode", "challenge"),
    "another sample": _with(1, "episode", "sample"),
    "other content": _with("other", "episode", "content_hash"),
}
COMMANDS: dict[str, Sequence[str]] = {
    "report": ["report", "RUN"],
    "report --brief": ["report", "RUN", "--brief"],
    "report --csv": ["report", "RUN", "--csv"],
    "report --json": ["report", "RUN", "--json"],
    "compare": ["compare", "RUN", "SOUND"],
    "compare --json": ["compare", "SOUND", "RUN", "--json"],
    "trajectory": ["trajectory", "RUN"],
    "trajectory --json": ["trajectory", "RUN", "--json"],
    "trajectory of one": ["trajectory", "RUN", "B/three"],
    "trajectory --longest": ["trajectory", "RUN", "--longest", "--max-chars", "40"],
    "export sft": ["export", "RUN", "--format", "sft", "--out", "OUT"],
    "export rl": ["export", "RUN", "--format", "rl", "--out", "OUT"],
    "export preference": ["export", "RUN", "SOUND", "--format", "preference", "--out", "OUT"],
}


def _words(command: str, run_folder: Path, sound: Path, out: Path) -> list[str]:
    names = {"RUN": str(run_folder), "SOUND": str(sound), "OUT": str(out)}
    return [names.get(word, word) for word in COMMANDS[command]]


def _damaged(sound: Path, folder: Path, change: Change) -> Path:
    shutil.copytree(sound, folder)
    path = folder / "episodes.jsonl"
    lines = path.read_text().splitlines()
    made = change(json.loads(lines[1]))
    lines[1] = made if isinstance(made, str) else json.dumps(made)
    path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_line_is_named_and_the_others_count(
    sound: Path, tmp_path: Path, damage: str, command: str
) -> None:
    """Twelve of thirty commands ended with a traceback; a line of another run was counted in silence."""
    folder = _damaged(sound, tmp_path / "run", DAMAGES[damage])
    ended = run(*_words(command, folder, sound, tmp_path / "rows.jsonl"))
    assert f"{folder}/episodes.jsonl:2: " in ended.text.replace("\\/", "/")
    assert "counts as missing" in ended.text
    assert CONTROL not in ended.text
    if command.startswith("export"):
        if "preference" not in command:
            rows = (tmp_path / "rows.jsonl").read_text().splitlines()
            wanted = ["A/one"] if "sft" in command else list(GOOD)
            assert [json.loads(row)["challenge"] for row in rows] == wanted
        return
    assert ended.code == 0
    if command == "report --json":
        states = json.loads(ended.out)["states"]
        assert {state: n for state, n in states.items() if n} == {
            "passed": 1,
            "failed": 1,
            "missing": 1,
        }
    elif command == "trajectory --json":
        assert [json.loads(row)["challenge"] for row in ended.out.splitlines()] == list(GOOD)


def test_a_sound_run_has_no_problems(sound: Path, tmp_path: Path) -> None:
    for command in COMMANDS:
        ended = run(*_words(command, sound, sound, tmp_path / f"{command}.jsonl"))
        assert "missing" not in ended.err, command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_without_its_episodes_says_which_file_is_missing(
    sound: Path, tmp_path: Path, command: str
) -> None:
    """It was reported as a run of which everything is missing."""
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    (folder / "episodes.jsonl").unlink()
    ended = run(*_words(command, folder, sound, tmp_path / "rows.jsonl"))
    if command in ("trajectory of one", "trajectory --longest"):
        assert ended.code == 2
    assert f"{folder}/episodes.jsonl is missing" in ended.text


@pytest.mark.parametrize("command", ["trajectory of one", "export rl", "export sft"])
def test_a_run_without_its_trajectories_says_so_where_they_are_needed(
    sound: Path, tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    shutil.rmtree(folder / "trajectories")
    ended = run(*_words(command, folder, sound, tmp_path / "rows.jsonl"))
    assert ended.code == 2
    assert f"{folder}/trajectories is missing" in ended.err
    assert run("report", str(folder)).code == 0  # needs none


def test_a_trajectory_that_is_a_link_out_of_the_folder_is_not_read(
    sound: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"kind": "start", "text": "my key"}\n')
    path = folder / "trajectories" / "B" / "three.0.jsonl"
    path.unlink()
    path.symlink_to(secret)
    for command in ("trajectory of one", "export rl"):
        ended = run(*_words(command, folder, sound, tmp_path / "rows.jsonl"))
        assert "link out of the run's folder" in ended.err
        assert "my key" not in ended.text


@pytest.mark.parametrize("cut_off", ["x", {"prompt_tokens": "x"}, {"cost_usd": -1.0}])
def test_spending_that_cannot_be_read_is_named(
    sound: Path, tmp_path: Path, cut_off: object
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    sessions = [{"cut_off": {"prompt_tokens": 5}}, {"cut_off": cut_off}]
    path = folder / "sessions.jsonl"
    path.write_text("".join(json.dumps(session) + "\n" for session in sessions))
    store = RunStore.open(folder)
    assert RunMeter(RunConfig(agent="noop"), store).limits.usage.prompt_tokens == 5
    (problem,) = store.problems
    assert problem.startswith(f"{path}:2: what was spent is not known: ")


@pytest.mark.parametrize(
    "record",
    [
        "[" * 100_000,
        '{"format": 1, "plan": [1], "config": {}}',
        '{"format": 1, "plan": [], "config": "x"}',
        '{"format": 1, "plan": "x", "config": {}}',
        '{"format": 1, "config": {}, "plan": [{"challenge": "A/one", "paper": "A", "file": "f",'
        ' "lines": "x", "samples": [0]}]}',
    ],
    ids=lambda record: record[:40],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_record_is_one_line(
    sound: Path, tmp_path: Path, record: str, command: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    (folder / "run.json").write_text(record)
    ended = run(*_words(command, folder, sound, tmp_path / "rows.jsonl"))
    assert ended.code == 2
    assert f"{folder}/run.json is damaged: " in ended.err
    assert "\n" not in ended.err.strip()


def _foreign(folder: Path) -> Path:
    """A run every text of which tries to control the terminal."""
    name = f"A/{CONTROL}"
    config = {"agent": CONTROL, "model": {"name": CONTROL}}
    plan = plan_of({name: 3, "B/x": 1})
    plan[0]["paper"] = CONTROL
    with RunStore.create(folder, {"config": config, "plan": plan}) as store:
        finish(store, "B/x", "infra_error", error=CONTROL)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_in_a_foreign_run_controls_the_terminal(tmp_path: Path, command: str) -> None:
    """A title, a cleared screen, a link: what a server or a stranger writes is shown as an escape."""
    folder = _foreign(tmp_path / "run")
    ended = run(*_words(command, folder, folder, tmp_path / f"{CONTROL}.jsonl"))
    assert not {"\x1b", "\x07", "\x9b"} & set(ended.text)


def test_nothing_reaches_a_real_terminal(tmp_path: Path) -> None:
    """Where tables are in colour, only our own colours are."""
    folder = _foreign(tmp_path / "run")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rcb_env.cli", "report", str(folder)],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"},
    )
    os.close(slave)
    shown = b""
    try:
        while data := os.read(master, 1 << 16):
            shown += data
    except OSError:  # how a terminal says that nobody is left on the other side
        pass
    finally:
        os.close(master)
    assert process.wait() == 0
    assert rb"\x1b]0;owned" in shown
    for harm in (b"\x1b]", b"\x07", b"\x1b[2J", b"\xc2\x9b"):
        assert harm not in shown
