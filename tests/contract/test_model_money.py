"""What a call costs: as the server bills it, else tokens at their price, else unknown; never nothing by mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rcb_agents.client import OpenAIModel
from rcb_agents.replies import Reply

from rcb_env.dataset.papers import Dataset
from rcb_env.env.settings import Budgets
from rcb_env.errors import UsageError
from rcb_env.play.agent import ModelSettings
from rcb_env.play.record import Episode
from rcb_env.runs import RunConfig, open_run, run_experiment

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
QUESTION = [{"role": "user", "content": "Write it."}]
ANSWER = "```python\n    return x * factor + 1\n```"
PRICES: dict[str, Any] = {"input_usd_per_mtok": 2.0, "output_usd_per_mtok": 10.0}


def ask(server: Server, usage: dict[str, Any], **settings: Any) -> Reply:
    server.plays(server.answer("x", usage={"completion_tokens": 100, **usage}))
    chosen = {"name": f"m-{id(server)}", "base_url": server.url, **settings}
    return OpenAIModel(ModelSettings(**chosen)).complete(QUESTION)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "models.yaml"
    prices = "input_usd_per_mtok: 2, output_usd_per_mtok: 10, cached_input_usd_per_mtok: 0.5"
    path.write_text(f"models:\n  m: {{{prices}}}\n")
    return str(path)


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens_details": {"cached_tokens": 800}},
        {"prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 200},
        {"cached_tokens": 800},
    ],
)
def test_cached_tokens_cost_their_own_price(
    model_server: Server, table: str, told: dict[str, Any]
) -> None:
    """They were billed as all others, several times what the provider takes."""
    usage = ask(model_server, {"prompt_tokens": 1000, **told}, name="m", models_file=table).usage
    assert (usage.cached_tokens, usage.tokens) == (800, 1100)
    assert usage.cost_usd == pytest.approx((200 * 2 + 800 * 0.5 + 100 * 10) / 1e6)
    assert (usage + usage).cached_tokens == 1600


def test_a_price_of_ones_own_does_not_mix_with_the_tables_cached_one(
    model_server: Server, table: str
) -> None:
    told = {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 800}}
    usage = ask(model_server, told, name="m", models_file=table, input_usd_per_mtok=0.1).usage
    assert usage.cost_usd == pytest.approx((1000 * 0.1 + 100 * 10) / 1e6)


def test_more_cached_tokens_than_tokens_are_all_of_them(model_server: Server, table: str) -> None:
    told = {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 9999}}
    usage = ask(model_server, told, name="m", models_file=table).usage
    assert usage.cost_usd == pytest.approx((1000 * 0.5 + 100 * 10) / 1e6)


def test_the_responses_api_tells_of_its_cache_too(model_server: Server, table: str) -> None:
    counts = {
        "input_tokens": 1000,
        "output_tokens": 100,
        "input_tokens_details": {"cached_tokens": 800},
    }
    model_server.plays(model_server.response({"type": "message", "content": []}, usage=counts))
    settings = ModelSettings("m", base_url=model_server.url, api="responses", models_file=table)
    assert OpenAIModel(settings).complete(QUESTION).usage.cost_usd == pytest.approx(0.0018)


@pytest.mark.parametrize(
    ("told", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.51),
        ({"cost": None}, 0.003),
        ({"cost": -1}, 0.003),
        ({"cost": "0.25"}, 0.003),
        ({"cost": {"total_cost": 1}}, 0.003),
        ({"cost": 0.01, "is_byok": True}, 0.003),
    ],
)
def test_what_the_server_bills_goes_before_any_table(
    model_server: Server, told: dict[str, Any], cost: float
) -> None:
    usage = ask(model_server, {"prompt_tokens": 1000, **told}, **PRICES).usage
    assert usage.cost_usd == pytest.approx(cost)


def test_a_bill_makes_the_cost_of_an_unknown_model_known(model_server: Server) -> None:
    assert ask(model_server, {"prompt_tokens": 10, "cost": 0.25}).usage.cost_usd == 0.25
    assert ask(model_server, {"prompt_tokens": 10}).usage.cost_usd is None


# --- limits -----------------------------------------------------------------------------------


def test_a_limit_that_cannot_be_held_is_refused_before_the_first_request(
    play: Play, model_server: Server
) -> None:
    """It was noticed after the first call, which was paid for."""
    with pytest.raises(UsageError, match=r"price of this model is unknown.*--input-price"):
        play("single-shot", server=model_server, budgets=Budgets(cost_usd=1.0))
    assert model_server.requests == []


def test_the_same_holds_for_the_limit_of_a_whole_run(
    small_papers: Dataset, model_server: Server, tmp_path: Path
) -> None:
    config = RunConfig(
        agent="single-shot",
        model=ModelSettings(f"m-{id(model_server)}", base_url=model_server.url),
        dataset=str(small_papers.papers[0].root),
        run_cost_usd=1.0,
    )
    with (
        pytest.raises(UsageError, match="limit in money cannot be held"),
        open_run(config, tmp_path / "run") as store,
    ):
        run_experiment(config, store)
    assert model_server.requests == []
    assert config.model is not None
    priced = replace(config, model=replace(config.model, **PRICES))
    model_server.plays(ANSWER)
    with open_run(priced, tmp_path / "priced") as store:
        run_experiment(priced, store)
    assert len(model_server.requests) == 1


def test_a_server_that_bills_every_reply_needs_no_table(
    play: Play, model_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenRouter says what each reply cost; a file of one's own says so of another server."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    table = tmp_path / "models.yaml"
    server = f'{{base_url: "{model_server.url}", reports_cost: true}}'
    table.write_text(f"providers:\n  lab: {server}\n")
    settings = {"name": "lab/m", "base_url": None, "models_file": str(table)}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "cost": 0.5}
    model_server.plays(model_server.answer(ANSWER, usage=usage))
    for limit, end in ((1.0, "submitted"), (0.1, "cost_spent")):
        episode, _ = play(
            "single-shot", server=model_server, settings=settings, budgets=Budgets(cost_usd=limit)
        )
        assert (episode.end_reason, episode.usage.cost_usd) == (end, 0.5)
