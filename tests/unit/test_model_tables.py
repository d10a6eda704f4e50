"""Providers by name, and what is known of models."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from rcb_agents import registry
from rcb_agents.providers import PROVIDERS, Provider, resolve
from rcb_agents.registry import BUILT_IN, load_registry

from rcb_env.errors import UsageError
from rcb_env.play.agent import ModelSettings, Usage

LEADERBOARD = Path(__file__).parents[3] / "shared" / "data" / "official_models.csv"


@pytest.fixture(autouse=True)
def _no_settings_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for provider in PROVIDERS.values():
        if provider.key_variable:
            monkeypatch.setenv(provider.key_variable, f"key of {provider.key_variable}")


# --- providers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "host", "model", "key"),
    [
        ("gpt-4o", "api.openai.com", "gpt-4o", "OPENAI_API_KEY"),
        ("openai/gpt-4o", "api.openai.com", "gpt-4o", "OPENAI_API_KEY"),
        (
            *("google/gemini-2.0-flash", "generativelanguage.googleapis.com"),
            *("gemini-2.0-flash", "GEMINI_API_KEY"),
        ),
        ("xai/grok-3", "api.x.ai", "grok-3", "XAI_API_KEY"),
        ("deepseek/deepseek-chat", "api.deepseek.com", "deepseek-chat", "DEEPSEEK_API_KEY"),
        ("openrouter/qwen/qwen-turbo", "openrouter.ai", "qwen/qwen-turbo", "OPENROUTER_API_KEY"),
        ("anthropic/claude-x", "api.anthropic.com", "claude-x", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_provider_in_the_name_says_where_to_and_with_which_key(
    name: str, host: str, model: str, key: str
) -> None:
    found = resolve(ModelSettings(name))
    assert (found.host, found.model, found.key) == (host, model, f"key of {key}")
    assert "key of" not in repr(found)


@pytest.mark.parametrize(
    ("name", "api", "spoken", "base_url"),
    [
        ("anthropic/c", "auto", "anthropic", "https://api.anthropic.com"),
        ("anthropic/c", "chat", "chat", "https://api.anthropic.com/v1"),
        ("google/g", "auto", "google", "https://generativelanguage.googleapis.com/v1beta"),
        ("google/g", "chat", "chat", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("openai/o", "auto", "chat", "https://api.openai.com/v1"),
        ("openai/o", "responses", "responses", "https://api.openai.com/v1"),
    ],
)
def test_a_provider_with_an_api_of_its_own_is_spoken_to_in_that(
    name: str, api: Any, spoken: str, base_url: str
) -> None:
    found = resolve(ModelSettings(name, api=api))
    assert (found.api, found.base_url) == (spoken, base_url)


def test_an_address_is_spoken_to_in_the_openai_protocol() -> None:
    settings = ModelSettings("anthropic/c", base_url="http://127.0.0.1:9/v1/chat/completions")
    assert (resolve(settings).api, resolve(settings).base_url) == ("chat", "http://127.0.0.1:9/v1")


def test_a_local_model_needs_no_key() -> None:
    found = resolve(ModelSettings("local/qwen/qwen-7b"))
    assert (found.base_url, found.model, found.key) == (
        *("http://127.0.0.1:8000/v1", "qwen/qwen-7b", ""),
    )


@pytest.mark.parametrize("by", ["setting", "variable"])
def test_an_address_takes_the_name_as_it_stands(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers have names of their own that begin like a provider's: google/gemma, openai/gpt-oss."""
    url = "http://127.0.0.1:9/v1"
    if by == "variable":
        monkeypatch.setenv("OPENAI_BASE_URL", url)
    given = url if by == "setting" else None
    assert resolve(ModelSettings("google/gemma-2", base_url=given)).model == "google/gemma-2"
    assert resolve(ModelSettings("google/gemma-2", base_url=given)).base_url == url
    assert resolve(ModelSettings("local/x", base_url=given)).model == "x"


def test_a_providers_address_gets_the_providers_key_and_no_other() -> None:
    found = resolve(ModelSettings("m", base_url="https://api.x.ai/v1/chat/completions"))
    assert (found.base_url, found.key) == ("https://api.x.ai/v1", "key of XAI_API_KEY")


def test_a_missing_key_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", " ")
    with pytest.raises(UsageError, match=r"DEEPSEEK_API_KEY is not set.*api\.deepseek\.com"):
        resolve(ModelSettings("deepseek/deepseek-chat"))


def test_an_unknown_provider_is_named_with_those_there_are() -> None:
    """It was taken for a model of OpenAI, which knows none of this name."""
    known = "anthropic, deepseek, google, lab, local, openai, openrouter, xai"
    with pytest.raises(UsageError, match=rf"'my-org'.*; they are {known}; .*OPENAI_BASE_URL"):
        resolve(ModelSettings("my-org/qwen-7b"), {"lab": Provider("http://127.0.0.1:9/v1", None)})
    here = resolve(ModelSettings("my-org/qwen-7b", base_url="http://127.0.0.1:9/v1"))
    assert here.model == "my-org/qwen-7b"


def test_a_provider_without_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="no name after"):
        resolve(ModelSettings("openai/"))


# --- models -----------------------------------------------------------------------------------


def test_the_models_of_the_leaderboard_are_known() -> None:
    known = load_registry().models
    assert len(known) >= 32
    if not LEADERBOARD.exists():
        pytest.skip("the published table is not here")
    with LEADERBOARD.open() as file:
        for row in csv.DictReader(file):
            facts = known[row["api_name"]]
            # For one model the price of tokens from the cache was published.
            cached = row["api_name"] == "deepseek-reasoner"
            prompt = facts.cached_input_usd_per_mtok if cached else facts.input_usd_per_mtok
            assert prompt == float(row["input_usd_per_mtok"])
            assert facts.output_usd_per_mtok == float(row["output_usd_per_mtok"])
            assert facts.context_tokens is not None
            assert facts.context_tokens >= 32_768
            assert facts.knowledge_cutoff is not None
            numbers = [int(part) for part in facts.knowledge_cutoff.split("-")]
            assert numbers == [int(part) for part in row["knowledge_cutoff"].split("-")]


def test_prices_of_a_cache_have_a_source_and_are_never_too_small() -> None:
    """A reading price that is left out is that of all tokens, a writing price 1.25 times that."""
    text = BUILT_IN.read_text()
    for name, facts in load_registry().models.items():
        price = facts.price
        assert price is not None, name
        assert 0 < price.cached <= price.input < price.written, name
        if facts.cached_input_usd_per_mtok is None:
            assert price.cached == price.input, name
        else:
            makers = {"gp": "OpenAI", "o1": "OpenAI", "o3": "OpenAI", "o4": "OpenAI"}
            makers |= {"cl": "Anthropic", "ge": "Google", "gr": "xAI", "de": "DeepSeek"}
            assert f"\n# - {makers[name[:2]]}: https://" in text, name


def test_what_is_unknown_is_none_and_not_zero() -> None:
    facts = load_registry().facts_of(ModelSettings("my-org/qwen-7b"))
    assert (facts.price, facts.context_tokens, facts.knowledge_cutoff) == (None, None, None)
    half = load_registry().facts_of(ModelSettings("my-org/qwen-7b", input_usd_per_mtok=1.0))
    assert half.price is None
    total = Usage(cost_usd=1.0) + Usage(cost_usd=None)
    assert total.cost_usd is None


def test_settings_go_before_the_table_and_a_providers_name_may_be_in_front() -> None:
    table = load_registry()
    facts = table.facts_of(ModelSettings("openai/gpt-4o-mini", output_usd_per_mtok=9.0))
    assert facts.price is not None
    assert (facts.price.input, facts.price.output) == (0.15, 9.0)
    assert table.facts_of(ModelSettings("gpt-4o-mini", context_tokens=5)).context_tokens == 5


def test_a_file_of_ones_own_adds_and_goes_first(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        """
models:
  my-org/qwen-7b: {input_usd_per_mtok: 0, output_usd_per_mtok: 0, context_tokens: 32768}
  gpt-4o-mini: {knowledge_cutoff: 2023-10-01}
providers:
  lab: {base_url: "http://127.0.0.1:9/v1"}
"""
    )
    table = load_registry(str(tmp_path / "models.yaml"))
    own = table.facts_of(ModelSettings("my-org/qwen-7b"))
    assert own.price is not None
    assert own.price.of(10, 10) == 0.0
    other = table.facts_of(ModelSettings("gpt-4o-mini"))
    assert (other.knowledge_cutoff, other.input_usd_per_mtok) == ("2023-10-01", 0.15)
    assert table.providers == {"lab": Provider("http://127.0.0.1:9/v1", None)}
    assert resolve(ModelSettings("lab/x"), table.providers).model == "x"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models: [", ":1: "),
        ("- a", "the file: input should be"),
        ("model: {}", "model: there is no such key; there are models, providers"),
        ("models: {m: {price: 3}}", "models.m.price: there is no such key; there are input_usd"),
        ("models: {m: {context_tokens: 0}}", "models.m.context_tokens: input should be greater"),
        ("models: {m: {input_usd_per_mtok: -1}}", "models.m.input_usd_per_mtok: "),
        ("models: {m: {knowledge_cutoff: soon}}", "write it as YYYY-MM or YYYY-MM-DD"),
        ("models: {m: {knowledge_cutoff: 2024-13}}", "write it as YYYY-MM or YYYY-MM-DD"),
        ("providers: {p: {base_url: here}}", "providers.p.base_url: "),
    ],
)
def test_a_wrong_file_is_named_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_registry(str(path))
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_registry(str(tmp_path / "none.yaml"))


def test_reports_find_price_and_cutoff_of_a_model_by_its_name(tmp_path: Path) -> None:
    known = registry.facts("anthropic/claude-sonnet-4-20250514")
    assert (known.input_usd_per_mtok, known.knowledge_cutoff) == (3, "2025-03")
    assert registry.facts("nobody/knows").price is None
    own = tmp_path / "models.yaml"
    own.write_text("models: {nobody/knows: {knowledge_cutoff: 2026-01}}\n")
    assert registry.facts("nobody/knows", str(own)).knowledge_cutoff == "2026-01"
