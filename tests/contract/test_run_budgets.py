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


@pytest.fixture
def sent(config: RunConfig, model_server: Server, tmp_path: Path) -> int:
    """Tokens of a prompt, as a server counts them that plays the right answer, of 20 tokens."""
    model_server.plays(model_server.counted(ANSWER, 20))
    (episode,) = play(replace(config, samples=1), tmp_path / "probe")
    model_server.requests.clear()
    return int(episode["usage"]["prompt_tokens"])


def cut_off(folder: Path) -> list[dict[str, Any]]:
    sessions = map(json.loads, (folder / "sessions.jsonl").read_text().splitlines())
    return [session["cut_off"] for session in sessions if "cut_off" in session]


def test_a_run_stops_when_its_money_is_spent_and_can_go_on(
    config: RunConfig, model_server: Server, tmp_path: Path
) -> None:
    says = r"budget of 0\.003 USD is spent"
    limited = replace(config, run_cost_usd=0.003)
    with pytest.raises(RunBudgetSpent, match=says + r".*2 of 6 episodes.*--resume"):
        play(limited, tmp_path / "run")
    assert len(model_server.requests) == 3
    # Nothing is asked as long as there is nothing to spend, the third call is not forgotten.
    with pytest.raises(RunBudgetSpent, match=says):
        play(limited, tmp_path / "run", resume=True)
    assert len(model_server.requests) == 3
    episodes = play(replace(config, run_cost_usd=1.0), tmp_path / "run", resume=True)
    assert [episode["status"] for episode in episodes] == ["passed"] * 6
    assert len(model_server.requests) == 7
    used = sum(episode["usage"]["prompt_tokens"] for episode in episodes)
    assert used == 600  # each episode's own


def test_no_call_is_made_that_the_tokens_of_a_run_have_no_room_for(
    config: RunConfig, model_server: Server, tmp_path: Path, sent: int
) -> None:
    limit = 3 * sent + 40  # the third prompt would leave nothing for its reply
    says = rf"budget of {limit} tokens is spent \({2 * sent + 40}\), as the next call does not fit"
    for resume in (False, True):
        with pytest.raises(RunBudgetSpent, match=says + r": 2 of 6 episodes.*--resume"):
            play(replace(config, run_tokens=limit), tmp_path / "run", resume=resume)
        assert len(model_server.requests) == 2
    episodes = play(replace(config, run_tokens=10 * limit), tmp_path / "run", resume=True)
    assert [episode["status"] for episode in episodes] == ["passed"] * 6
    assert len(model_server.requests) == 6


def test_the_last_reply_is_as_long_as_the_tokens_of_all_sessions_leave(
    config: RunConfig, model_server: Server, tmp_path: Path, sent: int
) -> None:
    """A run budget that was spent before the first episode ended took the run away, and what it had paid for with it."""
    for number, limit in enumerate((sent + 15, 2 * sent + 25), start=1):
        with pytest.raises(RunBudgetSpent, match=rf"is spent \({limit}\).*: 0 of 6 episodes"):
            play(replace(config, run_tokens=limit), tmp_path / "run", resume=number > 1)
        assert len(cut_off(tmp_path / "run")) == len(model_server.requests) == number
    assert [each["body"]["max_tokens"] for each in model_server.requests] == [15, 10]
    assert [each["completion_tokens"] for each in cut_off(tmp_path / "run")] == [15, 10]


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
    prices = ("--input-price", "10", "--output-price", "10")
    options = [
        *("run", "--agent", "single-shot", "--dataset", config.dataset, "--sandbox", "bubblewrap"),
        *("--model", config.model.name, "--base-url", model_server.url, "--api", "chat"),
        *("--paper", "sections", "--no-hint", "--no-context", "--cache", str(tmp_path / "cache")),
        *("--samples", "4", "--workers", "1", "--out", str(tmp_path / "run")),
    ]
    code, _, errors = cli(*options, "--run-budget-usd", "0.003", *prices)
    assert code == 2
    assert errors.splitlines()[-1].startswith(
        "rcb: the run's budget of 0.003 USD is spent (0.0036)"
    )
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["config"]["paper"] == "sections"
    assert record["config"]["with_hint"] is False
    assert len(record["config"]["prompts"]) == 12
    assert 'block "scale"' not in str(model_server.requests[0]["body"])
    more = ("--run-budget-usd", "9")
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


def test_only_a_run_that_was_made_now_and_cost_nothing_is_taken_away(
    config: RunConfig,
    tmp_path: Path,
    cli: Callable[..., tuple[int, str, str]],
    model_server: Server,
) -> None:
    """A refused key took the whole run with it, also when it was resumed, and forgot what had been paid for."""
    assert config.model is not None
    folder = tmp_path / "run"
    refused = model_server.error(401, "no such key")
    options = [
        *("run", "--agent", "repair", "--dataset", config.dataset, "--sandbox", "bubblewrap"),
        *("--model", config.model.name, "--base-url", model_server.url, "--out", str(folder)),
        *("--samples", "2", "--workers", "1"),
    ]
    model_server.plays(refused)
    assert cli(*options)[0] == 2
    assert not (folder / "run.json").exists(), "the folder is free again"
    model_server.plays("no code", refused)
    assert cli(*options)[0] == 2
    kept = {path.name for path in folder.iterdir()}
    assert kept >= {"run.json", "sessions.jsonl", "trajectories"}
    assert [spent["calls"] for spent in cut_off(folder)] == [1]
    model_server.plays(refused)
    assert cli("run", "--resume", str(folder))[0] == 2
    assert {path.name for path in folder.iterdir()} == kept
    model_server.plays(ANSWER)
    code, _, errors = cli("run", "--resume", str(folder), "--quiet")
    assert code == 0, errors
    assert [line["episode"]["status"] for line in RunStore.open(folder).latest()] == ["passed"] * 2


def test_a_budget_that_an_agent_does_not_report_to_stops_the_run_and_it_can_go_on_without(
    config: RunConfig, tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    folder = str(tmp_path / "run")
    options = [
        *("run", "--agent", "command:true", "--agent-sandbox", "none", "--dataset", config.dataset),
        *("--sandbox", "bubblewrap", "--samples", "3", "--workers", "1", "--out", folder),
    ]
    code, _, errors = cli(*options, "--run-budget-tokens", "1000")
    assert code == 2
    last = errors.splitlines()[-1]
    assert last == (
        "rcb: the agent did not report what its model calls used, so --run-budget-tokens cannot be held:"
        f" 1 of 3 episodes are in {folder}; go on with --resume and --run-budget-tokens none"
    )
    code, out, errors = cli("run", "--resume", folder, "--run-budget-tokens", "none")
    assert code == 0, errors
    warnings = [line for line in errors.splitlines() if line.startswith("warning: ")]
    (warning,) = warnings  # of two episodes that both had it
    assert "reported no model call: was a model asked at all?" in warning
    assert "--agent-sandbox none: a program that played could read" in out
    assert "calls and tokens unknown, as the agent reports none, cost unknown" in out
