"""The client of model APIs against a real HTTP server that misbehaves."""

from __future__ import annotations

import datetime
import email.utils
import json
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from rcb_agents import tokens
from rcb_agents.client import OpenAIModel
from rcb_agents.faults import retry_after_s
from rcb_agents.replies import Reply

from rcb_env.errors import ModelError, ModelRefusedRequest, UsageError
from rcb_env.play.agent import ModelSettings, NoAnswer

# A server's class lives in conftest.py, which cannot be imported from here.
Server = Any
KEY = "sk-very-secret-0123456789"
QUESTION = [{"role": "user", "content": "Write it."}]


def model(server: Server, name: str = "", **settings: Any) -> OpenAIModel:
    # What is learnt about a server is kept by address and model, and addresses come again.
    settings.setdefault("base_url", server.url)
    return OpenAIModel(ModelSettings(name or f"m-{id(server)}-{time.monotonic()}", **settings))


def ask(server: Server, **settings: Any) -> Reply:
    return model(server, **settings).complete(QUESTION)


def http_date(seconds_ahead: float) -> str:
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds_ahead)
    return email.utils.format_datetime(when, usegmt=True)


def test_an_answer_comes_with_its_usage(model_server: Server) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 500,
        "completion_tokens_details": {"reasoning_tokens": 400},
    }
    model_server.plays(model_server.answer("hello", usage=usage, headers={"x-request-id": "r1"}))
    reply = ask(model_server, input_usd_per_mtok=2.0, output_usd_per_mtok=10.0)
    assert (reply.text, reply.finish_reason, reply.request_id) == ("hello", "stop", "r1")
    assert reply.usage.prompt_tokens == 1000
    assert reply.usage.completion_tokens == 500
    assert reply.usage.reasoning_tokens == 400
    assert reply.usage.cost_usd == pytest.approx(0.007)
    assert not reply.usage.estimated
    assert reply.retries == 0


def test_the_settings_are_sent_and_unset_ones_are_not(model_server: Server) -> None:
    ask(model_server, name="m1", temperature=0.5, max_tokens=7, reasoning_effort="high")
    ask(model_server, name="m1", temperature=None)
    first, second = (request["body"] for request in model_server.requests)
    assert (first["model"], first["messages"]) == ("m1", QUESTION)
    assert (first["temperature"], first["max_tokens"]) == (0.5, 7)
    assert first["reasoning_effort"] == "high"
    assert set(second) == {"model", "messages"}


# --- retries ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "least_s", "most_s"),
    [
        ("2", 1.9, 3.5),
        ("date+2", 0.9, 3.5),
        ("date-60", 0.0, 0.4),
        ("0.5", 0.45, 1.5),
        ("abc", 0.2, 1.5),
        (None, 0.2, 1.5),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_followed_in_every_form(
    model_server: Server, header: str | None, least_s: float, most_s: float, status: int
) -> None:
    """Case C051: a date in the header crashed the parser, and other forms were passed over."""

    def refuse(exchange: Any) -> None:
        told = header
        if told and told.startswith("date"):  # counted from now: a client takes its time to start
            told = http_date(float(told.removeprefix("date")))
        model_server.status(status, **({"Retry_After": told} if told else {}))(exchange)

    model_server.plays(refuse, "ok")
    reply = ask(model_server)
    assert (reply.text, reply.retries) == ("ok", 1)
    (pause,) = model_server.pauses
    assert least_s <= pause <= most_s


def test_a_wait_of_a_day_ends_as_an_api_error_at_once(model_server: Server) -> None:
    """Case C051: the client slept for hours, or the attempt counted as a wrong answer."""
    model_server.plays(model_server.status(429, Retry_After="86400"))
    began = time.monotonic()
    with pytest.raises(ModelError, match="86400 s") as caught:
        ask(model_server)
    assert time.monotonic() - began < 2
    assert not isinstance(caught.value, ModelRefusedRequest)
    assert len(model_server.requests) == 1


def test_the_longest_wait_is_a_setting(model_server: Server) -> None:
    model_server.plays(model_server.status(429, Retry_After="1"), "ok")
    with pytest.raises(ModelError, match=r"longer than 0\.5 s"):
        ask(model_server, max_wait_s=0.5)


@pytest.mark.parametrize("trouble", ["drop", "cut_off", "no_choices"])
def test_a_reply_that_got_lost_is_asked_for_again(model_server: Server, trouble: str) -> None:
    """Case C051: also a dropped connection is one retry."""
    model_server.plays(getattr(model_server, trouble)(), "ok")
    reply = ask(model_server)
    assert (reply.text, reply.retries) == ("ok", 1)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_retries_are_counted_once_and_end(model_server: Server, status: int) -> None:
    """Case C051: our own retries must not multiply with the library's."""
    model_server.plays(model_server.status(status, Retry_After="0"))
    with pytest.raises(ModelError, match=f"3 times: status {status}"):
        ask(model_server, max_retries=2)
    assert len(model_server.requests) == 3


def test_a_server_without_choices_ends_as_an_api_error(model_server: Server) -> None:
    model_server.plays(model_server.no_choices())
    with pytest.raises(ModelError, match="without choices"):
        ask(model_server, max_retries=1)
    assert len(model_server.requests) == 2


def test_a_connection_that_hangs_is_given_up(model_server: Server) -> None:
    model_server.plays(model_server.hang(), "ok")
    began = time.monotonic()
    assert ask(model_server, timeout_s=0.5).retries == 1
    assert time.monotonic() - began < 4


def test_a_slow_reply_is_waited_for(model_server: Server) -> None:
    model_server.plays(model_server.slow(0.7, "late"))
    assert ask(model_server, timeout_s=5).text == "late"


def test_a_server_that_was_never_there_stops_the_run() -> None:
    """Trying every challenge against it would take hours to say the same."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    asked = OpenAIModel(ModelSettings("m", base_url=url, max_retries=0))
    with pytest.raises(ModelRefusedRequest, match=f"{url}/chat/completions cannot be reached"):
        asked.complete(QUESTION)


def test_a_server_that_is_gone_for_a_while_is_an_api_error(model_server: Server) -> None:
    model_server.plays(model_server.answer("a", headers={"Connection": "close"}))
    asked = model(model_server, max_retries=0)
    asked.complete(QUESTION)
    model_server.stop()
    with pytest.raises(ModelError, match="gave no reply") as caught:
        asked.complete(QUESTION)
    assert not isinstance(caught.value, ModelRefusedRequest)


def test_a_failure_in_the_body_of_a_200_is_asked_for_again(model_server: Server) -> None:
    body = {"error": {"code": 502, "message": "the provider is away"}}
    model_server.plays(model_server.page(json.dumps(body), "application/json"), "ok")
    assert ask(model_server).retries == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00"}, 0.0),
        ({"retry-after": "Wed, 99 Oct 2015"}, None),
    ],
)
def test_what_a_header_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


# --- the address and the key ------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "/", "//", "/chat/completions"])
def test_the_spelling_of_the_address_does_not_matter(model_server: Server, ending: str) -> None:
    """Case C053: a trailing slash gave a 404."""
    ask(model_server, base_url=f"{model_server.url}{ending}")
    assert model_server.requests[0]["path"] == "/v1/chat/completions"


@pytest.mark.parametrize("kind", ["json", "html", "text", "empty"])
def test_an_address_without_v1_is_named_in_full(model_server: Server, kind: str) -> None:
    """Case C053: the server answered 200 with an error text, and every answer counted as empty."""
    model_server.elsewhere = {
        "json": model_server.page('{"error": "Unexpected endpoint"}', "application/json"),
        "html": model_server.page("<html><body>Ollama is running</body></html>"),
        "text": model_server.page("Not here", "text/plain"),
        "empty": model_server.page("", "text/plain"),
    }[kind]
    with pytest.raises(ModelRefusedRequest) as caught:
        ask(model_server, base_url=model_server.origin)
    assert f"{model_server.origin}/chat/completions" in str(caught.value)
    assert "/v1" in str(caught.value)
    assert len(model_server.requests) == 1


def test_the_environment_gives_the_address(
    model_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", model_server.url)
    assert ask(model_server, base_url=None).text


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C053: an empty OPENAI_BASE_URL became the address."""
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAIModel(ModelSettings("m")).url == "https://api.openai.com/v1/chat/completions"


def test_openai_itself_wants_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        OpenAIModel(ModelSettings("m"))


def test_a_server_of_ones_own_wants_none(model_server: Server) -> None:
    """Case C053: a local server needs no key, but the library does."""
    assert ask(model_server).text
    assert model_server.requests[0]["headers"]["authorization"] == "Bearer none"


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://x/v1", "/v1", "http:///v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a model's server"):
        OpenAIModel(ModelSettings("m", base_url=url))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_the_key_is_in_no_message(
    model_server: Server, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Case C053: some servers repeat the key in their error, and it ended up in logs."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model_server.plays(model_server.error(status, f"Incorrect API key provided: {KEY}."))
    with pytest.raises(ModelError) as caught:
        ask(model_server, max_retries=0)
    assert model_server.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(caught.value)


def test_a_password_in_the_address_is_in_no_message(model_server: Server) -> None:
    model_server.plays(model_server.status(500))
    url = model_server.url.replace("http://", "http://user:pass-word@")
    with pytest.raises(ModelError) as caught:
        ask(model_server, base_url=url, max_retries=0)
    assert "pass-word" not in str(caught.value)
    assert "pass-word" not in str(ModelSettings("m", base_url=url).to_dict())


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (401, "invalid_api_key", "OPENAI_API_KEY"),
        (403, None, "403"),
        (404, "model_not_found", "model name"),
        (402, None, "credit"),
        (429, "insufficient_quota", "credit"),
        (400, "invalid_value", "400"),
    ],
)
def test_what_no_retry_can_change_stops_at_once(
    model_server: Server, status: int, code: str | None, says: str
) -> None:
    model_server.plays(model_server.error(status, "No.", code=code))
    with pytest.raises(ModelRefusedRequest, match=says) as caught:
        ask(model_server)
    assert f"{model_server.url}/chat/completions" in str(caught.value)
    assert len(model_server.requests) == 1


def test_a_missing_key_is_not_called_a_wrong_one(
    model_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model_server.plays(model_server.error(401, "No key."))
    with pytest.raises(ModelRefusedRequest, match=r"wants a key .* OPENAI_API_KEY is not set"):
        ask(model_server)


def test_one_bad_prompt_among_good_ones_does_not_stop_the_run(model_server: Server) -> None:
    model_server.plays("ok", model_server.error(400, "unknown token in prompt"))
    asked = model(model_server)
    asked.complete(QUESTION)
    with pytest.raises(ModelError) as caught:
        asked.complete(QUESTION)
    assert not isinstance(caught.value, ModelRefusedRequest)


def test_a_proxy_variable_is_followed(
    model_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C053: the server itself plays the proxy and sees the whole address in the request."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", model_server.origin)
    with pytest.raises(ModelRefusedRequest):
        ask(model_server, base_url="http://models.invalid/v1")
    assert model_server.requests[0]["path"] == "http://models.invalid/v1/chat/completions"


# --- replies without an answer ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_without_an_answer_is_kept_apart(model_server: Server, name: str) -> None:
    """Case C055: the content was null because the tokens went into reasoning, and a search in it
    failed on None, far away."""
    draft = "```python\nreturn 1\n```"
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 90,
        "completion_tokens_details": {"reasoning_tokens": 90},
    }
    model_server.plays(model_server.answer(None, finish="length", usage=usage, **{name: draft}))
    reply = ask(model_server, input_usd_per_mtok=0.0, output_usd_per_mtok=1.0)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("", draft, "length")
    assert reply.usage.reasoning_tokens == 90
    assert reply.usage.cost_usd == pytest.approx(90e-6)


def test_a_refusal_is_kept(model_server: Server) -> None:
    """Case C055: the content is null and the model's words are in a field of their own."""
    model_server.plays(model_server.answer(None, refusal="I cannot do that."))
    assert ask(model_server).refusal == "I cannot do that."


def test_content_in_parts_is_put_together(model_server: Server) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    model_server.plays(model_server.answer(parts))
    assert ask(model_server).text == "ab"


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None, "completion_tokens": -1}])
def test_missing_usage_is_estimated_and_says_so(
    model_server: Server, usage: dict[str, Any]
) -> None:
    model_server.plays(model_server.answer("some words of an answer", usage=usage))
    got = ask(model_server).usage
    assert got.estimated
    assert 1 <= got.prompt_tokens < 20
    assert 1 <= got.completion_tokens < 20
    assert got.cost_usd is None


# --- the context window -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Too long.", "context_length_exceeded"),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000"
            " tokens (8500 in the messages, 500 in the completion).",
            None,
        ),
        ("prompt is too long: 214345 tokens > 200000 maximum", None),
        ("max_tokens must be at least 1, got -302.", None),
        ("the request exceeds the available context size. try increasing the context size", None),
    ],
)
@pytest.mark.parametrize("status", [400, 413])
def test_an_overflow_is_no_answer_and_not_tried_again(
    model_server: Server, message: str, code: str | None, status: int
) -> None:
    """Case C059: a hopeless 400 was sent again and again, as each server words it otherwise."""
    model_server.plays(model_server.error(status, message, code=code))
    with pytest.raises(NoAnswer) as caught:
        ask(model_server, max_tokens=500)
    assert caught.value.reason == "context_exceeded"
    assert len(model_server.requests) == 1


def test_a_prompt_beyond_the_named_window_is_not_sent(model_server: Server) -> None:
    """Case C059: a paper of 300 000 tokens in one prompt."""
    asked = model(model_server, context_tokens=8000, max_tokens=1000)
    with pytest.raises(NoAnswer, match="window 8000"):
        asked.complete([{"role": "user", "content": "word " * 300_000}])
    assert model_server.requests == []


def test_the_completion_is_cut_to_what_the_window_leaves(model_server: Server) -> None:
    """Case C059: the limit was the window minus the prompt, and became negative."""
    asked = model(model_server, context_tokens=100, max_tokens=1000)
    asked.complete([{"role": "user", "content": "word " * 60}])
    assert 1 <= model_server.requests[0]["body"]["max_tokens"] < 100


# --- parameters a model does not take ---------------------------------------------------------


def test_a_refused_temperature_is_left_out_from_then_on(model_server: Server) -> None:
    no = "Unsupported value: 'temperature' does not support 0 with this model."
    model_server.plays(model_server.error(400, no, param="temperature"), "a", "b")
    asked = model(model_server, temperature=0.0)
    replies = [asked.complete(QUESTION) for _ in range(2)]
    assert [(reply.text, reply.refused) for reply in replies] == [
        ("a", ("temperature",)),
        ("b", ("temperature",)),
    ]
    sent = ["temperature" in request["body"] for request in model_server.requests]
    assert sent == [True, False, False]


def test_a_refused_max_tokens_is_renamed_from_then_on(model_server: Server) -> None:
    no = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    model_server.plays(model_server.error(400, no, param="max_tokens"), "a")
    asked = model(model_server, max_tokens=50)
    again = OpenAIModel(asked.settings)
    assert (asked.complete(QUESTION).retries, again.complete(QUESTION).retries) == (0, 0)
    first, *later = (request["body"] for request in model_server.requests)
    assert first["max_tokens"] == 50
    assert [body["max_completion_tokens"] for body in later] == [50, 50]
    assert all("max_tokens" not in body for body in later)


def test_a_parameter_that_stays_wrong_ends(model_server: Server) -> None:
    model_server.plays(model_server.error(400, "temperature is not allowed", param="temperature"))
    with pytest.raises(ModelRefusedRequest):
        ask(model_server)
    assert len(model_server.requests) == 2


# --- counting tokens --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["my-org/qwen-7b", "alias-fast", "o1", ""])
def test_tokens_of_any_model_are_counted_without_a_network(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Case C061: unknown names crashed, and the download of an encoding hung."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    tokens._counter.cache_clear()
    tokens._available.cache_clear()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        counts = [tokens.estimate("Write the missing lines of code.", name) for _ in range(3)]
    assert time.monotonic() - began < tokens.DOWNLOAD_S
    assert counts[0] == counts[2]
    assert 4 <= counts[0] <= 12
    assert len(caplog.records) == 1
    tokens._counter.cache_clear()


def test_the_download_of_an_encoding_cannot_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C061: the connection is open, and nothing comes."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(tokens, "DOWNLOAD_S", 2.0)
        tokens._counter.cache_clear()
        tokens._available.cache_clear()
        began = time.monotonic()
        assert tokens.estimate("Write the missing lines of code.", "gpt-4o") > 3
        assert time.monotonic() - began < 6
    tokens._counter.cache_clear()
    tokens._available.cache_clear()


def test_control_tokens_and_long_runs_are_just_text() -> None:
    began = time.monotonic()
    assert tokens.estimate("<|endoftext|>", "m") > 1
    assert tokens.estimate("a" * 200_000, "m") > 1000
    assert time.monotonic() - began < 10
