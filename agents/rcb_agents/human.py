"""Play a challenge yourself, in a terminal or through a pipe.

One line is one call: ``read_file src/x.py 1 40``, ``run_tests``, or its short form. Code is written
with ``write``: all lines up to one that holds a single dot. The end of the input ends the episode;
what stands then is graded. Use it with ``--workers 1``.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, TextIO

from rcb_agents import joint_prompts
from rcb_env import TOOLS, Task, ToolCall, Turn

_SHORT = {
    "ls": "list_files",
    "read": "read_file",
    "paper": "read_paper",
    "test": "run_tests",
    "write": "write_region",
    "patch": "apply_patch",
}
_IN_BLOCKS = {"write_region": ("code",), "replace": ("old", "new"), "apply_patch": ("patch",)}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HELP = """\
ls [FOLDER]                 read FILE [FROM [TO]]      paper [FROM [TO]]     search PATTERN [WHERE]
write                       then the code, then a line with a single dot
replace [FILE]              then the old text, a dot, the new text, a dot
patch                       then a unified diff, then a dot
undo    test    submit      {"tool": NAME, "arguments": {...}} works as well
The end of the input (Ctrl-D) ends the episode; what stands then is graded."""


@dataclass(frozen=True)
class Human:
    """Asks on the standard output and reads the standard input."""

    name: ClassVar[str] = "human"
    uses_model: ClassVar[bool] = False
    uses_terminal: ClassVar[bool] = True

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Show the task, then line by line what is answered."""
        screen, keys = sys.stdout, sys.stdin
        hint = f' "{task.hint}"' if task.hint else ""
        if task.parts:
            _show(
                screen,
                f"{task.challenge.id}: write what is missing, each part below a line such as '{task.parts[0].header}'.\n",
            )
            _show(screen, f"{joint_prompts.listed(task)}\n")
        else:
            _show(screen, f"{task.challenge.id}: write the missing part{hint} of {task.file}.\n")
            if task.defines:
                _show(screen, f"Later code reads from it: {', '.join(task.defines)}.\n")
        files = "\n".join(task.masked_files.values())
        _show(screen, f"{files}\n{_HELP}")
        while True:
            screen.write("> ")
            screen.flush()
            line = keys.readline()
            if not line:
                return
            call = _call(line.strip(), keys)
            if isinstance(call, str):
                _show(screen, call)
                continue
            turn = yield call
            left = f"[{turn.steps_left} steps, {turn.test_runs_left} test runs left]"
            _show(screen, f"{turn.text}\n{left}")


def _call(line: str, keys: TextIO) -> ToolCall | str:
    """The call that a line asks for, with what follows it; or what to show instead."""
    if line.startswith("{"):
        try:
            wire = json.loads(line)
            return ToolCall(wire["tool"], wire.get("arguments") or {})
        except (ValueError, KeyError, TypeError) as error:
            return f"this is not a call: {error}"
    try:
        name, *values = shlex.split(line) or ["help"]
    except ValueError as error:
        return f"{error}; put quotes around texts with spaces"
    tool = {each.name: each for each in TOOLS}.get(_SHORT.get(name, name))
    if tool is None:
        return _HELP
    blocks = _IN_BLOCKS.get(tool.name, ())
    takes = [key for key in tool.parameters["properties"] if key not in blocks]
    if len(values) > len(takes):
        return f"{tool.name} takes {len(takes)} values on its line; `help` shows the forms"
    arguments: dict[str, Any] = {}
    for key, value in zip(takes, values, strict=False):
        number = tool.parameters["properties"][key]["type"] == "integer" and value.isdecimal()
        arguments[key] = int(value) if number else value
    arguments |= {key: _block(keys) for key in blocks}
    return ToolCall(tool.name, arguments)


def _block(keys: TextIO) -> str:
    lines: list[str] = []
    while (line := keys.readline()) and line.rstrip("\r\n") != ".":
        lines.append(line)
    return "".join(lines)


def _show(screen: TextIO, text: str) -> None:
    # A file may hold control sequences, which are not for a terminal.
    safe = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    encoding = screen.encoding or "utf-8"
    screen.write(safe.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    screen.flush()
