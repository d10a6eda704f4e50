"""Tools, their schemas, the check of a call, and the two spaces."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete
from gymnasium.vector.utils import batch_space, create_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.env.actions import TOOLS, ToolCall, parse, tool_schemas
from rcb_env.env.spaces import ActionSpace, TextSpace

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from([tool.name for tool in TOOLS]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


def error_of(action: object) -> str:
    found = parse(action)
    assert isinstance(found, str)
    return found


def test_a_valid_call_comes_back_with_its_arguments() -> None:
    call = parse({"tool": "read_file", "arguments": {"path": "src/x.py", "start": 1, "end": 40}})
    assert call == ToolCall("read_file", {"path": "src/x.py", "start": 1, "end": 40})
    assert isinstance(call, ToolCall)
    assert parse(call) == call
    assert parse(call.to_dict()) == call


@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "bash", "Edit", "", "x" * 9999])
def test_an_unknown_tool_is_called_unknown_and_the_valid_ones_are_listed(name: str) -> None:
    """Case C057: told that its *arguments* were bad, a model retried a made-up tool for ever."""
    two_calls = {"tool_uses": [{"tool": "submit"}, {"tool": "undo"}]}
    error = error_of({"tool": name, "arguments": two_calls})
    assert "no tool" in error
    assert all(tool.name in error for tool in TOOLS)
    assert len(error) < 400


@pytest.mark.parametrize("action", ["I would now read the file.", None, 7, [], b"x", {}, [{}]])
def test_what_is_no_call_at_all_says_what_an_action_looks_like(action: object) -> None:
    assert '"tool"' in error_of(action)


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("read_file", {}, "'path'"),
        ("read_file", {"path": None}, "'path'"),
        ("read_file", {"path": 3}, "'path'"),
        ("read_file", {"path": "x", "start": "1"}, "'start'"),
        ("read_file", {"path": "x", "start": True}, "'start'"),
        ("read_file", {"path": "x", "start": 1.5}, "'start'"),
        ("read_file", {"path": "x", "start": float("nan")}, "'start'"),
        ("read_file", {"path": "x", "start": float("inf")}, "'start'"),
        ("read_file", {"path": "x", "end": 0}, "'end'"),
        ("read_file", {"path": "x", "end": 10**5000}, "'end'"),
        ("read_file", {"path": "x", "line": 3}, "'line'"),
        ("submit", {"code": "x"}, "'code'"),
        ("write_region", {"code": "x" * 200_001}, "'code'"),
        ("replace", {"old": "x"}, "'new'"),
        ("undo", {10**5000: 1}, "int"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    tool: str, arguments: dict[Any, Any], named: str
) -> None:
    error = error_of({"tool": tool, "arguments": arguments})
    assert named in error
    assert error.startswith(tool)


def test_null_stands_for_an_argument_left_out_and_whole_floats_are_integers() -> None:
    found = parse({"tool": "read_file", "arguments": {"path": "x", "start": None, "end": 4.0}})
    assert found == ToolCall("read_file", {"path": "x", "end": 4})
    assert parse({"tool": "undo"}) == parse({"tool": "undo", "arguments": None})
    numpy = parse({"tool": "read_paper", "arguments": {"start": np.int64(3)}})
    assert isinstance(numpy, ToolCall)
    assert type(numpy.arguments["start"]) is int


@given(ANYTHING)
def test_parse_never_raises(action: object) -> None:
    assert isinstance(parse(action), ToolCall | str)


@given(
    st.fixed_dictionaries(
        {"tool": st.sampled_from([tool.name for tool in TOOLS])},
        optional={
            "arguments": st.dictionaries(
                st.sampled_from(["path", "start", "end", "code", "old", "new", "patch"]), ANYTHING
            )
        },
    )
)
def test_parse_never_raises_on_what_is_nearly_a_call(action: dict[str, Any]) -> None:
    found = parse(action)
    assert isinstance(found, ToolCall | str)
    assert (action in ActionSpace()) == isinstance(found, ToolCall)


def test_the_schemas_are_function_tools_and_can_be_changed_freely() -> None:
    schemas = tool_schemas()
    assert [schema["function"]["name"] for schema in schemas] == [tool.name for tool in TOOLS]
    json.dumps(schemas)
    schemas[0]["function"]["parameters"]["properties"].clear()
    assert tool_schemas()[0]["function"]["parameters"]["properties"]


@given(st.integers(0, 2**32))
def test_every_sampled_action_is_in_the_space_and_depends_on_the_seed_alone(seed: int) -> None:
    space, again = ActionSpace(seed), ActionSpace(seed)
    for _ in range(5):
        action = space.sample()
        assert action in space
        assert action == again.sample()
        assert json.loads(json.dumps(action)) == action


def test_samples_reach_every_tool() -> None:
    space = ActionSpace(0)
    assert {space.sample()["tool"] for _ in range(500)} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("text", ["", "a\nb", " ", "\t", "é", "∇", "🙂", "\x00", "\r\n", "x" * 50])
def test_every_text_up_to_the_length_is_in_the_space(text: str) -> None:
    """Case C063: the stock text space holds no newline, blank, empty or non-ASCII text."""
    assert text in TextSpace(50)


def test_what_is_too_long_or_no_text_is_not_in_the_space() -> None:
    assert "x" * 51 not in TextSpace(50)
    assert "\ud800" not in TextSpace(50)
    assert 3 not in TextSpace(50)


@given(st.text(st.characters(codec=None), max_size=300), st.integers(1, 200))
def test_a_clipped_text_is_in_the_space(text: str, length: int) -> None:
    space = TextSpace(length)
    clipped = space.clip(text)
    assert clipped in space
    if text in space:
        assert clipped == text


def test_a_cut_text_says_how_much_is_shown() -> None:
    clipped = TextSpace(100).clip("x" * 5000)
    assert len(clipped) <= 100
    assert "of 5000 characters are shown" in clipped


def test_a_byte_that_is_no_utf8_is_shown_by_its_value() -> None:
    text = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert TextSpace(50).clip(text) == r"caf\xe9"


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_every_sampled_text_is_in_the_space(seed: int, length: int) -> None:
    space = TextSpace(length, seed)
    assert space.sample() in space


def test_the_spaces_can_be_batched_pickled_and_compared_but_not_put_in_shared_memory() -> None:
    """A text in shared memory would be cut to a fixed size without a word; it must be refused."""
    observations = Dict({"text": TextSpace(100), "steps_left": Discrete(5)})
    assert pickle.loads(pickle.dumps(observations)) == observations
    assert ActionSpace() == ActionSpace()
    assert TextSpace(100) != TextSpace(101)
    assert batch_space(ActionSpace(), 2).sample()[0] in ActionSpace()
    assert batch_space(observations, 2).sample() in batch_space(observations, 2)
    with pytest.raises(ValueError, match="add shared_memory=False"):
        create_shared_memory(observations, n=2)
    with pytest.raises(ValueError, match="mask"):
        ActionSpace().sample(mask=np.ones(3, np.int8))
