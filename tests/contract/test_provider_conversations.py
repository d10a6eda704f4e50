"""A conversation with tools, reasoning and errors of each provider, replayed by a server as strict as the real one."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
HERE = Path(__file__).parent
CONVERSATIONS = {path.stem: path for path in sorted((HERE / "conversations").glob("*.yaml"))}
KEY = "sk-of-nobody-0123456789"


def _refusal_of() -> Callable[[str, Mapping[str, Any], list[Mapping[str, Any]]], str]:
    spec = importlib.util.spec_from_file_location("strict_servers", HERE / "strict_servers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., str] = module.refusal_of
    return found


refusal_of = _refusal_of()


def replay(server: Server, provider: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Make a server play a provider's conversation; what was taken is in the list that comes with it."""
    told = yaml.safe_load(CONVERSATIONS[provider].read_text("utf-8"))
    replies = list(told["replies"])
    given: list[Mapping[str, Any]] = []
    taken: list[dict[str, Any]] = []

    def answer(exchange: Any) -> None:
        request = server.requests[-1]
        wrong = refusal_of(provider, request, given)
        if wrong:
            exchange.send(
                400, {"error": {"message": wrong, "code": 400, "type": "invalid_request_error"}}
            )
            return
        reply = replies.pop(0)
        taken.append({"request": request, "before": list(given)})
        if reply["status"] == 200:
            given.append(reply["body"])
        exchange.send(reply["status"], reply["body"], reply.get("headers"))

    server.plays(answer)
    return told, taken


def act(
    play: Play, server: Server, provider: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], list[dict[str, Any]], Episode, Any]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told, taken = replay(server, provider)
    address = f"{server.origin}/v1beta" if told["api"] == "google" else server.url
    settings = {"api": told["api"], "base_url": address, "max_wait_s": 1.0, **told["settings"]}
    episode, records = play("tools", server=server, settings=settings)
    return told, taken, episode, records


@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_a_conversation_with_tools_comes_to_its_end(
    play: Play, model_server: Server, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors are waited for, what came with a call goes back with it, and every token is counted."""
    told, taken, episode, records = act(play, model_server, provider, monkeypatch)
    assert (episode.status, episode.end_reason) == ("passed", "submitted")
    assert len(taken) == len(told["replies"])
    assert records.tools[:2] == ["read_file", "list_files"]
    assert records.tools[-2:] == ["write_region", "submit"]
    assert episode.usage.cached_tokens == told["usage"]["cached_tokens"]
    for name, value in told["usage"].items():
        assert getattr(episode.usage, name) == pytest.approx(value)
    assert KEY not in json.dumps(records.kept)


def test_every_family_has_a_conversation_of_tools_reasoning_and_errors() -> None:
    families = ("openai", "google", "xai", "deepseek", "openrouter", "anthropic")
    assert {name.partition("-")[0] for name in CONVERSATIONS} == {*families}
    for name, path in CONVERSATIONS.items():
        told = yaml.safe_load(path.read_text("utf-8"))
        good = [json.dumps(each["body"]) for each in told["replies"] if each["status"] == 200]
        said = "".join(good)
        assert any(call in said for call in ("tool_calls", "tool_use", "function")), name
        assert told["usage"]["reasoning_tokens"] > 0 or "thinking" in said, name
        assert len(good) < len(told["replies"]) or '"error"' in said, name


# --- the server is as strict as it claims -----------------------------------------------------


def _last_calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the calls of a conversation stand."""
    turns = (
        body.get("messages")
        or body.get("contents")
        or [{"role": "assistant", "parts": body["input"]}]
    )
    (said, *_) = [turn for turn in turns if turn["role"] in ("assistant", "model")]
    found: list[dict[str, Any]] = said.get("tool_calls") or said.get("parts") or said["content"]
    return found


def without_an_answer(body: dict[str, Any]) -> None:
    for turn in body.get("messages") or body.get("contents") or ():
        parts = turn.get("parts") or turn["content"]
        if isinstance(parts, list) and any(
            "functionResponse" in p or "tool_use_id" in p for p in parts
        ):
            parts.pop(0)
            return
    turns = body.get("messages") or body["input"]
    del turns[-1]


def answers_first(body: dict[str, Any]) -> None:
    turns = body.get("messages") or body.get("contents") or body["input"]
    turns.insert(1, turns.pop())


def an_unknown_field(body: dict[str, Any]) -> None:
    body["came_with"] = {}


def without_what_came(body: dict[str, Any]) -> None:
    """Reasoning and signatures, in all their forms."""
    for turn in body.get("messages") or body.get("contents") or ():
        for name in ("reasoning_content", "reasoning", "reasoning_details"):
            turn.pop(name, None)
        parts = turn.get("parts") or turn["content"]
        if isinstance(parts, list):
            parts[:] = [part for part in parts if "thinking" not in str(part.get("type"))]
            for part in parts:
                part.pop("thoughtSignature", None)
    if "input" in body:
        body["input"] = [item for item in body["input"] if item.get("type") != "reasoning"]


def without_max_tokens(body: dict[str, Any]) -> None:
    del body["max_tokens"]


BREAKS = [
    *((provider, without_an_answer) for provider in CONVERSATIONS),
    *((provider, answers_first) for provider in CONVERSATIONS),
    *((provider, an_unknown_field) for provider in CONVERSATIONS),
    *((provider, without_what_came) for provider in CONVERSATIONS if provider != "openai"),
    ("anthropic", without_max_tokens),
]


@pytest.mark.parametrize(("provider", "breaks"), BREAKS)
def test_what_the_real_server_refuses_is_refused(
    play: Play,
    model_server: Server,
    provider: str,
    breaks: Callable[[dict[str, Any]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, taken, _, _ = act(play, model_server, provider, monkeypatch)
    second = next(each for each in taken if len(each["before"]) >= 1 and _answers(each))
    request = copy.deepcopy(second["request"])
    assert not refusal_of(provider, request, second["before"])
    breaks(request["body"])
    assert refusal_of(provider, request, second["before"])


def _answers(taken: Mapping[str, Any]) -> bool:
    """Whether a request holds the answers to calls."""
    text = json.dumps(taken["request"]["body"])
    kinds = ("tool_call_id", "tool_use_id", "functionResponse", "function_call_output")
    return any(kind in text for kind in kinds)
