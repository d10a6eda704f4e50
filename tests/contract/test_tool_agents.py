"""Agents that act by tools: scripted models behind a real HTTP server, real boxes, every end."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rcb_env.env.actions import TOOLS
from rcb_env.env.settings import Budgets, PaperShown, Shown
from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
RIGHT = "    return x * factor + 1\n"
WRONG = "    return x * factor\n"
WRITE = ("write_region", {"code": RIGHT})
LOOK = ("read_file", {"path": "src/small.py"})


def sent(server: Server, index: int = -1) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[index]["body"]["messages"]
    return messages


def on_record(records: Any) -> list[dict[str, Any]]:
    """The conversation as the trajectory tells it."""
    messages: list[dict[str, Any]] = []
    for call in records.of("model_call"):
        assert call["earlier_messages"] == len(messages)
        messages += call["messages"]
        if "reply" in call:
            messages.append({"role": "assistant", "content": call["reply"]["text"]})
    return messages


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Every answer follows its call, and every call has its answer."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting


# --- a model that solves it -------------------------------------------------------------------


def test_a_model_solves_it_by_tools(play: Play, model_server: Server) -> None:
    model_server.plays(
        model_server.calls(("list_files", {}), LOOK),
        model_server.calls(WRITE, ("run_tests", {}), text="Now I know."),
        model_server.calls(("submit", {})),
    )
    episode, records = play("tools", server=model_server)
    assert (episode.status, episode.end_reason) == ("passed", "submitted")
    assert records.tools == ["list_files", "read_file", "write_region", "run_tests", "submit"]
    assert (episode.usage.calls, episode.test_runs) == (3, 1)
    last = sent(model_server)
    assert [message["role"] for message in last] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "tool")
    ]
    check_pairs(last)
    steps = records.of("step")
    assert [message["content"] for message in last if message["role"] == "tool"] == [
        step["text"] for step in steps[:-1]
    ]
    offered = model_server.requests[0]["body"]["tools"]
    assert [tool["function"]["name"] for tool in offered] == [tool.name for tool in TOOLS]


def test_every_message_is_on_disk(play: Play, model_server: Server) -> None:
    model_server.plays(
        model_server.calls(LOOK),
        "Hm.",
        model_server.calls(WRITE),
        model_server.calls(("submit", {})),
    )
    _, records = play("tools", server=model_server)
    recorded = on_record(records)
    assert [message["role"] for message in recorded] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant")
    ]
    for kept, message in zip(recorded, sent(model_server), strict=False):
        assert kept["content"] == (message["content"] or "")
    replies = [call["reply"]["tool_calls"] for call in records.of("model_call")]
    assert [len(calls) for calls in replies] == [1, 0, 1, 1]
    assert json.loads(replies[2][0]["arguments"]) == {"code": RIGHT}


def test_the_responses_api_does_the_same(play: Play, model_server: Server) -> None:
    def call(name: str, arguments: Mapping[str, Any], call_id: str) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": name,
            "arguments": json.dumps(arguments),
        }

    unsealed = {"type": "reasoning", "id": "rs_0", "summary": []}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"}
    model_server.plays(
        model_server.response(unsealed, thought, call(*LOOK, "a")),
        model_server.response(call(*WRITE, "b"), call("submit", {}, "c")),
    )
    episode, _ = play("tools", server=model_server, settings={"api": "responses"})
    assert (episode.status, episode.usage.reasoning_tokens) == ("passed", 10)
    first, second = model_server.requests
    assert first["path"] == "/v1/responses"
    assert first["body"]["tools"][0]["name"] == "list_files"
    assert [item.get("type") or item["role"] for item in second["body"]["input"]] == [
        *("user", "reasoning", "function_call", "function_call_output")
    ]
    assert second["body"]["input"][1] == thought  # a reasoning model goes on where it was
    assert second["body"]["input"][3]["call_id"] == "a"
    assert first["body"]["include"] == ["reasoning.encrypted_content"]
    assert second["body"]["store"] is False


# --- ends that are not the right one ----------------------------------------------------------


@pytest.mark.parametrize(("written", "status"), [(False, "invalid"), (True, "passed")])
def test_a_model_that_loops_is_told_and_then_stopped(
    play: Play, model_server: Server, written: bool, status: str
) -> None:
    first = model_server.calls(WRITE if written else LOOK)
    model_server.plays(first, model_server.calls(("list_files", {})))
    episode, _ = play("tools", server=model_server)
    assert (episode.status, episode.end_reason) == (status, "stuck")
    assert episode.usage.calls == 7  # of the same call six
    assert "made the same calls 3 times" in sent(model_server)[-5]["content"]
    check_pairs(sent(model_server))


def test_a_model_that_never_submits_is_graded_as_it_stands(
    play: Play, model_server: Server
) -> None:
    lines = itertools.count(1)
    replies = [model_server.calls(WRITE)] + [
        model_server.calls(("read_file", {"path": "src/small.py", "end": next(lines)}))
        for _ in range(20)
    ]
    model_server.plays(*replies)
    episode, _ = play("tools", server=model_server, max_steps=9)
    assert (episode.status, episode.end_reason, episode.steps) == ("passed", "steps_spent", 9)


@pytest.mark.parametrize(
    "reply",
    [
        {"text": "I shall now read the file."},
        {"text": ""},
        {"text": None, "reasoning_content": "Thinking.", "finish": "length"},
        {"calls": [("read_file", '{"path": ')]},
        {"calls": [("read_file", "[1]")]},
        {"calls": [("submit", '"now"')]},
        {"calls": [("", ""), ("", {})]},
    ],
)
def test_garbage_ends_after_some_patience(
    play: Play, model_server: Server, reply: dict[str, Any]
) -> None:
    """Case C055 too: content that is null, or reasoning alone, is no crash."""
    calls = reply.pop("calls", None)
    model_server.plays(
        model_server.calls(*calls) if calls else model_server.answer(**reply),
    )
    episode, records = play("tools", server=model_server)
    assert (episode.status, episode.end_reason) == ("invalid", "format_errors")
    assert episode.usage.calls == 4
    assert episode.steps == 4 * len(calls or "1")  # each of them used up a step
    assert all(step["error"] for step in records.of("step"))
    assert len(on_record(records)) == len(sent(model_server)) + 1


def test_garbage_now_and_then_is_forgiven(play: Play, model_server: Server) -> None:
    replies = ["Hm.", "Hm.", "Hm.", model_server.calls(LOOK)] * 2
    model_server.plays(*replies, model_server.calls(WRITE, ("submit", {})))
    assert play("tools", server=model_server)[0].passed


def test_malformed_arguments_are_answered_with_the_reason(play: Play, model_server: Server) -> None:
    model_server.plays(
        model_server.calls(("read_file", '{"path": "src/small.py"')),
        model_server.calls(WRITE, ("submit", "")),
    )
    episode, _ = play("tools", server=model_server)
    assert episode.passed
    assistant, answer = sent(model_server)[-2:]
    assert "not a JSON object" in answer["content"]
    assert "Expecting" in answer["content"]
    # Servers refuse a conversation that holds arguments which are no JSON.
    assert assistant["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "bash", "Edit", ""])
def test_an_unknown_tool_is_answered_with_the_known_ones(
    play: Play, model_server: Server, name: str
) -> None:
    """Case C057: a made-up name was reported as bad parameters, so the model kept to it for ever.

    The answer names it, every try is a step, and the end is the limit of steps.
    """
    inside = {"tool_uses": [{"recipient_name": "functions.submit", "parameters": {}}] * 2}
    model_server.plays(model_server.calls((name, inside)))
    episode, records = play("tools:format_errors=99,repeats=99", server=model_server, max_steps=5)
    assert (episode.status, episode.end_reason, episode.steps) == ("no_change", "steps_spent", 5)
    (assistant, answer) = sent(model_server)[-2:]
    assert f"there is no tool {name!r}" in answer["content"]
    for tool in TOOLS:
        assert tool.name in answer["content"]
    assert re.fullmatch(r"[A-Za-z0-9_-]+", assistant["tool_calls"][0]["function"]["name"])
    assert records.of("model_call")[0]["reply"]["tool_calls"][0]["name"] == name


def test_after_a_submit_among_other_calls_nothing_is_done(play: Play, model_server: Server) -> None:
    """Case C057: the calls after it changed what had been handed in."""
    model_server.plays(
        model_server.calls(WRITE, ("submit", {}), ("write_region", {"code": WRONG}), LOOK)
    )
    episode, records = play("tools", server=model_server)
    assert (episode.status, episode.code) == ("passed", RIGHT)
    assert records.tools == ["write_region", "submit"]
    assert episode.usage.calls == 1


def test_a_refusal_ends_the_episode(play: Play, model_server: Server) -> None:
    """Case C055: the words of the refusal are in a field of their own."""
    model_server.plays(model_server.answer(None, refusal="No."))
    episode, _ = play("tools", server=model_server)
    assert (episode.status, episode.end_reason, episode.error) == ("invalid", "refused", "No.")


def test_a_budget_of_tokens_ends_it_as_it_stands(play: Play, model_server: Server) -> None:
    large = {"prompt_tokens": 50_000, "completion_tokens": 5}
    model_server.plays(model_server.calls(WRITE), model_server.calls(LOOK, usage=large))
    episode, _ = play("tools", server=model_server, budgets=Budgets(tokens=40_000))
    assert (episode.status, episode.end_reason) == ("passed", "tokens_spent")
    assert episode.usage.calls == 2


# --- history ----------------------------------------------------------------------------------


def test_an_overflow_leaves_out_the_oldest_rounds(play: Play, model_server: Server) -> None:
    """Case C059: the window is not known before the server says that it is full."""
    full = model_server.error(400, "prompt is too long: 9 tokens > 8 maximum")
    model_server.plays(
        model_server.calls(("list_files", {})),
        model_server.calls(LOOK, ("read_paper", {})),
        model_server.calls(WRITE),
        full,
        model_server.calls(("submit", {})),
    )
    episode, records = play("tools", server=model_server)
    assert (episode.status, episode.end_reason) == ("passed", "submitted")
    check_pairs(sent(model_server))
    refused, again = sent(model_server, -2), sent(model_server)
    assert again[1:] == refused[3:]  # one round of three is gone: a call and its answer
    assert "left out" in again[0]["content"]
    calls = records.of("model_call")
    assert "context_exceeded" in calls[-2]["error"]
    assert (calls[-2]["left_out"], calls[-1]["left_out"]) == ([], [1, 3])


def test_an_overflow_that_cannot_be_helped_grades_the_work(
    play: Play, model_server: Server
) -> None:
    """Case C059: the work so far is graded and the reason of the end is stored."""
    full = model_server.error(400, "Too long.", code="context_length_exceeded")
    model_server.plays(model_server.calls(WRITE), full)
    episode, _ = play("tools", server=model_server)
    assert (episode.status, episode.end_reason) == ("passed", "context_exceeded")


def test_a_known_window_is_kept_by_leaving_out_whole_rounds(
    play: Play, model_server: Server
) -> None:
    window = 2_400
    replies = [
        model_server.calls(
            ("read_file", {"path": "src/small.py", "end": 3 + number % 5}),
            ("search", {"pattern": f"factor{number}" + "x" * 300}),
        )
        for number in range(16)
    ]
    model_server.plays(*replies, model_server.calls(WRITE, ("submit", {})))
    settings = {"context_tokens": window, "max_tokens": 300}
    episode, records = play("tools", server=model_server, settings=settings, max_steps=80)
    assert episode.passed
    assert len(sent(model_server)) < 16 * 3
    for index in range(len(model_server.requests)):
        check_pairs(sent(model_server, index))
        chars = sum(len(json.dumps(message)) for message in sent(model_server, index))
        assert chars < 5 * window
    assert [call["left_out"] for call in records.of("model_call")][-1][0] == 1


# --- the planner ------------------------------------------------------------------------------


def test_a_planner_reads_first_and_acts_by_its_plan(play: Play, model_server: Server) -> None:
    model_server.plays("1. Multiply, add one.", model_server.calls(WRITE, ("submit", {})))
    episode, records = play("plan", server=model_server)
    assert episode.passed
    planning, acting = (request["body"] for request in model_server.requests)
    assert "tools" not in planning
    assert "Multiply {x} by the factor" in planning["messages"][0]["content"]
    assert "TODO: Implement block" in planning["messages"][0]["content"]
    assert "1. Multiply, add one." in acting["messages"][0]["content"]
    assert len(acting["messages"]) == 1
    assert records.of("model_call")[0]["stage"] == "plan"


# --- what is shown ----------------------------------------------------------------------------


@pytest.mark.parametrize("paper", ["none", "sections"])
def test_without_the_whole_paper_there_is_no_tool_to_read_it(
    play: Play, model_server: Server, paper: PaperShown
) -> None:
    model_server.plays(model_server.calls(("submit", {})))
    play("tools", server=model_server, task={"shown": Shown(paper=paper)}, paper=paper)
    body = model_server.requests[0]["body"]
    assert "read_paper" not in json.dumps(body)
    assert ("Multiply {x}" in body["messages"][0]["content"]) == (paper == "sections")


@pytest.mark.parametrize("agent", ["tools", "plan", "single-shot", "repair", "best-of-n"])
def test_without_the_hint_no_agent_sees_it(play: Play, model_server: Server, agent: str) -> None:
    model_server.plays(
        model_server.calls(LOOK, text=f"```python\n{WRONG}```"),
        model_server.calls(("submit", {}), text=f"```python\n{RIGHT}```"),
    )
    episode, _ = play(
        agent,
        server=model_server,
        task={"shown": Shown(with_hint=False)},
        with_hint=False,
        max_steps=4,
    )
    assert episode.status in ("passed", "failed", "no_change")
    for request in model_server.requests:
        assert "TODO: Implement block" in json.dumps(request["body"])
        assert 'block "scale"' not in str(request["body"])
