"""What came with a tool call goes back with it, under an id of its own, in its order: strict servers look."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from rcb_agents.replies import ToolRequest, with_own_ids

from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
RIGHT = "    return x * factor + 1\n"
LOOK = ("read_file", {"path": "src/small.py"})
WRITE = ("write_region", {"code": RIGHT})
SUBMIT: tuple[str, dict[str, Any]] = ("submit", {})
SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


def sent(server: Server, index: int = -1) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[index]["body"]["messages"]
    return messages


def call(name: str, arguments: Mapping[str, Any], call_id: object, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function, **more}


def strict(server: Server, wanted: Callable[[list[dict[str, Any]]], str], then: Any) -> Any:
    """A behaviour that refuses a conversation for what ``wanted`` says of it."""

    def play(exchange: Any) -> None:
        wrong = wanted(exchange.body.get("messages") or exchange.body.get("input"))
        (server.error(400, wrong) if wrong else then)(exchange)

    return play


# --- what came with a call --------------------------------------------------------------------


def test_a_thought_signature_goes_back_with_its_call(play: Play, model_server: Server) -> None:
    """Gemini refuses a function call that has lost it, so no episode got beyond its first call."""

    def wrong(messages: list[dict[str, Any]]) -> str:
        calls = [each for message in messages for each in message.get("tool_calls", ())]
        signed = [each for each in calls if each.get("extra_content") == SIGNED]
        return "" if len(signed) == 1 else "Function call is missing a thought_signature."

    first = [call(*LOOK, "a", extra_content=SIGNED), call("list_files", {}, "b")]
    last = model_server.calls(WRITE, SUBMIT)
    model_server.plays(model_server.calls(tool_calls=first), strict(model_server, wrong, last))
    episode, _ = play("tools", server=model_server)
    assert episode.status == "passed"


REASONING: list[dict[str, Any]] = [
    {"reasoning_content": "Hm."},
    {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2Vh"}]},
    {"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]},
    {"extra_content": SIGNED},
]


@pytest.mark.parametrize("came", REASONING)
def test_reasoning_goes_back_in_a_tool_loop(
    play: Play, model_server: Server, came: dict[str, Any]
) -> None:
    """DeepSeek, Kimi and hosts behind OpenRouter refuse a tool loop without it, or think anew."""

    def wrong(messages: list[dict[str, Any]]) -> str:
        turn = messages[1]
        return "" if came.items() <= turn.items() else "the reasoning must be passed back"

    last = model_server.calls(WRITE, SUBMIT)
    model_server.plays(model_server.calls(LOOK, **came), strict(model_server, wrong, last))
    episode, records = play("tools", server=model_server)
    assert episode.status == "passed"
    assert records.of("model_call")[0]["reply"]["came_with"]["message"] == came


@pytest.mark.parametrize("came", REASONING)
def test_reasoning_without_a_call_is_not_sent_back(
    play: Play, model_server: Server, came: dict[str, Any]
) -> None:
    """Some servers refuse a conversation that holds it."""
    wrong = f"```python\n{RIGHT.replace('+ 1', '')}```"
    model_server.plays(model_server.answer(wrong, **came), f"```python\n{RIGHT}```")
    episode, _ = play("repair", server=model_server)
    assert episode.status == "passed"
    assert sent(model_server)[1] == {"role": "assistant", "content": wrong}


def test_what_a_server_adds_for_readers_is_not_sent_back(play: Play, model_server: Server) -> None:
    more: dict[str, Any] = {
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "name": None,
    }
    model_server.plays(model_server.calls(LOOK, **more), model_server.calls(WRITE, SUBMIT))
    play("tools", server=model_server)
    assert set(sent(model_server)[1]) == {"role", "content", "tool_calls"}


def test_content_in_parts_goes_back_as_it_came(play: Play, model_server: Server) -> None:
    """Mistral's reasoning models put what they thought into the content, and want it there."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Let me look."},
    ]
    model_server.plays(model_server.calls(LOOK, text=parts), model_server.calls(WRITE, SUBMIT))
    _, records = play("tools", server=model_server)
    assert sent(model_server)[1]["content"] == parts
    reply = records.of("model_call")[0]["reply"]
    assert (reply["text"], reply["reasoning"]) == ("Let me look.", "Hm.")


@pytest.mark.parametrize(
    "no",
    [
        "property 'reasoning_content' is unsupported",
        "body.messages.1.assistant.reasoning_content: Extra inputs are not permitted",
    ],
)
def test_a_server_that_refuses_its_own_field_is_asked_without(
    play: Play, model_server: Server, no: str
) -> None:
    def wrong(messages: list[dict[str, Any]]) -> str:
        return no if any("reasoning_content" in message for message in messages) else ""

    last = model_server.calls(WRITE, SUBMIT)
    model_server.plays(
        model_server.calls(LOOK, reasoning_content="Hm."), strict(model_server, wrong, last)
    )
    episode, _ = play("tools", server=model_server)
    assert (episode.status, len(model_server.requests)) == ("passed", 3)


# --- ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [("", ""), (None, None), ("same", "same"), ("call00001", "")])
def test_every_call_has_an_id_of_its_own(play: Play, model_server: Server, ids: Any) -> None:
    """One id stood for every call, so that servers refused the answers or gave all to the first."""
    turns = [
        [call(*LOOK, ids[0]), call("list_files", {}, ids[1])],
        [call("read_paper", {}, ids[0]), call(*WRITE, ids[1])],
        [call("run_tests", {}, ids[0])],
        [call("submit", {}, ids[0])],
    ]
    model_server.plays(*(model_server.calls(tool_calls=turn) for turn in turns))
    episode, records = play("tools", server=model_server)
    assert episode.status == "passed"
    messages = sent(model_server)
    asked = [each["id"] for message in messages for each in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert asked == answered
    assert len(set(asked)) == len(asked) == 5
    recorded = [
        each["id"] for entry in records.of("model_call") for each in entry["reply"]["tool_calls"]
    ]
    assert recorded[:5] == asked


def test_ids_that_are_unique_already_stay() -> None:
    calls = [ToolRequest(name, "look", "{}") for name in ("a", "call00002", "a", "b")]
    assert [each.id for each in with_own_ids(calls, {"b"})] == [
        "a",
        "call00002",
        "call00003",
        "call00004",
    ]


# --- the responses API ------------------------------------------------------------------------


def thought(number: int) -> dict[str, Any]:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "c2Vh"}


def asked(name: str, arguments: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
    }


def said(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **more}


def named(items: list[dict[str, Any]]) -> list[str]:
    return [str(item.get("id") or item.get("call_id") or item.get("type")) for item in items]


def test_items_go_back_in_the_order_they_came(play: Play, model_server: Server) -> None:
    """All reasoning went back first, and the server missed the item that belongs to each."""
    output = [
        thought(1),
        asked(*LOOK, "a"),
        thought(2),
        said("And then.", phase="commentary"),
        asked("list_files", {}, "b"),
    ]
    model_server.plays(
        model_server.response(*output),
        model_server.response(asked(*WRITE, "c"), asked("submit", {}, "d")),
    )
    episode, _ = play("tools", server=model_server, settings={"api": "responses"})
    assert episode.status == "passed"
    items = model_server.requests[1]["body"]["input"][1:]
    assert named(items) == ["rs_1", "a", "rs_2", "message", "b", "a", "b"]
    assert items[0] == output[0]
    assert items[3]["phase"] == "commentary"
    assert [item["type"] for item in items[-2:]] == ["function_call_output"] * 2


def test_reasoning_whose_next_item_is_missing_is_not_sent_back(
    play: Play, model_server: Server
) -> None:
    """After a reply that was cut off in the middle of a thought the server refused all that followed."""
    model_server.plays(
        model_server.response(thought(1), asked(*LOOK, "a"), thought(2), status="incomplete"),
        model_server.response(thought(3), status="incomplete"),
        model_server.response(asked(*WRITE, "c"), asked("submit", {}, "d")),
    )
    episode, _ = play("tools", server=model_server, settings={"api": "responses"})
    assert episode.status == "passed"
    items = model_server.requests[2]["body"]["input"]
    assert named(items)[1:4] == ["rs_1", "a", "a"]
    assert not {"rs_2", "rs_3"} & set(named(items))


def test_calls_with_one_id_are_told_apart_there_too(play: Play, model_server: Server) -> None:
    model_server.plays(
        model_server.response(thought(1), asked(*LOOK, ""), asked("list_files", {}, "")),
        model_server.response(asked(*WRITE, ""), asked("submit", {}, "")),
    )
    episode, _ = play("tools", server=model_server, settings={"api": "responses"})
    assert episode.status == "passed"
    items = model_server.requests[1]["body"]["input"]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answers = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert calls == answers
    assert len(set(calls)) == 2


# --- empty turns ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, "", " \n"])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("agent", ["tools", "repair"])
def test_an_empty_turn_is_sent_back_as_words(
    play: Play, model_server: Server, text: str | None, api: str, agent: str
) -> None:
    """Servers refuse an assistant's message without content, and the episode was lost with it."""

    def wrong(messages: list[dict[str, Any]]) -> str:
        empty = [m for m in messages if "content" in m and not str(m["content"] or "").strip()]
        turns = [m for m in messages if m.get("role") == "assistant"]
        return "" if turns and not empty else "messages.1: text content must be non-empty"

    chat = api == "chat"
    answer = f"```python\n{RIGHT}```"
    if agent == "repair":
        last = model_server.answer(answer) if chat else model_server.response(said(answer))
    elif chat:
        last = model_server.calls(WRITE, SUBMIT)
    else:
        last = model_server.response(asked(*WRITE, "c"), asked("submit", {}, "d"))
    first = model_server.answer(text) if chat else model_server.response(said(text or ""))
    model_server.plays(first, strict(model_server, wrong, last))
    episode, _ = play(agent, server=model_server, settings={"api": api})
    assert episode.status == "passed"
