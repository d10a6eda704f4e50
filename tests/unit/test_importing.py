"""Results of the public harness become runs: which file is read how, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rcb_env.cli.main import rcb
from rcb_env.errors import RcbError
from rcb_env.report.disagreements import (
    INFRASTRUCTURE,
    OUTPUT,
    TESTS,
    TIME,
    Judged,
    counts,
    disagreements,
)
from rcb_env.report.summary import summarize
from rcb_env.runs.regrading import regrade
from rcb_env.runs.store import RunStore

MODEL = '''"""Two regions of one name, one of another."""


def double(x):
    # <paper2code name="body">
    return x * 2
    # </paper2code name="body">


def halve(x):
    # <paper2code name="body">
    y = x / 2
    return y
    # </paper2code name="body">


def same(x):
    # <paper2code name="same, as it is">
    return x
    # </paper2code name="same, as it is">
'''
INDEX = "- id: tiny\n  title: Tiny\n  annotated_file_paths: model.py\n"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "pset"
    for path, text in {
        "papers.yaml": INDEX,
        "tiny/model.py": MODEL,
        "tiny/paper2code_paper.md": "Double it.\n",
        "tiny/paper2code_test.py": "import model\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def outcome(lines: int, passed: bool, exit_code: int, index: int = 0) -> dict[str, Any]:
    return {
        "snippet_code_line_count": lines,
        "completion_idx": index,
        "passed": passed,
        "exit_code": exit_code,
    }


def stats(**models: dict[str, Any]) -> dict[str, Any]:
    results = {model: {"results": each} for model, each in models.items()}
    return {"results": {"tiny": {"paper_metadata": {}, "results": results}}, "overall_scores": {}}


def completion(code: str, result: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "completion": f"Here:\n```python\n{code}```\n",
        "formatted_completion": {"lines": code.splitlines()},
        "test_result": result,
    }


def result(passed: bool, exit_code: int, stderr: str = "", stdout: str = "") -> dict[str, Any]:
    told = {"exit_code": exit_code, "stdout": stdout, "stderr": stderr}
    return {"success": exit_code == 0, "passed": passed, **told}


def answers(*regions: tuple[str, int, list[dict[str, Any]]]) -> dict[str, Any]:
    snippets = [
        {"name": name, "start_line": line, "predictions": {"M": {"completions": completions}}}
        for name, line, completions in regions
    ]
    file = {"rel_path": "model.py", "code": {"lines": []}, "snippets": snippets}
    return {"folder_name": "pset", "problems": [{"folder_name": "tiny", "problem_files": [file]}]}


@pytest.fixture
def imported(tmp_path: Path, dataset: Path) -> Callable[..., list[Path]]:
    """Imports a value as a file; gives back the runs."""

    def take(value: object, *options: str) -> list[Path]:
        path = tmp_path / "file.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        words = ["import", str(path), "--dataset", str(dataset), "--out", str(tmp_path / "runs")]
        done = CliRunner().invoke(rcb, [*words, "--json", *options], standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return [Path(folder) for folder in json.loads(done.stdout)["runs"].values()]

    return take


def states(run: Path) -> dict[str, str]:
    return {
        line["episode"]["challenge"]: line["episode"]["status"]
        for line in RunStore.open(run).latest()
    }


def test_outcomes_without_code_become_a_run_for_each_model(
    imported: Callable[..., list[Path]],
) -> None:
    """Regions of one name share a list, in their order; what has no result is missing and counts."""
    both = [outcome(1, True, 0), outcome(2, False, 124)]
    one, other = imported(
        stats(
            A={"body": both, "same, as it is": [outcome(1, False, 1)]},
            B={"body": [outcome(1, False, 0), outcome(2, True, 0)]},
        )
    )
    assert states(one) == {
        "tiny/body": "passed",
        "tiny/body-2": "timeout",
        "tiny/same-as-it-is": "failed",
    }
    summary = summarize(RunStore.open(other))
    assert (summary.agent, summary.model) == ("imported", "B")
    assert {state: n for state, n in summary.score.states.items() if n} == {
        "passed": 1,
        "failed": 1,
        "missing": 1,
    }
    assert summary.score.scaled_pass_rate is not None
    assert summary.score.scaled_pass_rate.low == pytest.approx(50)
    assert summary.problems == ()
    with pytest.raises(RcbError, match="without code, so there is nothing to grade"):
        regrade(one, one.parent / "again")


def test_several_completions_are_samples(imported: Callable[..., list[Path]]) -> None:
    body = [outcome(1, True, 0, 0), outcome(1, False, 1, 1), outcome(2, True, 0, 0)]
    (run,) = imported(stats(A={"body": [*body, outcome(2, True, 0, 1)]}))
    score = summarize(RunStore.open(run)).score
    assert (score.planned, score.states["passed"], score.states["missing"]) == (6, 3, 2)


def test_completions_keep_their_code_what_the_tests_printed_and_what_was_replied(
    imported: Callable[..., list[Path]],
) -> None:
    error = "Traceback (most recent call last):\n  File \"x\"\nNameError: name 'z' is not defined\n"
    (run,) = imported(
        answers(
            ("body", 4, [completion("    return x + x\n", result(True, 0, stdout="OK"))]),
            ("body", 10, [completion("    return z\n", result(False, 1, error))]),
            ("same, as it is", 17, [completion("    return x\n", None)]),
        )
    )
    store = RunStore.open(run)
    episodes = {line["episode"]["challenge"]: line["episode"] for line in store.latest()}
    assert episodes["tiny/body"]["code"] == "    return x + x\n"
    assert episodes["tiny/body"]["verdict"]["official_pass"] is True
    failed = episodes["tiny/body-2"]["verdict"]
    assert (failed["status"], failed["error_class"]) == ("failed", "name")
    assert failed["message"] == "exit code 1: NameError: name 'z' is not defined"
    assert episodes["tiny/same-as-it-is"]["status"] == "infra_error"  # never tested: not a failure
    assert "grade the run again" in episodes["tiny/same-as-it-is"]["error"]
    line = next(line for line in store.latest() if line["episode"]["challenge"] == "tiny/body")
    assert "Here:\\n```python" in store.trajectory_of(line).read_text()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "is neither an overall_stats.json nor a paper2code_answers.json"),
        ({"a": 1}, "is neither an overall_stats.json"),
        (
            {"results": {"tiny": {"results": {"A": {}}}}},
            "results.tiny.results.A.results: field req",
        ),
        ({"results": {}}, "holds no result of any model"),
        ({"results": {"tinny": {"results": {"A": {"results": {"x": []}}}}}}, "tinny"),
        (stats(A={"body": [outcome(1, True, 0)]}), "has 2 regions 'body', the file 1"),
        (stats(A={"gone": [outcome(1, True, 0)]}), "has 0 regions 'gone'"),
        (stats(A={"same, as it is": [outcome(9, True, 0)]}), "has 9 lines of code there and 1 in"),
        (answers(("body", 5, [])), "has no region 'body' in line 6 of the data set"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line_and_nothing_is_written(
    imported: Callable[..., list[Path]], tmp_path: Path, value: object, words: str
) -> None:
    with pytest.raises(RcbError) as error:
        imported(value)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_models_are_chosen_by_name(imported: Callable[..., list[Path]]) -> None:
    each = {"same, as it is": [outcome(1, True, 0)]}
    with pytest.raises(RcbError, match="A1"):
        imported(stats(A=each, B=each), "--models", "A1")
    (run,) = imported(stats(A=each, B=each), "--models", "B")
    assert run.name == "B"
    with pytest.raises(RcbError, match="already holds a run"):
        imported(stats(A=each, B=each), "--models", "B")


def test_equal_answers_with_two_verdicts_are_listed_with_a_cause() -> None:
    def judged(status: str, message: str = "", code: str = "c") -> Judged:
        verdict = {"status": status, "message": message}
        return Judged.of({"status": status, "code_hash": code, "verdict": verdict})

    official = {
        ("A/agrees", 0): judged("failed", "exit code 1"),
        ("A/slow", 0): judged("timeout"),
        ("A/word", 0): judged("failed", "exit code 0, but the tests printed a word"),
        ("A/wrong", 0): judged("passed"),
        ("A/lost", 0): judged("passed"),
        ("A/other code", 0): judged("passed", code="other"),
        ("A/no code", 0): judged("passed", code=""),
    }
    ours = {
        ("A/agrees", 0): judged("failed", "y is 2"),
        ("A/slow", 0): judged("passed"),
        ("A/word", 0): judged("passed"),
        ("A/wrong", 0): judged("failed", "y is 1"),
        ("A/lost", 0): judged("infra_error", "no mmcv"),
        ("A/other code", 0): judged("failed"),
        ("A/no code", 0): judged("failed", code=""),
    }
    found = disagreements(official, ours)
    assert {one.challenge: one.cause for one in found} == {
        "A/slow": TIME,
        "A/word": OUTPUT,
        "A/wrong": TESTS,
        "A/lost": INFRASTRUCTURE,
    }
    assert next(one.told for one in found if one.cause == TESTS) == "A: passed; B: y is 1"
    assert counts(found) == Counter([TIME, OUTPUT, TESTS, INFRASTRUCTURE])
