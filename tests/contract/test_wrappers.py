"""The environment in other forms: texts, chats, budgets, windows, choices; alone and stacked."""

from __future__ import annotations

import copy
import importlib
import json
import re
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import DelayObservation, FrameStackObservation, TimeLimit

from rcb_env.env.actions import TOOLS, ToolCall, Unreadable, parse
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.feedback import FEEDBACK_LEVELS
from rcb_env.env.settings import Feedback
from rcb_env.env.spaces import ActionSpace
from rcb_env.errors import UsageError
from rcb_env.wrappers import (
    ChatMessages,
    DiscreteChoice,
    HistoryWindow,
    TokenBudget,
    ToolText,
)
from rcb_env.wrappers.chat import assistant
from rcb_env.wrappers.text import is_call, read_call, write_call

Env = gymnasium.Env[Any, Any]
LOOK = {"tool": "list_files", "arguments": {}}
SUBMIT = {"tool": "submit", "arguments": {}}


def base(**settings: Any) -> ResearchCodeEnv:
    return ResearchCodeEnv("DyT/forward", **settings)


def writing(code: str) -> dict[str, Any]:
    return {"tool": "write_region", "arguments": {"code": code}}


# --- texts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "call"),
    [
        (write_call(LOOK), LOOK),
        (f"Let me see.\n\n{write_call(LOOK)}\nDone.", LOOK),
        ('<tool_call>\n{"name": "list_files", "arguments": {}}\n</tool_call>', LOOK),
        ('<tool_call>{"tool": "list_files", "arguments": {}}', LOOK),
        (f"<think>{write_call(SUBMIT)}</think>{write_call(LOOK)}", LOOK),
        (f"what a template has opened{'</think>'}{write_call(LOOK)}", LOOK),
        (write_call(writing("'</think></tool_call><tool_call>'")),) * 2,
        (write_call(writing('a\nb "quoted" é 🙂 \\n')),) * 2,
        ('<tool_call>{"tool": "write_region", "arguments": {"code": "a\nb"}}</tool_call>',) * 2,
    ],
)
def test_a_reply_with_one_call_is_read(reply: str, call: Any) -> None:
    found = read_call(reply)
    assert isinstance(found, dict)
    if isinstance(call, str):
        assert not isinstance(parse(found), str)
    else:
        assert found == call
    assert is_call(reply)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "no tool call"),
        ("I think the code is fine.", "no tool call"),
        (write_call(LOOK) * 2, "2 tool calls"),
        ("<tool_call>{'tool': 'submit'}</tool_call>", "not JSON"),
        ('<tool_call>{"tool": "submit"</tool_call>', "not JSON"),
        ('<tool_call>{"tool": "submit"} and then</tool_call>', "comes </tool_call>"),
        ("<tool_call>[1]</tool_call>", "a JSON object, not list"),
        ("<tool_call>" + "[" * 100_000, "not JSON"),
        (f"<think>{write_call(SUBMIT)}</think>", "no tool call"),
    ],
)
def test_a_reply_without_one_call_is_told_why_and_uses_up_a_step(reply: str, says: str) -> None:
    found = read_call(reply)
    assert isinstance(found, Unreadable)
    assert says in found.reason
    env = ToolText(base())
    env.reset()
    text, reward, terminated, truncated, info = env.step(reply)
    assert says in text
    assert "49 steps" in text
    assert (reward, terminated, truncated, info["error"]) == (0.0, False, False, True)


def test_the_first_text_tells_every_tool_and_the_task() -> None:
    env = ToolText(base())
    text, _ = env.reset()
    for tool in TOOLS:
        assert f"- {tool.name}:" in text
    assert "Write the missing code" in text
    plain, _ = ToolText(base(), instruct=False).reset()
    assert text.endswith(plain)


def test_a_sampled_reply_is_a_valid_call() -> None:
    space = ToolText(base()).action_space
    space.seed(3)
    assert all(is_call(space.sample()) for _ in range(50))


# --- chat -------------------------------------------------------------------------------------


def test_calls_of_one_message_are_done_in_order_and_each_is_answered() -> None:
    env = ChatMessages(base())
    messages, _ = env.reset()
    assert [message["role"] for message in messages] == ["system", "user"]
    action = assistant(LOOK, id="a", content="Look, then read what is not there.")
    action["tool_calls"] += [
        {"id": "b", "function": {"name": "read_file", "arguments": '{"path": "nothing"}'}},
        {"id": "a", "function": {"name": "undo", "arguments": "{oops"}},
        {"function": {"name": "submit", "arguments": ""}},
        {"id": "c", "function": {"name": "list_files", "arguments": None}},
    ]
    given = copy.deepcopy(action)
    messages, reward, terminated, _, info = env.step(action)
    assert action == given
    assert terminated
    assert reward == 0.0
    assert info["verdict"]["status"] == "no_change"
    call, *answers = messages[2:]
    ids = [one["id"] for one in call["tool_calls"]]
    assert len(set(ids)) == 5
    assert [answer["tool_call_id"] for answer in answers] == ids
    assert "src/" in answers[0]["content"]
    assert "no such file" in answers[1]["content"]
    assert "not JSON" in answers[2]["content"]
    assert "Submitted" in answers[3]["content"]
    assert "not done" in answers[4]["content"]
    assert messages in env.observation_space
    json.dumps(messages)


@pytest.mark.parametrize("feedback", FEEDBACK_LEVELS)
def test_the_tools_are_valid_schemas_of_what_the_environment_takes(feedback: Feedback) -> None:
    # Not by `import`: it comes with mcp, and has no types.
    validator: Any = importlib.import_module("jsonschema").Draft202012Validator
    env = ChatMessages(base(feedback=feedback))
    env.reset()
    functions = {}
    for tool in json.loads(json.dumps(env.tools)):
        assert tool.keys() == {"type", "function"}
        assert tool["type"] == "function"
        assert tool["function"].keys() == {"name", "description", "parameters"}
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool["function"]["name"])
        assert tool["function"]["description"]
        validator.check_schema(tool["function"]["parameters"])
        assert tool["function"]["parameters"]["type"] == "object"
        functions[tool["function"]["name"]] = validator(tool["function"]["parameters"])
    assert len(functions) == len(env.tools)
    told = env.step({"tool_calls": [{"function": {"name": "?", "arguments": "{}"}}]})[0][-1]
    named = re.search("there is no tool '\\?'; the tools are (.*)", told["content"])
    assert named is not None
    assert named[1].split(", ") == list(functions)
    space = ActionSpace(0)
    for call in [space.sample() for _ in range(100)]:
        assert functions[call["tool"]].is_valid(call["arguments"])
        for odd in ({**call["arguments"], "odd": 1}, dict.fromkeys(call["arguments"], 0.5), {}):
            taken = isinstance(parse({"tool": call["tool"], "arguments": odd}), ToolCall)
            assert functions[call["tool"]].is_valid(odd) == taken


@pytest.mark.parametrize(
    "action",
    [
        "I am done.",
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "x", "tool_calls": []},
        {"role": "assistant", "tool_calls": "odd"},
        None,
        7,
        {"role": "assistant", "tool_calls": [None, 3, {"function": 4}]},
        {"tool_calls": [{"function": {"name": {}, "arguments": {"x": {1, 2}}}}]},
    ],
)
def test_an_odd_message_is_answered_and_the_conversation_stays_valid(action: Any) -> None:
    env = ChatMessages(base())
    env.reset()
    messages, _, terminated, truncated, info = env.step(action)
    assert info["error"]
    assert not terminated
    assert not truncated
    said = messages[2]
    assert said["role"] == "assistant"
    assert said["content"] is not None or said["tool_calls"]
    asked = [call["id"] for call in said.get("tool_calls", ())]
    assert [message.get("tool_call_id") for message in messages[3:]] == (asked or [None])
    json.dumps(messages)


def test_a_conversation_may_be_changed_by_the_caller() -> None:
    env = ChatMessages(base())
    messages, _ = env.reset()
    messages[1]["content"] = "changed"
    messages.clear()
    messages, *_ = env.step(assistant(LOOK, id="a"))
    assert "Write the missing code" in messages[1]["content"]


# --- limits -----------------------------------------------------------------------------------


def test_a_spent_token_budget_truncates_and_grades_what_is_there() -> None:
    env = TokenBudget(ToolText(base(reward="sparse:token_cost=0.001")), tokens=60)
    _, info = env.reset()
    assert info["tokens_left"] == 60
    cost = env.count(write_call(LOOK))
    _, reward, *_, info = env.step(write_call(LOOK))
    assert info["tokens_left"] == 60 - cost
    assert reward == pytest.approx(-0.001 * cost)
    long = write_call(writing("    # " + "many words " * 60))
    text, reward, terminated, truncated, info = env.step(long)
    assert (terminated, truncated) == (False, True)
    assert info["verdict"]["status"] == "no_change"
    assert "budget of tokens is spent" in text
    assert info["tokens_left"] == 0
    assert reward == pytest.approx(-0.001 * env.count(long))


@pytest.mark.parametrize("wrap", [lambda env: env, ToolText, ChatMessages, HistoryWindow])
def test_what_is_read_counts_too_where_it_was_asked_for(wrap: Any) -> None:
    actions = {ToolText: write_call(LOOK), ChatMessages: assistant(LOOK, id="a")}
    lefts = []
    for count in ("actions", "all"):
        env = TokenBudget(wrap(base()), tokens=100_000, count=count)
        lefts.append([env.reset()[1]["tokens_left"]])
        lefts[-1].append(env.step(actions.get(wrap, LOOK))[4]["tokens_left"])
    (first, then), (read, further) = lefts
    assert first == 100_000 > read > 98_000
    assert first > then > further > 95_000


def test_a_budget_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="tokens is 0"):
        TokenBudget(base(), 0)
    with pytest.raises(UsageError, match="encoding 'klingon'"):
        TokenBudget(base(), 1, encoding="klingon")
    with pytest.raises(UsageError, match="turns is 0"):
        HistoryWindow(base(), turns=0)
    with pytest.raises(UsageError, match="wraps rcb/Challenge-v0, not CartPole"):
        ToolText(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize("wrap", [lambda env: env, ToolText])
def test_a_window_shows_the_task_and_the_last_turns(wrap: Any) -> None:
    env = HistoryWindow(wrap(base()), turns=2)
    env.reset()
    for name in ("one", "two", "three"):
        call = {"tool": "read_file", "arguments": {"path": name}}
        observation, *_ = env.step(write_call(call) if wrap is ToolText else call)
        assert observation in env.observation_space
    text = observation if isinstance(observation, str) else observation["text"]
    assert "Write the missing code" in text
    assert "[1 earlier turn is left out]" in text
    assert "'one'" not in text
    assert text.index("'two'") < text.index("'three'")


def test_a_window_is_never_longer_than_it_may_be() -> None:
    env = HistoryWindow(base(), turns=50, max_chars=3000)
    env.reset()
    for number in range(12):
        observation, *_ = env.step({"tool": "search", "arguments": {"pattern": f"x{number}" * 60}})
        assert observation in env.observation_space
        assert len(observation["text"]) <= 3000
    assert "earlier turns are left out" in observation["text"]
    assert "x11x11" in observation["text"]


def test_a_window_on_a_conversation_keeps_calls_and_answers_together() -> None:
    env = HistoryWindow(ChatMessages(base()), turns=2)
    env.reset()
    for number in range(4):
        messages, *_ = env.step(assistant(LOOK, id=f"call_{number}"))
    roles = [message["role"] for message in messages]
    assert roles == ["system", "user", *["assistant", "tool"] * 2]
    assert messages[2]["tool_calls"][0]["id"] == messages[3]["tool_call_id"] == "call_2"


# --- choices ----------------------------------------------------------------------------------


def test_a_choice_writes_and_submits() -> None:
    env = base()
    codes = ["    pass\n", env.challenge.reference]
    choice = DiscreteChoice(env, codes)
    assert choice.action_space.n == 2  # type: ignore[attr-defined]
    rewards = []
    for number in range(2):
        choice.reset()
        _, reward, terminated, _, info = choice.step(number)
        assert terminated
        rewards.append((reward, info["verdict"]["status"]))
    assert rewards == [(0.0, "failed"), (1.0, "passed")]
    slow = DiscreteChoice(env, {"DyT/forward": codes}, submit=False)
    slow.reset()
    slow.step(0)
    assert slow.step(2)[4]["tests"]["status"] == "failed"
    slow.step(1)
    assert slow.step(3)[1] == 1.0
    with pytest.raises(UsageError, match="no action 4"):
        slow.step(4)
    with pytest.raises(UsageError, match="same number"):
        DiscreteChoice(env, {"a": ["x"], "b": []})
    with pytest.raises(UsageError, match="none for the challenge DyT/forward"):
        DiscreteChoice(env, {"a": ["x"]}).reset()


# --- stacks -----------------------------------------------------------------------------------

STACKS: dict[str, Any] = {
    "text": lambda env: TokenBudget(HistoryWindow(ToolText(env), turns=3), tokens=5_000),
    "chat": lambda env: TokenBudget(HistoryWindow(ChatMessages(env), turns=3), tokens=5_000),
    "calls": lambda env: TokenBudget(HistoryWindow(env, turns=3), tokens=5_000),
    "choice": lambda env: DiscreteChoice(
        HistoryWindow(env, turns=3), ["    pass\n", "    x = 1\n", "    y = 2\n"], submit=False
    ),
}


@pytest.mark.parametrize("stack", STACKS)
def test_a_fork_and_a_snapshot_of_a_stack_have_the_future_of_the_original(stack: str) -> None:
    env = STACKS[stack](base(max_test_runs=0))
    env.reset(seed=0)
    env.action_space.seed(1)
    past, future = ([env.action_space.sample() for _ in range(4)] for _ in range(2))
    future = [action for action in future if action != 4]
    for action in past:
        if env.step(action)[2]:
            env.reset(seed=0)
    kept = env.snapshot()
    twins = [env.fork(), copy.deepcopy(env), STACKS[stack](base(max_test_runs=0))]
    again = twins[2].restore(kept)
    seen = env.restore(kept)
    assert again == seen

    def play(one: Env) -> list[Any]:
        results: list[Any] = []
        for action in future:
            results.append(one.step(action))
            if results[-1][2] or results[-1][3]:
                break
        return results

    results = play(env)
    assert all(play(twin) == results for twin in twins)
    env.restore(kept)
    assert play(env) == results


@pytest.mark.parametrize("stack", STACKS)
def test_the_specification_of_a_stack_goes_through_json(stack: str) -> None:
    env = STACKS[stack](gymnasium.make("rcb/Challenge-v0", challenge="DyT/forward"))
    assert env.spec is not None
    twin = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert twin.spec == env.spec
    assert twin.reset(seed=1) == env.reset(seed=1)


def test_a_foreign_wrapper_in_between_is_named_when_a_fork_is_asked_for() -> None:
    env = ToolText(TimeLimit(base(), 9))
    env.reset()
    env.restore(env.snapshot())
    with pytest.raises(TypeError, match=r"restore takes what snapshot\(\) .*, not EnvSnapshot"):
        env.restore(env.inside.snapshot())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="TimeLimit cannot be forked"):
        env.fork()


@pytest.mark.parametrize("wrap", [lambda env: env, ToolText, ChatMessages])
def test_gymnasiums_wrappers_that_keep_observations_take_texts_and_conversations(wrap: Any) -> None:
    """They asked for a zero of the space, which none of ours had."""
    inside = wrap(base())
    first, _ = inside.reset(seed=1)
    delayed = DelayObservation(wrap(base()), delay=1)
    nothing, _ = delayed.reset(seed=1)
    assert nothing in delayed.observation_space
    assert nothing != first
    assert delayed.step(LOOK)[0] == first
    for padding in ("reset", "zero"):
        stacked = FrameStackObservation(wrap(base()), 2, padding_type=padding)
        start, _ = stacked.reset(seed=1)
        then, *_ = stacked.step(LOOK)
        assert start in stacked.observation_space
        assert then in stacked.observation_space
        texts = then["text"] if isinstance(then, dict) else then
        assert texts[0] == (first["text"] if isinstance(first, dict) else first)
        assert texts[1] != texts[0]
