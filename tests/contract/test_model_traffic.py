"""What goes on between the client and servers beyond one reply: the other API, the cache, crowds."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rcb_agents.cache import cache_folder
from rcb_agents.client import OpenAIModel
from rcb_agents.replies import Reply
from rcb_agents.throttle import Gate

from rcb_env.errors import ModelError, ModelRefusedRequest, UsageError
from rcb_env.play.agent import ModelSettings, NoAnswer

Server = Any  # its class lives in conftest.py, which cannot be imported from here
QUESTION = [{"role": "user", "content": "Write it."}]
TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}


def model(server: Server, *, seed: int = 0, sample: int = 0, **settings: Any) -> OpenAIModel:
    chosen = {"name": f"m-{id(server)}", "base_url": server.url, **settings}
    return OpenAIModel(ModelSettings(**chosen), seed=seed, sample=sample)


# --- tool calls -------------------------------------------------------------------------------


def test_parallel_calls_are_kept_as_they_came(model_server: Server) -> None:
    model_server.plays(
        model_server.calls(("look", {"a": 1}), ("look", '{"a": '), ("", ""), text=None)
    )
    reply = model(model_server).complete(QUESTION, [TOOL])
    assert reply.text == ""
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        *(("look", '{"a": 1}'), ("look", '{"a": '), ("", ""))
    ]
    assert model_server.requests[0]["body"]["tools"] == [TOOL]


@pytest.mark.parametrize(
    "calls",
    [
        None,
        "none",
        [None, 3],
        [{"function": None}],
        [{"id": None, "function": {"name": None, "arguments": {"a": 1}}}],
    ],
)
def test_calls_of_any_shape_are_no_crash(model_server: Server, calls: object) -> None:
    model_server.plays(model_server.answer(None, tool_calls=calls))
    reply = model(model_server).complete(QUESTION)
    assert all(call.id and isinstance(call.arguments, str) for call in reply.tool_calls)


# --- the responses API ------------------------------------------------------------------------


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def respond(server: Server, **settings: Any) -> Reply:
    return model(server, api="responses", **settings).complete(
        [{"role": "system", "content": "Be brief."}, *QUESTION]
    )


def test_a_response_is_read_with_its_usage(model_server: Server) -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    model_server.plays(model_server.response(thought, said("a"), said("b")))
    reply = respond(
        model_server,
        max_tokens=9,
        reasoning_effort="low",
        input_usd_per_mtok=1,
        output_usd_per_mtok=1,
    )
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("ab", "Hm.", "stop")
    assert reply.usage.cost_usd == pytest.approx(120e-6)
    assert (reply.usage.tokens, reply.usage.reasoning_tokens) == (120, 5)
    body = model_server.requests[0]["body"]
    assert body["max_output_tokens"] == 9
    assert body["reasoning"] == {"effort": "low"}
    assert body["input"][1] == QUESTION[0]


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"incomplete_details": None}, "length"),
    ],
)
def test_an_incomplete_response_says_why(
    model_server: Server, fields: dict[str, Any], finish: str
) -> None:
    """Case C055, other API: all tokens went into reasoning, and there is no message at all."""
    model_server.plays(model_server.response({"type": "reasoning"}, status="incomplete", **fields))
    reply = respond(model_server)
    assert (reply.text, reply.finish_reason) == ("", finish)


def test_a_server_that_seals_no_reasoning_is_asked_without(model_server: Server) -> None:
    no = "Unknown parameter: 'include'."
    model_server.plays(
        model_server.error(400, no, param="include"), model_server.response(said("a"))
    )
    assert (respond(model_server).text, len(model_server.requests)) == ("a", 2)
    assert "include" not in model_server.requests[1]["body"]


def test_a_refusal_in_a_response_is_kept(model_server: Server) -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    model_server.plays(model_server.response(refusal))
    assert respond(model_server).refusal == "No."


def test_a_failed_response_is_asked_for_again(model_server: Server) -> None:
    failed = model_server.response(status="failed", error={"message": "overloaded"})
    model_server.plays(failed, model_server.response(), model_server.response(said("ok")))
    reply = respond(model_server, max_wait_s=0.01)
    assert (reply.text, reply.retries) == ("ok", 2)
    model_server.plays(failed)
    with pytest.raises(ModelError, match="overloaded"):
        respond(model_server, max_retries=0)


def test_an_overflow_and_a_wrong_key_are_known_there_too(model_server: Server) -> None:
    model_server.plays(model_server.error(400, "x", code="context_length_exceeded"))
    with pytest.raises(NoAnswer, match="context_exceeded"):
        respond(model_server)
    model_server.plays(model_server.error(401, "bad key"))
    with pytest.raises(ModelRefusedRequest, match="/v1/responses wants a key"):
        respond(model_server)


def test_the_wrong_api_is_named(model_server: Server) -> None:
    model_server.plays("hello")
    with pytest.raises(ModelRefusedRequest, match="not with a response"):
        respond(model_server, name="other")


# --- the cache --------------------------------------------------------------------------------


def test_the_same_request_is_asked_once(model_server: Server, tmp_path: Path) -> None:
    model_server.plays("one", "two")
    prices: dict[str, Any] = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}
    first = model(model_server, cache=str(tmp_path), **prices).complete(QUESTION, [TOOL])
    again = model(model_server, cache=str(tmp_path), seed=7, **prices).complete(QUESTION, [TOOL])
    assert len(model_server.requests) == 1
    assert (again.text, again.tool_calls) == (first.text, first.tool_calls)
    assert first.usage.cost_usd == pytest.approx(120e-6)
    assert (again.usage.cost_usd, again.usage.tokens) == (0.0, 120)
    assert (first.usage.replayed_calls, again.usage.replayed_calls) == (0, 1)
    assert again.usage.replayed_tokens == 120


@pytest.mark.parametrize(
    "other",
    [
        {"temperature": 0.1},
        {"max_tokens": 5},
        {"reasoning_effort": "low"},
        {"name": "another"},
        {"sample": 1},
    ],
)
def test_whatever_differs_is_another_request(
    model_server: Server, tmp_path: Path, other: dict[str, Any]
) -> None:
    model_server.plays("one", "two")
    model(model_server, cache=str(tmp_path)).complete(QUESTION)
    assert model(model_server, **{"cache": str(tmp_path), **other}).complete(QUESTION).text == "two"
    longer = [*QUESTION, {"role": "assistant", "content": "one"}, *QUESTION]
    model(model_server, cache=str(tmp_path)).complete(longer)
    model(model_server, cache=str(tmp_path)).complete(QUESTION, [TOOL])
    assert len(model_server.requests) == 4


@pytest.mark.parametrize("temperature", [0.7, None])
def test_samples_stay_independent_and_reruns_are_free(
    model_server: Server, tmp_path: Path, temperature: float | None
) -> None:
    model_server.plays("a", "b", "c", "d")

    def draw(seed: int) -> list[str]:
        asked = model(model_server, cache=str(tmp_path), temperature=temperature, seed=seed)
        return [asked.complete(QUESTION).text for _ in range(2)]

    assert [draw(1), draw(2)] == [["a", "b"], ["c", "d"]]
    assert [draw(1), draw(2)] == [["a", "b"], ["c", "d"]]
    assert len(model_server.requests) == 4


def test_no_key_is_in_the_cache_and_a_damaged_file_is_a_miss(
    model_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    url = model_server.url.replace("http://", "http://user:pass-word@")
    model(model_server, base_url=url, cache=str(tmp_path)).complete(QUESTION)
    (file,) = tmp_path.rglob("*.json")
    assert "secret" not in file.read_text()
    assert "pass-word" not in file.read_text()
    file.write_text('{"response": ')
    model(model_server, base_url=url, cache=str(tmp_path)).complete(QUESTION)
    assert len(model_server.requests) == 2
    assert json.loads(file.read_text())["response"]["id"] == "chatcmpl-1"


def test_failures_are_not_cached(model_server: Server, tmp_path: Path) -> None:
    model_server.plays(model_server.status(500, Retry_After="0"), "ok")
    assert model(model_server, cache=str(tmp_path)).complete(QUESTION).text == "ok"
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_servers_of_this_machine_are_cached_on_request_only() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        assert cache_folder("auto", host) is None
        assert cache_folder("x", host) == Path("x")
    assert cache_folder("auto", "api.example.org") is not None
    assert cache_folder("off", "api.example.org") is None


def test_a_cache_that_cannot_be_written_is_named(model_server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--cache off"):
        model(model_server, cache=str(tmp_path / "file")).complete(QUESTION)


# --- crowds -----------------------------------------------------------------------------------


def test_a_server_that_takes_two_at_once_serves_a_crowd(model_server: Server) -> None:
    """Sixteen workers got 429 from each other until their retries were used up."""
    lock = threading.Lock()
    state = {"now": 0, "refused": 0}
    answer = model_server.answer("ok")
    refuse = model_server.status(429)

    def crowded(exchange: Any) -> None:
        with lock:
            free = state["now"] < 2
            state["now" if free else "refused"] += 1
        if not free:
            refuse(exchange)
            return
        time.sleep(0.05)
        with lock:
            state["now"] -= 1
        answer(exchange)

    model_server.plays(crowded)
    with ThreadPoolExecutor(16) as pool:
        replies = list(
            pool.map(lambda n: model(model_server, seed=n).complete(QUESTION), range(64))
        )
    assert {reply.text for reply in replies} == {"ok"}
    assert max(reply.retries for reply in replies) <= 5
    assert state["refused"] < 64  # fewer than one a request


def test_a_gate_narrows_once_for_requests_refused_together() -> None:
    gate = Gate()
    with gate.passing() as a, gate.passing() as b, gate.passing() as c, gate.passing() as d:
        for began in (a, b, c, d):
            gate.narrow(began, None)
        assert gate.limit == 2
    for _ in range(5):
        gate.widen()
    assert gate.limit == 3


def test_nobody_sends_while_a_server_asks_to_wait() -> None:
    gate = Gate()
    with gate.passing() as began:
        gate.narrow(began, 0.3)
    start = time.monotonic()
    with gate.passing():
        assert time.monotonic() - start >= 0.25
