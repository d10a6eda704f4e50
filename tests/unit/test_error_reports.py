"""Reports by error class, on what feedback mends, and on the public benchmark's verdicts beside ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rcb_env.cli import main
from rcb_env.errors import UsageError
from rcb_env.report import error_classes, parity, sheets
from rcb_env.report.error_classes import Rounds
from rcb_env.runs.store import RunStore
from tests.made_runs import episode, key_of, plan_of

CHALLENGES = ("A/one", "A/two", "B/three", "B/four", "B/five")
Told = tuple[str, str | None, str]  # status and class of a test run, and the hash of the code


def finish(
    store: RunStore, challenge: str, status: str, tests: Iterable[Told] = (), **verdict: Any
) -> None:
    """Store an episode in which the tests were run so often, with what its final verdict holds."""
    tests = list(tests)
    key = key_of(store.record["config"], challenge)
    with store.trajectory(key) as trajectory:
        trajectory.record("start", {"text": "write it"})
        for told, kind, code in tests:
            step = {"action": {"tool": "run_tests", "arguments": {}}, "text": "", "error": False}
            seen = {"status": told, "error_class": kind}
            trajectory.record("step", {**step, "tests": seen, "code_hash": code})
        last = {"action": {"tool": "submit", "arguments": {}}, "text": "", "error": False}
        trajectory.record("step", {**last, "code_hash": tests[-1][2] if tests else "c"})
    told_verdict = {"status": status, "cases": [], "notes": [], **verdict}
    more = {"verdict": None} if status in ("invalid", "infra_error") else {"verdict": told_verdict}
    made = episode(challenge, status, **more)
    made["test_runs"] = len(tests)
    store.append(key, made, trajectory)


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    record = {"config": {"agent": "a"}, "plan": plan_of(dict.fromkeys(CHALLENGES, 2))}
    with RunStore.create(tmp_path / "run", record) as store:
        finish(
            store,
            "A/one",
            "passed",
            [
                ("failed", "shape", "1"),
                ("failed", "shape", "2"),
                ("failed", "value", "3"),
                ("passed", None, "4"),
            ],
            official_pass=False,
            official_end="it printed 'failed'",
        )
        finish(
            store,
            "A/two",
            "failed",
            [
                ("failed", "value", "1"),
                ("failed", "value", "1"),
                ("timeout", None, "2"),
                ("failed", None, "3"),
            ],
            error_class="logic",
            official_pass=True,
            evidence="split",
        )
        finish(store, "B/three", "timeout", official_pass=False)
        finish(store, "B/four", "invalid")
        finish(
            store,
            "B/five",
            "failed",
            error_class="value",
            official_pass=True,
            cases=[{"case": "t", "seed": 0, "outcome": "not_run"}],
        )
    return RunStore.open(tmp_path / "run")


def test_every_wrong_answer_has_one_class_also_in_records_from_before_there_were_some(
    run: RunStore,
) -> None:
    found = error_classes.read({"run": run}).runs["run"]
    assert found.papers == {"A": {"value": 1}, "B": {"time": 1, "no answer": 1, "value": 1}}
    shares = sheets.ending_shares(sheets.numbers({"run": run}).summaries)["run"]
    assert shares["timeout"] == 20
    assert "failed: time" not in shares
    assert sum(shares.values()) == 80


def test_a_round_counts_where_the_code_was_changed_after_a_failed_test(run: RunStore) -> None:
    """The same code tested twice is no round; what was told no class has none, but may be what another became."""
    rounds = error_classes.read({"run": run}).runs["run"].rounds
    assert rounds == {
        "shape": Rounds(rounds=2, mended=0, same=1),
        "value": Rounds(rounds=2, mended=1, same=0),
    }
    assert rounds["value"].other == 1


def test_verdicts_that_differ_from_the_public_ones_are_counted_with_their_reasons(
    run: RunStore,
) -> None:
    found = parity.read({"run": run}).runs["run"]
    assert (found.graded, found.both_pass, found.both_fail) == (4, 0, 1)
    ((why, ours),) = found.only_ours.items()
    assert "it printed 'failed'" in why
    assert ours == ["A/one"]
    assert {names[0]: why for why, names in found.only_official.items()} == {
        "A/two": "what the suite compares is not the reference's (value), and its own check lets it through",
        "B/five": "tests were skipped or did not run, and the script still ended with 0",
    }


def test_a_run_without_public_verdicts_is_told_how_to_get_them(tmp_path: Path) -> None:
    record = {"config": {"agent": "a"}, "plan": plan_of({"A/one": 2})}
    with RunStore.create(tmp_path / "run", record) as store:
        finish(store, "A/one", "passed")
    with pytest.raises(UsageError, match=r"rcb grade .* --official"):
        parity.read({"run": RunStore.open(tmp_path / "run")})


def ran(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_the_questions_have_every_form_of_a_report(
    run: RunStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    ran(["report", str(run.folder), "--by", "error", "--html", str(page)])
    text = page.read_text()
    for words in ("Error classes of wrong answers", "What feedback mends", "58.6 %", "<svg"):
        assert words in text
    capsys.readouterr()
    ran(["report", str(run.folder), "--by", "official", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["official"]["graded"] == 4
    ran(["report", str(run.folder), "--by", "error"])
    assert "shape" in capsys.readouterr().out
