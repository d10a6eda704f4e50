"""Pages of runs that are not as they should be: whatever a trajectory holds, its episode can be shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rcb_env.errors import UsageError
from rcb_env.grading.verdict import Score
from rcb_env.report import item_sources
from rcb_env.runs.store import RunStore
from rcb_env.view import items
from rcb_env.view.catalog import Catalog
from rcb_env.view.pages import Pages
from tests.made_runs import finish, plan_of

_NAMES = st.sampled_from(
    [
        *(
            "kind",
            "index",
            "action",
            "tool",
            "arguments",
            "code",
            "text",
            "error",
            "tests",
            "status",
            "passed",
            "total",
        ),
        *(
            "cases",
            "case",
            "outcome",
            "message",
            "seed",
            "reward",
            "tokens",
            "code_hash",
            "elapsed_s",
            "step_s",
        ),
        *(
            "messages",
            "role",
            "content",
            "reply",
            "reasoning",
            "tool_calls",
            "usage",
            "prompt_tokens",
            "stdout",
        ),
        *(
            "completion_tokens",
            "earlier_messages",
            "left_out",
            "function",
            "name",
            "started_at",
            "traceback",
        ),
    ]
)
_PLAIN = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 10**400, 2**60, 1e308, float("inf"), float("nan"), 0.5])
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from(["write_region", "run_tests", "submit", "undo", "passed", "failed"])
)
_ANY = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=12,
)
_KINDS = [
    "start",
    "step",
    "model_call",
    "end",
    "graded",
    "warning",
    "agent_error",
    "extraction",
    "",
]
_RECORD = st.builds(
    lambda kind, fields: {**fields, "kind": kind},
    st.sampled_from(_KINDS) | _ANY,
    st.dictionaries(_NAMES, _ANY, max_size=8),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("top") / "runs"
    record = {"config": {"agent": "a"}, "created_at": "x", "plan": plan_of({"A/x": 1})}
    with RunStore.create(folder / "one", record) as store:
        finish(store, "A/x", "failed")
    return folder


@given(records=st.lists(_RECORD, max_size=6))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_trajectory_can_be_shown(folder: Path, records: list[dict[str, object]]) -> None:
    (trajectory,) = folder.rglob("trajectories/**/*.jsonl")
    trajectory.write_text("".join(json.dumps(record) + "\n" for record in records))
    pages = Pages(Catalog(folder, cache=folder.parent / "cache"))
    shown = pages.episode("one", [("challenge", "A/x")])
    shown.encode()
    assert "\x1b" not in shown
    for number in range(len(records)):
        query = [("trajectory", "trajectories/A/x.0.jsonl"), ("record", str(number))]
        assert pages.raw("one", query)


@pytest.mark.parametrize(
    "verdict",
    [
        {"timings": "x"},
        {"timings": {"run_s": 10**400, "b": "c"}},
        {"error_class": [1], "stdout": 7, "stderr": {"a": 1}},
        {"cases": [{"case": 5, "seed": "s", "outcome": None, "message": "", "detail": "d"}]},
        {"notes": [1, None, {"x": 2}]},
    ],
)
def test_a_verdict_with_other_types_can_be_shown(
    tmp_path: Path, verdict: dict[str, object]
) -> None:
    record = {"config": {"agent": "a"}, "created_at": "x", "plan": plan_of({"A/x": 1})}
    with RunStore.create(tmp_path / "runs" / "one", record) as store:
        finish(
            store,
            "A/x",
            "failed",
            verdict={"status": "failed", "cases": [], "notes": [], **verdict},
        )
    pages = Pages(Catalog(tmp_path / "runs", cache=tmp_path / "cache"))
    assert "failed" in pages.episode("one", [("challenge", "A/x")])
    for shown in (pages.runs([]), pages.run("one", []), pages.matrix([])):
        assert "one" in shown


def test_a_run_whose_plan_is_damaged_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    plan = plan_of({"A/x": 1})
    for name, more in (("good", {}), ("bad", {"own_lines": 5})):
        record = {"config": {"agent": name}, "plan": [{**plan[0], **more}]}
        RunStore.create(tmp_path / "runs" / name, record).close()
    pages = Pages(Catalog(tmp_path / "runs", cache=tmp_path / "cache"))
    pages.prepare(lambda _line: None)
    shown = pages.runs([])
    assert "the plan is damaged" in shown
    assert "/run/good" in shown
    assert "/run/bad" not in shown


def _open_run(folder: Path) -> Pages:
    """A run with an answer to an open challenge that has a score, and one to another that failed."""
    config = {"config": {"agent": "a"}, "created_at": "x"}
    scored = {
        "status": "failed",
        "error_class": "logic",
        "score": {"value": -0.5, "se": 0.1, "baseline": -1.0, "terms": {"noise": [-1.5, 0.5]}},
        "cases": [
            {"case": "noise", "seed": n, "outcome": outcome, "message": f"cost of problem {n}"}
            for n, outcome in enumerate(["failed", "passed"])
        ],
        "notes": [],
    }
    scored["message"] = Score(-0.5, 0.1, -1.0).words
    broken = {
        "status": "failed",
        "error_class": "name",
        "message": "NameError: x",
        "score": {"baseline": -1.0, "terms": {}},
        "cases": [
            {"case": "noise", "seed": 0, "outcome": "failed", "message": "cost of problem 0"},
            {"case": "noise", "seed": 1, "outcome": "error", "message": "NameError: x"},
            {"case": "noise", "seed": 2, "outcome": "not_run", "message": "an earlier one failed"},
        ],
        "notes": [],
    }
    plan = plan_of({"A@open": 1, "B@open": 1, "C/x": 1})
    with RunStore.create(folder / "runs" / "one", {**config, "plan": plan}) as store:
        finish(store, "A@open", "failed", verdict=scored)
        finish(store, "B@open", "failed", verdict=broken)
        finish(store, "C/x", "no_change")
    with RunStore.create(folder / "runs" / "two", {**config, "plan": plan_of({"C/x": 1})}) as store:
        finish(store, "C/x", "failed")
    return Pages(Catalog(folder / "runs", cache=folder / "cache"))


def test_an_answer_to_an_open_challenge_shows_its_score_once_and_its_families(
    tmp_path: Path,
) -> None:
    shown = _open_run(tmp_path).episode("one", [("challenge", "A@open")])
    outcome = shown[shown.index('id="outcome"') : shown.index('id="answer"')]
    assert outcome.count("score -0.5000") == 1
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", outcome)
    assert cells[-4:] == ["noise", "-0.5000", "2", "1"]
    assert re.search(r"<details[^>]*><summary>Each problem of noise</summary>", outcome)
    assert "cost of problem 0" in outcome
    assert "✗" not in outcome
    assert "logic" not in outcome


def test_an_answer_to_an_open_challenge_that_failed_shows_where(tmp_path: Path) -> None:
    shown = _open_run(tmp_path).episode("one", [("challenge", "B@open")])
    outcome = shown[shown.index('id="outcome"') : shown.index('id="answer"')]
    assert "NameError: x" in outcome
    assert "no score; the baseline has -1.0000" in outcome
    assert outcome.count('<li class="bad">') == 1
    assert "an earlier one failed" not in outcome


def test_the_list_of_runs_and_the_matrix_show_scores_where_there_are_some(tmp_path: Path) -> None:
    pages = _open_run(tmp_path)
    listed = pages.runs([])
    assert ">Proven</th>" in listed
    assert ">Score</th>" in listed
    assert '<td class="num strong">-0.750</td>' in listed  # one that failed counts as the baseline
    assert ">Score</th>" not in pages.runs([("q", "two")])
    assert re.findall(r"[+-]\d\.\d{3}", pages.matrix([])) == ["-0.500", "-1.000"]


def test_an_answer_without_a_change_has_the_same_sign_in_the_matrix(tmp_path: Path) -> None:
    shown = _open_run(tmp_path).matrix([("run", "one"), ("run", "two"), ("q", "C/x")])
    cells = re.findall(r'<td class="(\w+)".*?aria-hidden="true">(.)<', shown, re.DOTALL)
    assert cells == [("same", "="), ("no", "✗")]


def test_the_items_page_says_of_runs_what_rcb_items_says(tmp_path: Path) -> None:
    agents = {"weak": "1000", "fair": "1100", "good": "1110", "best": "1111", "odd": "0001"}
    plan = plan_of({f"A/{number}": number for number in range(1, 5)})
    for agent, marks in agents.items():
        config = {"agent": agent, "model": None}
        store = RunStore.create(tmp_path / agent, {"config": config, "plan": plan})
        for number, mark in enumerate(marks, 1):
            finish(store, f"A/{number}", "passed" if mark == "1" else "failed")
    pages = Pages(Catalog(tmp_path))
    stores = {run.name: run.store for run in pages.catalog.runs()}
    told = item_sources.of_runs(stores)
    assert items.analysed(pages.catalog.runs()) == told

    def listed(*given: tuple[str, str]) -> list[str]:
        return re.findall(r'<a class="main" [^>]*>([^<]*)</a>', pages.items(given))

    assert listed() == [item.challenge for item in told.items]
    assert listed(("order", "easiest first"))[0] == "A/1"
    assert listed(("order", "hardest first"))[-1] == "A/1"
    assert listed(("order", "longest first")) == ["A/4", "A/3", "A/2", "A/1"]
    assert listed(("q", "a/3")) == ["A/3"]
    finding = told.items[0].finding
    assert finding is not None
    assert "A/1" not in listed(("finding", finding))
    assert 'href="/items?q=A%2F1"' in pages.challenge("weak", [("challenge", "A/1")])
    assert "choose more" in pages.items([("run", "weak")])
    assert listed(("run", "weak"), ("run", "best"), ("q", "<b>")) == []


def test_a_run_that_is_not_there_is_named_in_prose(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run 'nope'") as raised:
        _open_run(tmp_path).run("nope", [])
    assert "`" not in str(raised.value)
