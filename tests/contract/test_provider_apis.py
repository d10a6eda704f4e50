"""Anthropic's and Google's own APIs: the server's cache, limits and refusals as these two have them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from rcb_agents.client import OpenAIModel

from rcb_env.errors import ModelError, UsageError
from rcb_env.play.agent import ModelSettings, NoAnswer
from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
QUESTION = [{"role": "user", "content": "Write it."}]
RIGHT = "```python\n    return x * factor + 1\n```"
PAPER = "Multiply {x} by the factor and add one."
MARK = {"type": "ephemeral"}


def message(text: str, end: str = "end_turn", **usage: int) -> Any:
    """A behaviour: a reply of Anthropic's."""
    content = [{"type": "text", "text": text}] if text else []
    counts = {"input_tokens": 10, "output_tokens": 5, **usage}
    body = {
        "id": "msg_1",
        "type": "message",
        "content": content,
        "stop_reason": end,
        "usage": counts,
    }
    return lambda exchange: exchange.send(200, body)


def ask(server: Server, api: str, **settings: Any) -> Any:
    base = f"{server.origin}/v1beta" if api == "google" else server.url
    chosen = {
        "name": f"m-{id(server)}",
        "base_url": base,
        "api": api,
        "max_wait_s": 0.01,
        **settings,
    }
    return OpenAIModel(ModelSettings(**chosen)).complete(QUESTION)


# --- the server's cache -----------------------------------------------------------------------


def test_the_whole_paper_is_marked_for_the_servers_cache(play: Play, model_server: Server) -> None:
    """Every challenge of a paper begins with it, and each paid for it anew."""
    model_server.plays(message(RIGHT))
    play("single-shot", server=model_server, settings={"api": "anthropic"})
    (turn,) = model_server.requests[0]["body"]["messages"]
    first, rest = turn["content"]
    assert first["text"].endswith(PAPER)
    assert (first["cache_control"], "cache_control" in rest) == (MARK, False)


def test_a_conversation_that_goes_on_is_marked_at_its_end(play: Play, model_server: Server) -> None:
    model_server.plays(message(RIGHT.replace("+ 1", "")), message(RIGHT))
    episode, _ = play("repair", server=model_server, settings={"api": "anthropic"})
    assert episode.status == "passed"
    first, second = (each["body"]["messages"] for each in model_server.requests)
    assert "cache_control" not in first[-1]["content"][-1]
    assert second[-1]["content"][-1]["cache_control"] == MARK
    assert second[0] == first[0]  # to the letter, or nothing is found in the cache


def test_another_api_hears_nothing_of_marks(play: Play, model_server: Server) -> None:
    model_server.plays(RIGHT)
    play("single-shot", server=model_server)
    (sent,) = model_server.requests[0]["body"]["messages"]
    assert set(sent) == {"role", "content"}


def test_what_goes_into_the_cache_and_what_comes_from_it_have_their_prices(
    model_server: Server,
) -> None:
    model_server.plays(message("x", cache_creation_input_tokens=1000, cache_read_input_tokens=2000))
    usage = ask(model_server, "anthropic", name="claude-sonnet-4-20250514").usage
    assert (usage.prompt_tokens, usage.cached_tokens) == (3010, 2000)
    assert usage.cost_usd == pytest.approx((10 * 3 + 1000 * 3.75 + 2000 * 0.3 + 5 * 15) / 1e6)


# --- limits and refusals ----------------------------------------------------------------------


def test_a_limit_beyond_the_models_is_lowered(model_server: Server) -> None:
    said = "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for m"
    model_server.plays(model_server.error(400, said, type="invalid_request_error"), message("x"))
    reply = ask(model_server, "anthropic")
    assert (reply.text, reply.refused) == ("x", ("max_tokens",))
    limits = [each["body"]["max_tokens"] for each in model_server.requests]
    assert limits[0] > limits[1] == 8192


def test_a_prompt_that_is_too_long_is_told(model_server: Server) -> None:
    said = {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}
    model_server.plays(model_server.status(400, {"type": "error", "error": said}))
    with pytest.raises(NoAnswer, match="prompt is too long") as caught:
        ask(model_server, "anthropic")
    assert caught.value.reason == "context_exceeded"


@pytest.mark.parametrize("api", ["anthropic", "google"])
def test_a_refusal_of_the_model_is_one(play: Play, model_server: Server, api: str) -> None:
    blocked = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 9},
    }
    google = model_server.status(200, blocked)
    model_server.plays(google if api == "google" else message("", "refusal"))
    base = {"google": f"{model_server.origin}/v1beta"}.get(api, model_server.url)
    settings = {"api": api, "base_url": base}
    episode, _ = play("single-shot", server=model_server, settings=settings)
    assert episode.end_reason == "refused"


def test_a_quota_of_the_day_is_no_wait(model_server: Server) -> None:
    """A quota of the minute is worded like an empty account; only the time to wait tells them apart."""
    said = "You exceeded your current quota, please check your plan and billing details."
    model_server.plays(model_server.status(429, {"error": {"code": 429, "message": said}}))
    with pytest.raises(Exception, match="wants payment"):
        ask(model_server, "google")
    model_server.plays(
        model_server.status(
            429, {"error": {"code": 429, "message": f"{said} Please retry in 7h2m."}}
        )
    )
    with pytest.raises(Exception, match="asks to wait 25320 s"):
        ask(model_server, "google")


@pytest.mark.parametrize("api", ["anthropic", "google"])
@pytest.mark.parametrize("trouble", ["drop", "cut_off"])
def test_a_lost_reply_is_asked_for_again(model_server: Server, api: str, trouble: str) -> None:
    parts = {"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}
    good = model_server.status(200, parts) if api == "google" else message("ok")
    model_server.plays(getattr(model_server, trouble)(), good)
    reply = ask(model_server, api)
    assert (reply.text, reply.finish_reason, reply.retries) == ("ok", "stop", 1)


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "google"])
def test_a_server_that_says_nothing_is_not_waited_for_any_longer(
    model_server: Server, api: str
) -> None:
    model_server.plays(model_server.hang())
    with pytest.raises(ModelError, match=r"no reply within 0\.2 s"):
        ask(model_server, api, timeout_s=0.2, max_retries=0)


@pytest.mark.parametrize(
    ("provider", "module"), [("anthropic", "anthropic"), ("google", "google.genai")]
)
def test_a_provider_whose_library_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, provider: str, module: str
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv(
        {"google": "GEMINI_API_KEY"}.get(provider, "ANTHROPIC_API_KEY"), f"k-{module}"
    )
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"pip install 'rcb-env\[{provider}\]'.*--api chat"):
        OpenAIModel(ModelSettings(f"{provider}/m"))
    assert OpenAIModel(ModelSettings(f"{provider}/m", api="chat")).url.endswith("/chat/completions")
