"""What the environment says in its own words: the assignment, and what `render` shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from rcb_env.dataset.papers import Challenge
from rcb_env.dataset.parts import Part, parts
from rcb_env.env.actions import TOOLS, ToolCall
from rcb_env.env.feedback import TELLS
from rcb_env.env.settings import Rules, Shown
from rcb_env.env.state import EnvSnapshot

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def assignment(challenge: Challenge, region_lines: str, shown: Shown, rules: Rules) -> str:
    """The first observation of an episode.

    Args:
        challenge: what is to be solved.
        region_lines: where the region is, in words.
        shown: what may be told of it.
        rules: of the episode.
    """
    if challenge.is_open:
        return _open_assignment(challenge, region_lines, rules)
    if challenge.holes is not None:
        return _joint_assignment(challenge, shown, rules)
    reading = " read_paper shows it." if shown.with_paper else ""
    hint = f' "{challenge.hint}"' if shown.with_hint else ""
    names = ", ".join(challenge.defines) if shown.with_interface else ""
    defines = f"defines: {names} (later code reads this)\n" if names else ""
    return (
        f"Write the missing code{hint} of {challenge.file}. It belongs to the paper"
        f' "{challenge.paper.title}".{reading}\n'
        f"{defines}"
        f"The region to write is {region_lines}; now it holds a placeholder."
        f" About {challenge.lines} line(s) of code are missing, at an indent of"
        f" {len(challenge.region.indent)}. Only the region may change: other edits are"
        " refused.\n"
        "Act with one tool call per step, for instance"
        ' {"tool": "read_file", "arguments": {"path": "'
        f'{challenge.file}"}}}}. The tools: {", ".join(tool.name for tool in TOOLS)}.\n'
        f"You have {rules.max_steps} steps and {rules.max_test_runs} test runs; a wrong call"
        f" uses up a step. run_tests tells {TELLS[rules.feedback]}. submit ends the episode:"
        " the region is then tested with other inputs."
    )


def _joint_assignment(challenge: Challenge, shown: Shown, rules: Rules) -> str:
    reading = " read_paper shows it." if shown.with_paper else ""
    told = parts(challenge, with_hint=shown.with_hint, with_interface=shown.with_interface)
    what, opening = _joint_task(challenge, told)
    return (
        f'{opening} the paper "{challenge.paper.title}".{reading}\n'
        + "\n".join(f"- {_described(part)}" for part in told)
        + f"\nOnly the {what}s may change: other edits are refused.\n"
        f"write_region takes the code of one {what} or of several: begin the code of each with its line, such as"
        f" '{told[0].header}'; a {what} that is not named stays as it is.\n"
        "Act with one tool call per step, for instance"
        ' {"tool": "read_file", "arguments": {"path": "'
        f'{told[0].file}"}}}}. The tools: {", ".join(tool.name for tool in TOOLS)}.\n'
        f"You have {rules.max_steps} steps and {rules.max_test_runs} test runs; a wrong call"
        f" uses up a step. run_tests tests all {what}s together and tells {TELLS[rules.feedback]}. submit ends the"
        f" episode: the {what}s are then tested with other inputs."
    )


def _joint_task(challenge: Challenge, told: Sequence[Part]) -> tuple[str, str]:
    """What a part is called, and the beginning of an assignment."""
    count, lines = len(told), challenge.lines
    if told[0].whole:
        return "file", (
            f"Write {count} file(s), of which only the public surface is there: signatures, docstrings and names, which"
            f" other code counts on. They had {lines} lines in all. They belong to"
        )
    return "region", (
        f"Write {count} missing region(s), about {lines} line(s) of code in all. Now each of them holds a placeholder;"
        " what a region defines is read by other code. They belong to"
    )


def _described(part: Part) -> str:
    if part.whole:
        return f"{part.name}, {part.lines} lines"
    defines = f"; defines {', '.join(part.defines)}" if part.defines else ""
    place = f"{part.file} from line {part.line} on, about {part.lines} line(s)"
    return f"{part.name}: {place}, at an indent of {len(part.indent)}{defines}"


def _open_assignment(challenge: Challenge, region_lines: str, rules: Rules) -> str:
    return (
        "Do better than a paper. task.md says what is to be written and how it is measured: read it first."
        f' It belongs to the paper "{challenge.paper.title}".\n'
        f"The region to write is {region_lines}; now it holds a placeholder. Only the region may"
        " change: other edits are refused. In the score 0 is the paper's own method, more is better,"
        " and nobody knows how much can be had.\n"
        'Act with one tool call per step, for instance {"tool": "read_file", "arguments": {"path": "task.md"}}.'
        f" The tools: {', '.join(tool.name for tool in TOOLS)}.\n"
        f"You have {rules.max_steps} steps and {rules.max_test_runs} test runs; a wrong call uses up"
        " a step. run_tests measures the region on problems of its own. submit ends the episode: the"
        " region is then measured on other problems, and that is the score."
    )


def frame(state: EnvSnapshot | None, rules: Rules, challenge: Challenge | None) -> str:
    """The last step as a terminal may show it: what an agent wrote must not reach it as control sequences."""
    if state is None:
        return f"{challenge.id if challenge else 'rcb'}: no episode"
    heading = (
        f"{state.challenge}  step {state.steps}/{rules.max_steps}"
        f"  tests {state.test_runs}/{rules.max_test_runs}"
    )
    shown = "\n".join(filter(None, (heading, state.action, state.text)))
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", f"{shown}\n")


def show(text: str) -> None:
    """Print a text, whatever the terminal's encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()


def on_one_line(call: ToolCall | str, action: object) -> str:
    """An action; ``call`` is how it was understood."""
    if isinstance(call, str):
        return f"> {type(action).__name__}"
    arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"> {call.tool}({arguments[:200]}{'...' if len(arguments) > 200 else ''})"
