"""Two run directories side by side: rates, warnings, and rates by what episodes took."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from rcb_env.cli.main import rcb
from rcb_env.errors import UsageError
from rcb_env.play.agent import Usage
from rcb_env.report.comparison import RunPair, compare_runs, corrected
from rcb_env.report.pair_tables import print_comparison
from rcb_env.runs.store import RunStore
from tests.made_runs import finish, plan_of

_USAGE = dataclasses.asdict(Usage())
LINES = {"A/one": 8, "A/two": 2, "B/three": 5, "B/four": 5}


def make(
    folder: Path,
    states: Mapping[str, str],
    *,
    plan: Mapping[str, int] = LINES,
    config: Mapping[str, Any] | None = None,
    took: Mapping[str, Mapping[str, Any]] | None = None,
    hashes: Mapping[str, str] | None = None,
) -> RunStore:
    record = {
        "config": {
            "agent": folder.name,
            "model": {"name": "m"},
            "seed": 0,
            "budgets": {"tokens": None},
            **(config or {}),
        },
        "versions": {"rcb-env": "1"},
        "plan": [
            {**entry, "content_hash": (hashes or {}).get(entry["challenge"], "h")}
            for entry in plan_of(plan)
        ],
    }
    with RunStore.create(folder, record) as store:
        for name, status in states.items():
            if name not in plan:
                continue
            usage = {**_USAGE, "prompt_tokens": 100, "calls": 1, "cost_usd": 0.5}
            episode = {"usage": usage, "content_hash": (hashes or {}).get(name, "h")}
            more = dict((took or {}).get(name) or {})
            if "usage" in more:
                more["usage"] = {**_USAGE, **more["usage"]}
            finish(store, name, status, **{**episode, **more})
    return RunStore.open(folder)


PASSED = dict.fromkeys(LINES, "passed")


def pair_of(tmp_path: Path, a: Mapping[str, str], b: Mapping[str, str], **of_b: Any) -> RunPair:
    return compare_runs(
        make(tmp_path / "a", a), make(tmp_path / "b", b, **of_b), names=("a", "[b]")
    )


def printed(pair: RunPair) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=140), pair)
    return out.getvalue()


def test_both_rates_the_difference_and_the_discordant_challenges_are_shown(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, {**PASSED, "A/two": "failed", "B/four": "invalid"}, PASSED)
    assert (pair.comparison.a, pair.comparison.b) == (50.0, 100.0)
    assert pair.comparison.a_scaled == 65.0
    assert pair.comparison.only_b_better == ("A/two", "B/four")
    assert pair.comparison.p_value == 0.5
    assert pair.comparison.difference.interval is not None
    assert pair.comparison.warnings == ()
    text = printed(pair)
    assert "exact McNemar p = 0.5" in text
    assert "only B: A/two, B/four" in text
    assert "B: [b]" in text
    assert "4 challenges of 2 papers in both runs" in text
    assert json.loads(json.dumps(pair.to_dict()))["comparison"]["b"] == 100.0


def test_open_episodes_of_either_run_are_warned_about(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, {"A/one": "passed", "A/two": "infra_error"}, PASSED)
    assert "run A has 1 infra_error and 2 missing: resume it" in printed(pair)
    difference = pair.comparison.difference
    assert difference.value is not None
    assert difference.low < difference.value


def test_settings_that_differ_beside_the_agent_are_named(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, PASSED, PASSED, config={"seed": 3, "budgets": {"tokens": 100}})
    (warning,) = pair.comparison.warnings
    assert "seed 0 and 3" in warning
    assert "tokens none and 100" in warning
    assert "agent: " not in warning


def test_other_agents_with_other_models_cannot_be_told_apart(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, PASSED, PASSED, config={"model": {"name": "other"}})
    assert "differ in agent and in model" in pair.comparison.warnings[0]


def test_challenges_whose_tests_or_prompts_changed_are_named(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, PASSED, PASSED, hashes={"A/two": "changed"})
    assert "1 challenge with different content" in pair.comparison.warnings[0]
    assert "A/two" in pair.comparison.warnings[0]


def test_only_common_challenges_count(tmp_path: Path) -> None:
    plan = {"A/one": 8, "B/three": 5, "C/five": 1}
    pair = pair_of(tmp_path, PASSED, dict.fromkeys(plan, "passed"), plan=plan)
    assert pair.comparison.challenges == 2
    assert len(pair.comparison.warnings) == 2
    assert "planned only in run A" in pair.comparison.warnings[0]


def test_runs_without_a_common_challenge_or_with_other_code_are_refused(tmp_path: Path) -> None:
    a = make(tmp_path / "a", PASSED)
    for name, plan in (("b", {"C/five": 1}), ("c", {**LINES, "A/one": 9})):
        other = make(tmp_path / name, {}, plan=plan)
        with pytest.raises(UsageError, match=f"a and {name} cannot be compared"):
            compare_runs(a, other, names=("a", name))


def test_rates_by_effort_count_what_passed_within_a_limit(tmp_path: Path) -> None:
    took = {name: {"test_runs": runs} for name, runs in zip(LINES, (1, 2, 2, 5), strict=True)}
    pair = pair_of(tmp_path, PASSED, {**PASSED, "A/one": "failed"}, took=took)
    runs = next(effort for effort in pair.efforts if effort.effort == "test runs")
    assert runs.limits == (0, 1, 2, 5)
    assert runs.a == (100.0, 100.0, 100.0, 100.0)
    assert runs.b == (0.0, 0.0, 50.0, 75.0)
    assert (runs.mean_a, runs.mean_b) == (0.0, 2.5)


def test_an_unknown_price_is_not_taken_for_nothing(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "calls": 1, "cost_usd": None}
    pair = pair_of(tmp_path, PASSED, PASSED, took={"A/one": {"usage": usage}})
    money = next(effort for effort in pair.efforts if effort.effort == "USD")
    assert money.a == (100.0,)
    assert (money.b, money.mean_b) == (None, None)


def test_calls_that_an_agent_kept_to_itself_are_not_taken_for_few(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "calls": 1, "complete": False}
    pair = pair_of(tmp_path, PASSED, PASSED, took={"A/one": {"usage": usage}})
    for name in ("model calls", "tokens"):
        effort = next(effort for effort in pair.efforts if effort.effort == name)
        assert effort.a is not None
        assert (effort.b, effort.mean_b) == (None, None)


def test_the_last_limit_holds_every_episode(tmp_path: Path) -> None:
    """However many different numbers there are, the table stays short and its last column whole."""
    plan = {f"A/{n}": 1 for n in range(200)}
    took = {
        name: {"usage": {"prompt_tokens": 17 * n * n, "calls": 1, "cost_usd": n * 1.23e-5}}
        for n, name in enumerate(plan)
    }
    run = make(tmp_path / "a", dict.fromkeys(plan, "passed"), plan=plan, took=took)
    pair = compare_runs(run, run, names=("a", "a"))
    for effort in pair.efforts:
        assert 1 <= len(effort.limits) <= 8
        assert effort.a is not None
        assert effort.a[-1] == pytest.approx(100)


def test_p_values_of_many_comparisons_are_corrected_and_of_one_are_not(tmp_path: Path) -> None:
    plan = {f"A/{n}": 1 for n in range(12)}
    for name, failed in (("best", 0), ("middle", 2), ("worst", 8)):
        states = {c: "failed" if n < failed else "passed" for n, c in enumerate(plan)}
        make(tmp_path / name, states, plan=plan)
    done = CliRunner().invoke(rcb, ["compare", str(tmp_path), "--json"], standalone_mode=False)
    pairs = [json.loads(line) for line in done.stdout.splitlines()]
    found = [(pair["comparison"]["p_value"], pair["p_holm"], pair["pairs"]) for pair in pairs]
    # best-middle 2 to 0, best-worst 8 to 0, middle-worst 6 to 0.
    assert [p for p, _, _ in found] == [0.5, 2 / 2**8, 2 / 2**6]
    assert found[1][1:] == (3 * 2 / 2**8, 3)
    assert found[2][1:] == (2 * 2 / 2**6, 3)
    assert found[0][1:] == (0.5, 3)
    shown = CliRunner().invoke(rcb, ["compare", str(tmp_path), "--brief"], standalone_mode=False)
    assert "p = 0.00781 (0.0234 corrected for 3 comparisons, Holm)" in shown.stdout
    markdown = CliRunner().invoke(
        rcb, ["compare", str(tmp_path), "--markdown"], standalone_mode=False
    )
    assert "0.0234 corrected for 3 comparisons" in markdown.stdout
    one = pair_of(tmp_path / "pair", PASSED, {**PASSED, "A/one": "failed"})
    assert corrected([one]) == [one]
    assert "corrected" not in printed(one)
