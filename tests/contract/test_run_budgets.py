"""What a whole run may use: it stops with one clear line, and goes on when it is given more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.papers import Dataset
from rcb_env.errors import UsageError
from rcb_env.play.agent import ModelSettings
from rcb_env.runs import RunBudgetSpent, RunConfig, open_run, run_experiment
from rcb_env.runs.store import RunStore

Server = Any  # its class lives in conftest.py, which cannot be imported from here
ANSWER = "```python\n    return x * factor + 1\n```"


@pytest.fixture
def config(small_papers: Dataset, model_server: Server) -> RunConfig:
    model_server.plays(ANSWER)
    priced: dict[str, Any] = {"input_usd_per_mtok": 10.0, "output_usd_per_mtok": 10.0}
    return RunConfig(
        agent="single-shot",
        model=ModelSettings(f"m-{id(model_server)}", base_url=model_server.url, **priced),
        dataset=str(small_papers.papers[0].root),
        samples=6,
    )


def play(config: RunConfig, folder: Path, *, resume: bool = False) -> list[dict[str, Any]]:
    with open_run(config, folder, resume=resume) as store:
        run_experiment(config, store)
    return [line["episode"] for line in RunStore.open(folder).latest()]


@pytest.mark.parametrize(
    ("limit", "says", "more"),
    [
        ({"run_tokens": 300}, r"budget of 300 tokens is spent \(360\)", {"run_tokens": 10_000}),
        ({"run_cost_usd": 0.003}, r"budget of 0\.003 USD is spent", {"run_cost_usd": 1.0}),
    ],
)
def test_a_run_stops_when_its_budget_is_spent_and_can_go_on(
    config: RunConfig,
    model_server: Server,
    tmp_path: Path,
    limit: dict[str, Any],
    says: str,
    more: dict[str, Any],
) -> None:
    limited = replace(config, **limit)
    with pytest.raises(RunBudgetSpent, match=says + r".*2 of 6 episodes.*--resume"):
        play(limited, tmp_path / "run")
    assert len(model_server.requests) == 3
    # Nothing is asked as long as there is nothing to spend, the third call is not forgotten.
    with pytest.raises(RunBudgetSpent, match=says):
        play(limited, tmp_path / "run", resume=True)
    assert len(model_server.requests) == 3
    episodes = play(replace(config, **more), tmp_path / "run", resume=True)
    assert [episode["status"] for episode in episodes] == ["passed"] * 6
    assert len(model_server.requests) == 7
    used = sum(episode["usage"]["prompt_tokens"] for episode in episodes)
    assert used == 600  # each episode's own


def test_calls_of_all_sessions_count(
    config: RunConfig, model_server: Server, tmp_path: Path
) -> None:
    for limit in (300, 650):
        with pytest.raises(RunBudgetSpent):
            play(replace(config, run_tokens=limit), tmp_path / "run", resume=limit > 300)
    assert len(model_server.requests) == 6  # 3 to pass 300; with the cut-off one 6 to pass 650


def test_money_without_a_price_is_the_users_mistake(config: RunConfig, tmp_path: Path) -> None:
    assert config.model is not None
    model = replace(config.model, input_usd_per_mtok=None)
    with pytest.raises(UsageError, match=r"price of this model is unknown.*--run-budget-usd"):
        play(replace(config, model=model, run_cost_usd=1.0), tmp_path / "run")


def test_replayed_calls_are_not_paid_for_again(
    config: RunConfig, model_server: Server, tmp_path: Path
) -> None:
    assert config.model is not None
    cached = replace(config, model=replace(config.model, cache=str(tmp_path / "cache")))
    play(cached, tmp_path / "first")
    again = play(replace(cached, run_tokens=1, run_cost_usd=0.0001), tmp_path / "second")
    assert len(model_server.requests) == 6
    assert [episode["usage"]["replayed_calls"] for episode in again] == [1] * 6
    assert [episode["usage"]["cost_usd"] for episode in again] == [0.0] * 6


@pytest.mark.parametrize("limit", [{"run_tokens": 0}, {"run_cost_usd": -1.0}])
def test_a_budget_of_nothing_is_refused(config: RunConfig, limit: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be more than 0"):
        replace(config, **limit)


def test_the_run_says_what_it_was_played_with(
    config: RunConfig,
    tmp_path: Path,
    cli: Callable[..., tuple[int, str, str]],
    model_server: Server,
) -> None:
    assert config.model is not None
    options = [
        *("run", "--agent", "single-shot", "--dataset", config.dataset, "--sandbox", "bubblewrap"),
        *("--model", config.model.name, "--base-url", model_server.url, "--api", "chat"),
        *("--paper", "sections", "--no-hint", "--no-context", "--cache", str(tmp_path / "cache")),
        *("--samples", "4", "--workers", "1", "--out", str(tmp_path / "run")),
    ]
    code, _, errors = cli(*options, "--run-budget-tokens", "250")
    assert code == 2
    assert errors.splitlines()[-1].startswith("rcb: the run's budget of 250 tokens is spent (360)")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["config"]["paper"] == "sections"
    assert record["config"]["with_hint"] is False
    assert len(record["config"]["prompts"]) == 12
    assert 'block "scale"' not in str(model_server.requests[0]["body"])
    more = ("--run-budget-tokens", "9999")
    code, out, errors = cli("run", "--resume", str(tmp_path / "run"), *more, "--json", "--quiet")
    assert code == 0, errors
    assert json.loads(out.splitlines()[-1])["states"]["passed"] == 4
    # The third call was cut off by the budget after its reply was in the cache.
    assert len(model_server.requests) == 4


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    from rcb_env.cli import main

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, errors = capfd.readouterr()
        return int(ended.value.code or 0), out, errors

    return call
