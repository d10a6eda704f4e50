"""Reports: the numbers of a run directory, its exports, and trajectories as text."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rcb_env.errors import StoreError
from rcb_env.grading.verdict import Verdict
from rcb_env.play.agent import Usage
from rcb_env.report.export import COLUMNS, to_csv, to_json
from rcb_env.report.scoring import STATES
from rcb_env.report.summary import summarize
from rcb_env.report.tables import episodes_table, notes, print_report
from rcb_env.report.trajectory import read_trajectory, render
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import EpisodeKey
from tests import made_runs
from tests.made_runs import plan_of

PLAN = plan_of({"A/one": 8, "A/two": 2, "B/three": 5, "B/four": 5})


def finish(store: RunStore, challenge: str, status: str, **more: Any) -> None:
    error_class = "name" if status == "failed" else None
    verdict = Verdict("failed" if error_class else "passed", error_class=error_class)
    made = (
        dataclasses.replace(verdict, evidence="split").to_dict()
        if status in ("passed", "failed")
        else None
    )
    usage = Usage(prompt_tokens=100, completion_tokens=10, calls=2, cost_usd=0.5)
    episode = {
        "steps": 3,
        "test_runs": 1,
        "usage": dataclasses.asdict(usage),
        **({"verdict": made} if made else {}),
    }
    made_runs.finish(store, challenge, status, **{**episode, **more})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    record = {"config": {"agent": "repair", "model": {"name": "m"}}, "plan": PLAN}
    with RunStore.create(tmp_path / "run", record) as made:
        finish(made, "A/one", "passed")
        finish(made, "A/two", "infra_error", error="No space left on device\ntraceback")
        finish(made, "A/two", "failed")
        finish(made, "B/three", "infra_error", error="engine gone")
        yield made


def test_the_summary_counts_the_last_line_of_each_episode(store: RunStore) -> None:
    summary = summarize(store)
    assert summary.brief() == {
        "run": str(store.folder),
        "planned": 4,
        "states": {**dict.fromkeys(STATES, 0), "passed": 1, "failed": 1, "infra_error": 1}
        | {"missing": 1},
        "pass_rate": 25.0,
        "proven_pass_rate": 25.0,
        "scaled_pass_rate": 40.0,
        "pass_rate_bounds": [25.0, 75.0],
        "scaled_pass_rate_bounds": [40.0, 90.0],
    }
    assert summary.infra_causes == ("engine gone",)
    assert summary.score.coverage == 50.0


@pytest.mark.parametrize(
    ("evidence", "proven"), [("guarded", 25.0), ("isolated", 50.0), (None, None)]
)
def test_only_passes_without_the_answer_in_the_process_are_proven(
    store: RunStore, evidence: str | None, proven: float | None
) -> None:
    verdict = {**Verdict("passed").to_dict(), "evidence": evidence}
    finish(store, "B/three", "passed", verdict=verdict)
    summary = summarize(store)
    assert summary.score.pass_rate.value == 50.0
    assert summary.proven_pass_rate == proven


def test_an_error_of_the_agent_is_not_called_infrastructure(store: RunStore) -> None:
    finish(store, "B/four", "infra_error", error="ValueError: x", end_reason="agent_error")
    summary = summarize(store)
    assert (summary.infra_causes, summary.agent_errors) == (("engine gone",), ("ValueError: x",))
    told = [line for line in notes(summary) if line.endswith((": engine gone", ": x"))]
    assert told == ["infrastructure: engine gone", "the agent's own error: ValueError: x"]


def test_work_done_twice_stands_beside_the_totals(store: RunStore) -> None:
    """Case C078: totals of a run with repeats equal those without, and the repeats can be seen."""
    summary = summarize(store)
    assert summary.totals.episodes == 3
    assert summary.totals.tokens["prompt_tokens"] == 300
    assert summary.totals.cost_usd == 1.5
    assert summary.repeated.episodes == 1
    assert summary.repeated.tokens["completion_tokens"] == 10
    assert summary.retried_episodes == 1


@pytest.mark.parametrize("calls", [0, 2])
def test_a_cost_that_nobody_knows_is_not_nothing(tmp_path: Path, calls: int) -> None:
    """An agent that reports nothing, or a model without a price, stood in the totals as free."""
    unknown = dataclasses.asdict(Usage(calls=calls, cost_usd=None))
    record = {"config": {"agent": "repair", "model": {"name": "m"}}, "plan": PLAN}
    with RunStore.create(tmp_path / "run", record) as store:
        finish(store, "A/one", "passed", usage=unknown)
        totals = json.loads(to_json(summarize(store)))["totals"]
        assert (totals["cost_usd"], totals["cost_known"]) == (None, False)
        finish(store, "A/two", "passed")
        totals = json.loads(to_json(summarize(store)))["totals"]
        assert (totals["cost_usd"], totals["cost_known"]) == (0.5, False)


def test_what_an_agent_kept_to_itself_is_unknown_or_at_least(tmp_path: Path) -> None:
    """A program that reported nothing stood in the totals with 0 tokens."""
    record = {"config": {"agent": "command:x"}, "plan": PLAN}
    with RunStore.create(tmp_path / "run", record) as store:
        silent = dataclasses.asdict(Usage(cost_usd=None, complete=False))
        finish(store, "A/one", "passed", usage=silent)
        summary = summarize(store)
        assert json.loads(to_json(summary))["totals"]["tokens"] is None
        assert "model: calls and tokens unknown, as the agent reports none, cost unknown" in notes(
            summary
        )
        part = dataclasses.asdict(Usage(100, 10, calls=2, cost_usd=0.5, complete=False))
        finish(store, "A/two", "passed", usage=part)
        summary = summarize(store)
        assert json.loads(to_json(summary))["totals"]["complete"] is False
        told = "model: at least 2 calls, 100 prompt and 10 completion tokens, at least 0.5000 USD"
        assert told in notes(summary)


def test_json_holds_the_brief_and_everything_else(store: RunStore) -> None:
    summary = summarize(store)
    data = json.loads(to_json(summary))
    assert summary.brief().items() <= data.items()
    assert data["rates"]["pass_rate"]["high"] == 75.0
    assert data["papers"][0]["paper"] == "A"


def test_csv_has_one_row_for_each_planned_episode(store: RunStore) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(store))))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["challenge"], row["status"]) for row in rows] == [
        ("A/one", "passed"),
        ("A/two", "failed"),
        ("B/three", "infra_error"),
        ("B/four", "missing"),
    ]
    assert rows[1]["attempt"] == "2"
    assert rows[1]["error_class"] == "name"
    assert rows[0]["cost_usd"] == "0.5"


def test_a_message_cannot_become_a_formula(store: RunStore) -> None:
    finish(store, "B/four", "failed", error="=cmd()\nsecond, line")
    row = list(csv.DictReader(io.StringIO(to_csv(store))))[3]
    assert row["message"] == "'=cmd()\nsecond, line"


def test_tables_say_what_is_open(store: RunStore) -> None:
    out = io.StringIO()
    print_report(Console(file=out, width=200), [summarize(store)])
    text = out.getvalue()
    assert "25.0 (25.0 to 75.0)" in text
    assert "1 infra_error, 1 missing" in text
    assert "engine gone" in text
    assert "1 episode took more than one attempt" in text
    assert "3.00" not in text
    assert "1.5000 USD" in text


def test_a_run_of_which_nothing_has_finished_has_no_rate(tmp_path: Path) -> None:
    """The last line of a run that had got no verdict said ``"pass_rate": 0.0``."""
    plan = plan_of({"A/one": 8, "B/three": 5}, samples=(0, 1))
    with RunStore.create(tmp_path / "run", {"config": {"agent": "a"}, "plan": plan}) as store:
        finish(store, "A/one", "infra_error")
        summary = summarize(store)
    brief = summary.brief()
    assert (brief["pass_rate"], brief["pass_rate_bounds"]) == (None, [0.0, 100.0])
    assert (brief["scaled_pass_rate"], brief["scaled_pass_rate_bounds"]) == (None, [0.0, 100.0])
    assert brief["proven_pass_rate"] is None
    out = io.StringIO()
    print_report(Console(file=out, width=200), [summary])
    assert "n/a (0.0 to 100.0)" in out.getvalue()
    assert "completions" not in out.getvalue()
    assert "pass@" not in out.getvalue()


def test_the_report_names_the_challenges_that_were_not_solved(tmp_path: Path) -> None:
    plan = plan_of({f"A/{n}": 1 for n in range(20)}, samples=(0, 1))
    with RunStore.create(tmp_path / "run", {"config": {"agent": "a"}, "plan": plan}) as store:
        for n in range(20):
            made_runs.finish(store, f"A/{n}", "timeout" if n == 3 else "failed")
        made_runs.finish(store, "A/0", "failed", sample=1)
        made_runs.finish(store, "A/1", "passed", sample=1)
        summary = summarize(store)
    assert summary.not_solved["timeout"] == {"A/3": 1}
    assert summary.not_solved["failed"]["A/0"] == 2
    told = notes(summary)
    assert "timeout: A/3" in told
    (failed,) = (line for line in told if line.startswith("failed: "))
    assert failed.startswith("failed: A/0 (2 samples), A/1, A/2, A/4, ")
    assert failed.endswith(", and 7 more (--json names all)")
    assert json.loads(to_json(summary))["not_solved"]["failed"]["A/19"] == 1


def test_a_run_without_a_plan_is_refused_in_one_line(tmp_path: Path) -> None:
    store = RunStore.create(tmp_path / "r", {"config": {}})
    with store, pytest.raises(StoreError, match="the plan is damaged"):
        summarize(store)


def test_a_trajectory_reads_as_text(store: RunStore) -> None:
    key = EpisodeKey("A", "src/x.py", "A/one", 9, "repair", "m", "s")
    with store.trajectory(key) as trajectory:
        code = 'x = """\n```\n"""\n'
        trajectory.record("step", {"action": {"tool": "write_region", "arguments": {"code": code}}})
        tests = {"passed": 3, "total": 4, "message": None}
        trajectory.record("observation", {"text": "ok", "tests": tests, "step_s": 0.25})
    text = read_trajectory(trajectory.path)
    assert "## 1. step: write_region" in text
    assert f"````\n{code}````" in text
    assert "\n- text: ok\n- tests.passed: 3\n- tests.total: 4\n- step_s: 0.25\n" in text
    with pytest.raises(StoreError, match="no such trajectory"):
        read_trajectory(store.folder / "trajectories" / "nowhere.jsonl")


def test_episodes_are_listed_in_columns() -> None:
    row = {"challenge": "A/one", "sample": 0, "status": "passed", "end_reason": "submitted"}
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(episodes_table([{**row, "steps": 12, "test_runs": 3}, {**row, "steps": 2}]))
    heading, first, second = (
        [cell.strip() for cell in re.split("[┃│]", line)[1:-1]]
        for line in console.export_text().splitlines()
        if re.match("[┃│]", line)
    )
    assert heading == ["challenge", "sample", "status", "end reason", "steps", "test runs"]
    assert first == ["A/one", "0", "passed", "submitted", "12", "3"]
    assert second == ["A/one", "0", "passed", "submitted", "2", ""]


def test_a_trajectory_cut_off_by_a_kill_reads_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"kind": "step", "n": 1}\n{"kind": "st', encoding="utf-8")
    assert "## 1. step" in read_trajectory(path)
    assert "## 2." not in read_trajectory(path)


def test_code_that_was_graded_is_shown_and_each_message_once() -> None:
    """A trajectory of completions held no code, and the same message for each seed of each case."""
    cases = [
        {"case": case, "seed": seed, "outcome": "error", "message": "NameError: y\n  in f"}
        for case in ("adds", "scales")
        for seed in range(3)
    ]
    cases.append({"case": "other", "seed": 1, "outcome": "passed", "message": ""})
    verdict = {"status": "failed", "cases": cases, "message": "adds: NameError: y"}
    text = render([{"kind": "graded", "verdict": verdict}], code="    return y\n")
    assert "**code**\n\n```\n    return y\n```" in text
    assert text.count("NameError") == 1
    assert "**verdict.adds (3 seeds), scales (3 seeds)**" in text
    assert "- verdict.cases: 1 of 7 passed" in text
    assert "return y" not in render([{"kind": "step"}], code="    return y\n")


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(st.characters(), max_size=200),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_no_record_breaks_out_of_its_block(record: dict[str, object]) -> None:
    text = render([record])
    assert "\x1b" not in text
    text.encode("utf-8")  # lone surrogates are escaped
    outside, fence = [], ""
    for line in text.split("\n"):
        if not fence and line.startswith("```"):
            fence = line
        elif fence and line == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    assert fence == ""
    assert sum(line.startswith("## ") for line in outside) == 1


def test_long_text_is_cut_with_a_count() -> None:
    text = render([{"kind": "reply", "text": "a" * 5000}], max_chars=100)
    assert "[4900 more characters]" in text
    assert len(text) < 300


def test_an_episode_of_an_open_challenge_tells_the_mean_of_each_family() -> None:
    verdict = {
        "status": "failed",
        "message": "score -0.5",
        "score": {"value": -0.5, "se": 1.0, "baseline": -1.0, "terms": {"noise": [-1.5, 0.5]}},
        "cases": [
            {"case": "noise", "outcome": "failed", "message": "cost 7"},
            {"case": "noise", "outcome": "passed", "message": "cost 1"},
        ],
    }
    shown = render([{"kind": "end", "verdict": verdict}])
    assert "verdict.score.terms.noise: mean -0.5000 of 2\n" in shown
    assert "1 of 2 at least as good as the paper's own method" in shown
    assert "score -0.5" in shown
    assert "-1.5" not in shown
    assert "cost 7" not in shown


def test_a_folder_that_holds_runs_further_below_names_them(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "a" / "b" / "run", {"config": {}, "plan": []}).close()
    with pytest.raises(
        StoreError, match=r"is not a run but a folder of runs: name one of .*a/b/run$"
    ):
        RunStore.open(tmp_path)
    with pytest.raises(StoreError, match=r"^there is no folder .*/nope$"):
        RunStore.open(tmp_path / "nope")
