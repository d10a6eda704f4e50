"""Whole runs in their own process, with real boxes: killed, interrupted, resumed, graded again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_env.errors import UsageError
from rcb_env.runs import grade_completions
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import RunStore

REGIONS = ("double", "triple", "quadruple")
SOURCE = '"""Multiples."""\n' + "".join(
    f"""

def {name}(x: float) -> float:
    # <paper2code name="{name}">
    y = {factor}.0 * x
    return y
    # </paper2code name="{name}">
"""
    for name, factor in zip(REGIONS, (2, 3, 4), strict=True)
)
FILES = {
    "src/multiples.py": SOURCE,
    "tests/cases.py": """
from rcb_env.cases import case

@case(seeds=2)
def multiples(tree, rng):
    module = tree.load("multiples")
    x = float(rng.numpy.normal())
    return {"y": [module.double(x), module.triple(x), module.quadruple(x)]}
""",
    "tests/checks.py": """
from rcb_env.cases import check

@check("multiples")
def four_is_twice_two(out, ref):
    assert abs(out["y"][2] - 2 * out["y"][0]) < 1e-9
""",
}
# Slow enough to be caught in the middle, and different from sample to sample.
AGENT = """
import time
from dataclasses import dataclass
from rcb_env.env.actions import ToolCall
from rcb_env.play.agent import Usage

@dataclass(frozen=True)
class Slow:
    delay_s: float = 0.0
    uses_model = False

    def play(self, task):
        for step in range(4):
            yield ToolCall("list_files", {})
            task.spend(Usage(prompt_tokens=10, completion_tokens=task.sample, calls=1))
            time.sleep(self.delay_s)
        code = task.challenge.reference if task.sample % 2 == 0 else "    return 0.0 * x\\n"
        yield ToolCall("write_region", {"code": code})
        yield ToolCall("submit", {})
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    root = tmp_path_factory.mktemp("dataset")
    write_paper(root / "tiny", FILES)
    (root / "papers.yaml").write_text("name: tiny\ntitle: Tiny\npapers: [tiny]\n")
    (root / "agents_for_tests.py").write_text(AGENT)
    return root


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(root: Path) -> Start:
    def start(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "rcb_env.cli", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, so that Ctrl-C can be sent to all of it
        )

    return start


def finish(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    """The object in the last line of stdout, if there is a line."""
    out, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    result: dict[str, Any] = json.loads(out.splitlines()[-1]) if out.strip() else {"errors": errors}
    return result


def run_arguments(root: Path, out: Path, *, delay_s: float = 0.0) -> list[object]:
    agent = f"agents_for_tests:Slow:delay_s={delay_s}"
    arguments = ["run", "--agent", agent, "--dataset", root, "--samples", 4, "--workers", 2]
    # Its boxes are children of the run, so what is left behind can be seen without an engine.
    arguments += ["--sandbox", "bubblewrap"]
    return [*arguments, "--out", out, "--json"]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stored(folder: Path) -> list[dict[str, Any]]:
    return list(JsonLines(folder / "episodes.jsonl").read())


def totals(folder: Path) -> dict[str, Any]:
    """What a resumed run must share with one that was never stopped."""
    episodes = [line["episode"] for line in RunStore.open(folder).latest()]
    return {
        "states": Counter((e["challenge"], e["sample"], e["status"]) for e in episodes),
        "codes": {(e["challenge"], e["sample"]): e["code_hash"] for e in episodes},
        "seeds": {(e["challenge"], e["sample"]): e["seed"] for e in episodes},
        "steps": sum(e["steps"] for e in episodes),
        "tokens": sum(e["usage"]["prompt_tokens"] for e in episodes),
        "completion": sum(e["usage"]["completion_tokens"] for e in episodes),
    }


def descendants(pid: int) -> set[tuple[int, str]]:
    """Processes below one, each with its start time, so that a reused number is not taken for it."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    found: set[tuple[int, str]] = set()
    todo = [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child[0])
    return found


def alive(processes: set[tuple[int, str]]) -> set[int]:
    left = set()
    for pid, started in processes:
        try:
            fields = (
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            )
        except OSError:
            continue
        if fields[19] == started and fields[0] != "Z":
            left.add(pid)
    return left


@pytest.fixture(scope="module")
def uninterrupted(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    process = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *map(str, run_arguments(root, out))],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return out


def test_a_run_has_one_line_for_each_planned_episode(uninterrupted: Path) -> None:
    lines = stored(uninterrupted)
    assert len(lines) == 12
    states = Counter(line["episode"]["status"] for line in lines)
    assert states == {"passed": 6, "failed": 6}
    record = RunStore.open(uninterrupted).record
    assert [entry["samples"] for entry in record["plan"]] == [[0, 1, 2, 3]] * 3
    assert {entry["own_lines"] for entry in record["plan"]} == {2}
    assert (uninterrupted / "sessions.jsonl").read_text(encoding="utf-8").count("\n") == 1


def test_after_kill_9_and_resume_nothing_is_lost_and_nothing_runs_twice(
    root: Path, tmp_path: Path, start: Start, uninterrupted: Path
) -> None:
    """Cases C073 and C078: kill in the middle of some episodes, resume, and compare everything."""
    out = tmp_path / "run"
    first = start(*run_arguments(root, out, delay_s=0.15))
    wait_for(lambda: len(stored(out)) >= 4, first)
    boxes = descendants(first.pid)
    first.kill()
    first.communicate()
    before = (out / "episodes.jsonl").read_bytes()
    before = before[: before.rfind(b"\n") + 1]
    begun = {path.relative_to(out) for path in (out / "trajectories").rglob("*.jsonl")}
    assert len(begun) > before.count(b"\n")  # some were in the middle: their steps are on disk
    assert all(any(JsonLines(out / path).read()) for path in begun)
    deadline = time.monotonic() + 10
    while alive(boxes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(boxes)

    second = finish(start(*run_arguments(root, out, delay_s=0.15), "--resume"))
    assert second["planned"] == 12
    assert second["states"]["passed"] == 6
    assert second["states"]["failed"] == 6
    assert (out / "episodes.jsonl").read_bytes().startswith(before)
    keys = Counter(line["key"] for line in stored(out))
    assert len(keys) == 12
    assert set(keys.values()) == {1}
    resumed, whole = totals(out), totals(uninterrupted)
    assert resumed == whole
    repeated = {line["trajectory"] for line in stored(out) if line["attempt"] > 1}
    assert len(repeated) == len(begun) - before.count(b"\n")  # the visible mark of repeated work

    again = finish(start(*run_arguments(root, out, delay_s=0.15), "--resume"))
    assert again["states"] == second["states"]
    assert len(stored(out)) == 12


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_seconds_and_leaves_no_process_behind(
    root: Path, tmp_path: Path, start: Start, signum: int, code: int
) -> None:
    """Case C026 for the boxes of a run: the signal twice, as an impatient user sends it.

    Ctrl-C reaches every process of the terminal's group, so boxes may end before the run knows
    why; that must not be stored as a failure of infrastructure.
    """
    out = tmp_path / "run"
    process = start(*run_arguments(root, out, delay_s=0.3))
    wait_for(lambda: len(stored(out)) >= 2, process)
    boxes = descendants(process.pid)
    assert boxes
    began = time.monotonic()
    send = os.killpg if signum == signal.SIGINT else os.kill
    send(process.pid, signum)
    time.sleep(0.1)
    send(process.pid, signum)
    result = finish(process, code)
    assert time.monotonic() - began < 10
    assert not alive(boxes)
    assert "--resume" in result["errors"]
    assert len(result["errors"].strip().splitlines()[-1:]) == 1
    assert "Traceback" not in result["errors"]
    lines = stored(out)
    assert len(lines) >= 2
    assert {line["episode"]["status"] for line in lines} <= {"passed", "failed"}


def test_the_number_of_workers_changes_no_result(
    root: Path, tmp_path: Path, start: Start, uninterrupted: Path
) -> None:
    out = tmp_path / "run"
    arguments = run_arguments(root, out)
    arguments[arguments.index("--workers") + 1] = 1
    finish(start(*arguments))
    assert totals(out) == totals(uninterrupted)


def test_resuming_with_another_setting_is_refused(
    root: Path, start: Start, uninterrupted: Path
) -> None:
    process = start(*run_arguments(root, uninterrupted, delay_s=0.1), "--seed", 7, "--resume")
    errors = finish(process, 2)["errors"]
    assert "seed was 0 and is now 7" in errors
    assert "agent_settings.delay_s was 0.0 and is now 0.1" in errors
    assert "Traceback" not in errors


def test_a_folder_that_holds_a_run_is_not_written_over(
    root: Path, start: Start, uninterrupted: Path
) -> None:
    errors = finish(start(*run_arguments(root, uninterrupted)), 2)["errors"]
    assert "already holds a run" in errors


def test_completions_from_a_file_make_a_run_like_any_other(
    root: Path, tmp_path: Path, start: Start
) -> None:
    right = "    y = 2.0 * x\n    return y\n"
    rows = [
        {"challenge": "tiny/double", "sample": 0, "code": right},
        {
            "challenge": "tiny/double",
            "sample": 1,
            "completion": f"Like so:\n```python\n{right}```\n",
        },
        {"challenge": "tiny/triple", "sample": 0, "code": "    return x\n"},
        {"challenge": "tiny/triple", "sample": 1, "completion": "I would rather not."},
    ]
    file = tmp_path / "completions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ["grade", file, "--dataset", root, "--sandbox", "bubblewrap", "--json", "--out"]
    result = finish(start(*arguments, tmp_path / "run"))
    assert result["planned"] == 4
    states = {state: count for state, count in result["states"].items() if count}
    assert states == {"passed": 2, "failed": 1, "invalid": 1}
    assert result["pass_rate"] == 50.0
    # What was asked for and is not in the file is missing, never dropped.
    result = finish(start(*arguments, tmp_path / "all", "--papers", "tiny"))
    assert result["planned"] == 6
    assert result["states"]["missing"] == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"sample": 0, "code": ""}', '"challenge" must be'),
        ('{"challenge": "tiny/dubble", "code": ""}', "Did you mean tiny/double"),
        ('{"challenge": "tiny/double", "sample": -1, "code": ""}', '"sample" must be'),
        ('{"challenge": "tiny/double", "sample": 1}', "one of"),
        ('{"challenge": "tiny/double", "sample": 1, "code": null}', '"code" must be a string'),
        ('{"challenge": "tiny/double", "code": ""}', "is in line 1 already"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_graded(
    root: Path, tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "completions.jsonl"
    good = '{"challenge": "tiny/double", "sample": 0, "code": "    return x"}\n'
    file.write_text(good + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        grade_completions(file, tmp_path / "run", dataset=str(root))
    assert str(refused.value).startswith(f"{file}:3: ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_stored_run_can_be_judged_again(
    tmp_path: Path, start: Start, uninterrupted: Path
) -> None:
    result = finish(
        start(
            "grade", uninterrupted, "--sandbox", "bubblewrap", "--json", "--out", tmp_path / "again"
        )
    )
    assert result["planned"] == 12
    assert totals(tmp_path / "again") == totals(uninterrupted)
