"""The tools an agent has: their schemas, and the check of a call.

An action is ``{"tool": "read_file", "arguments": {"path": "src/x.py", "start": 1, "end": 40}}``, or
the `ToolCall` that `parse` makes of it.

Guarantees: `parse` never raises, whatever it is given; what it returns is either a call whose
arguments have the declared names and types, or one line for the agent that names what is wrong.
Not covered: what a call does (`rcb_env.env.workspace`, `rcb_env.env.acting`); whether a path exists.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

MAX_CODE_CHARS = 200_000  # of one text argument; a region is at most some hundred lines
MAX_PATH_CHARS = 1_000
MAX_PATTERN_CHARS = 500
MAX_LINE_NUMBER = 1_000_000_000

_SHOWN_CHARS = 80  # of a name that is repeated in an error


@dataclass(frozen=True)
class Tool:
    """One tool, as it is offered to an agent.

    Attributes:
        parameters: JSON schema of the arguments: an object with string and integer properties.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class ToolCall:
    """A call of one tool. As an action it is checked like any other; nothing is checked here."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {"tool": self.tool, "arguments": dict(self.arguments)}


@dataclass(frozen=True)
class Unreadable:
    """Takes the place of an action where an agent's reply holds none.

    Wrappers hand it to the environment: it is answered with the reason and uses up a step.
    """

    reason: str
    """One line for the agent."""


@dataclass(frozen=True)
class OutOfBudget:
    """Takes the place of an action where a budget of a wrapper is gone: the episode is truncated.

    What is there is graded.
    """

    budget: str
    """What is spent, such as "tokens"."""


def _text(description: str, max_chars: int) -> dict[str, Any]:
    return {"type": "string", "description": description, "maxLength": max_chars}


def _line(description: str) -> dict[str, Any]:
    return {
        "type": "integer",
        "description": description,
        "minimum": 1,
        "maximum": MAX_LINE_NUMBER,
    }


def _tool(
    name: str, description: str, required: tuple[str, ...] = (), **properties: dict[str, Any]
) -> Tool:
    return Tool(
        name,
        description,
        {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        },
    )


TOOLS: tuple[Tool, ...] = (
    _tool(
        "list_files",
        "List the files of the workspace, or of one folder.",
        path=_text("a folder, such as src", MAX_PATH_CHARS),
    ),
    _tool(
        "read_file",
        "Read a file, or some of its lines. Each line is shown with its number and a tab.",
        ("path",),
        path=_text("the file, such as src/model.py", MAX_PATH_CHARS),
        start=_line("first line, from 1; default: the first"),
        end=_line("last line, included; default: the last"),
    ),
    _tool(
        "search",
        "Find the lines that match a regular expression.",
        ("pattern",),
        pattern=_text(
            "a regular expression, matched against one line at a time", MAX_PATTERN_CHARS
        ),
        path=_text("a file or a folder; default: all files", MAX_PATH_CHARS),
    ),
    _tool(
        "read_paper",
        "Read the paper, or some of its lines.",
        start=_line("first line, from 1; default: the first"),
        end=_line("last line, included; default: the last"),
    ),
    _tool(
        "write_region",
        "Replace the whole region by this code.",
        ("code",),
        code=_text("all lines of the region, with the region's indentation", MAX_CODE_CHARS),
    ),
    _tool(
        "replace",
        "Replace a text that occurs exactly once in the file. Only the region may change.",
        ("old", "new"),
        old=_text("the text as it stands in the file, without line numbers", MAX_CODE_CHARS),
        new=_text("the text to put there, taken literally", MAX_CODE_CHARS),
        path=_text("the file; default: the region's file", MAX_PATH_CHARS),
    ),
    _tool(
        "apply_patch",
        "Apply a unified diff of the region's file. Only the region may change.",
        ("patch",),
        patch=_text("the diff, with ---, +++ and @@ lines", MAX_CODE_CHARS),
    ),
    _tool("undo", "Take back the last edit."),
    _tool("run_tests", "Run the tests on the region as it stands. The number of runs is limited."),
    _tool("submit", "Hand in the region as it stands. This ends the episode."),
)

_BY_NAME = {tool.name: tool for tool in TOOLS}
_NAMES = ", ".join(_BY_NAME)


def tool_schemas() -> list[dict[str, Any]]:
    """The tools as OpenAI function tools, a fresh copy each time."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": copy.deepcopy(dict(tool.parameters)),
            },
        }
        for tool in TOOLS
    ]


def parse(action: object) -> ToolCall | str:
    """Check an action.

    Args:
        action: anything; a valid one is a dict in wire form or a `ToolCall`.

    Returns:
        The call, with exact types (str, int) and without arguments that are None; or the error to
        show to the agent.
    """
    name: object
    arguments: object
    if isinstance(action, Unreadable):
        return action.reason
    if isinstance(action, ToolCall):
        name, arguments = action.tool, action.arguments
        if isinstance(arguments, Mapping):
            arguments = dict(arguments)
    elif isinstance(action, dict):
        unexpected = [key for key in action if key not in ("tool", "arguments")]
        if "tool" not in action or unexpected:
            what = f"the key {_shown(unexpected[0])}" if unexpected else 'no key "tool"'
            return f'an action has the keys "tool" and "arguments"; this one has {what}'
        name, arguments = action["tool"], action.get("arguments")
    else:
        return (
            'an action is {"tool": NAME, "arguments": {...}},'
            f" not {_kind(action)}; the tools are {_NAMES}"
        )
    tool = _BY_NAME.get(name) if isinstance(name, str) else None
    if tool is None:
        return f"there is no tool {_shown(name)}; the tools are {_NAMES}"
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return f"{tool.name}: arguments must be an object, not {_kind(arguments)}"
    return _check_arguments(tool, arguments)


def _check_arguments(tool: Tool, arguments: Mapping[Any, Any]) -> ToolCall | str:
    properties = tool.parameters["properties"]
    for key in arguments:
        if not isinstance(key, str) or key not in properties:
            takes = f"its arguments are {', '.join(properties)}" if properties else "it takes none"
            return f"{tool.name}: there is no argument {_shown(key)}; {takes}"
    checked: dict[str, Any] = {}
    for key, schema in properties.items():
        value = arguments.get(key)
        if value is None:
            # Some models send null for what they leave out.
            if key in tool.parameters["required"]:
                return f"{tool.name}: the argument {key!r} ({schema['type']}) is missing"
            continue
        if schema["type"] == "string":
            if not isinstance(value, str):
                return f"{tool.name}: the argument {key!r} must be a string, not {_kind(value)}"
            if len(value) > schema["maxLength"]:
                return (
                    f"{tool.name}: the argument {key!r} has {len(value)} characters; at most"
                    f" {schema['maxLength']} are allowed"
                )
            checked[key] = str(value)
            continue
        number = _as_integer(value)
        if number is None:
            return f"{tool.name}: the argument {key!r} must be an integer, not {_kind(value)}"
        if not schema["minimum"] <= number <= schema["maximum"]:
            # The number itself is not repeated: Python refuses to print one with 5000 digits.
            return (
                f"{tool.name}: the argument {key!r} must be at least {schema['minimum']} and at"
                f" most {schema['maximum']}"
            )
        checked[key] = number
    return ToolCall(tool.name, checked)


def _as_integer(value: object) -> int | None:
    """An integer as JSON understands it: 3 and 3.0, but no booleans."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def _shown(name: object) -> str:
    if not isinstance(name, str):
        return f"of type {_kind(name)}"
    return repr(str(name) if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "...")


def _kind(value: object) -> str:
    return "null" if value is None else f"a value of type {type(value).__name__}"
