"""What the models are told, in our own words.

One prompt for a missing piece of code and what is added to it after a try; one for an agent that
acts by tools, and what it is told when it does not. `VERSION` changes with every word, those of the
tools' descriptions included, and is in run.json: two runs with other prompts are never taken for
the same experiment.
Not covered: a prompt like the public benchmark's (`official_prompt`); what is left out of a prompt that
is too long (`fitting`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rcb_agents import joint_prompts, official_prompt
from rcb_agents.joint_prompts import in_words
from rcb_env import Task, tool_schemas

_ROLE = "You are a researcher who turns papers into working Python code."

_PAPER = """
Here is the paper.

<paper>
{paper}
</paper>
"""

_CODE = """
Here is its code. One part of `{file}` is missing: the two comment lines that begin with
"{indent_shown}# TODO: Implement block" stand in its place.

{files}
"""

_GUIDELINES = """
Write the missing part.

- Only the code that takes the place of the two comment lines. Leave out everything that is already
  in the file, the line with `def` or `class` above it included.
- Your code starts at exactly the indentation of the TODO: {indent}.
- It has to work with the rest of the file as it is.{size}{read_later}
- Answer with one block of code, fenced like this, and with nothing after it:

```python
{indent_shown}...
```
"""

_ENOUGH = " About {lines} line(s) are enough."

_READ_LATER = "- Later code reads from it: {names}."

_FAILED = """
Your code was put into `{file}` and tested. The result:

{result}

Find out why, then write the whole missing part again, by the same rules.
"""

_NO_CODE = """
Your last reply had no code that could be used ({reason}).

Write the whole missing part again, by the same rules: one block fenced with ```python.
"""

_EARLIER = """
An earlier try was this:

```python
{code}
```
"""

_ACT = """
One part of `{file}` is missing{hint}. From line {line} on, two comment lines that begin with
"{indent_shown}# TODO: Implement block" stand in its place. Write the missing part{size} at an indentation of {indent}.{more}{read_later}

Act with the tools, one or more calls in each reply. Look at the file first. `write_region` puts your
code in the place of the two comment lines; only this region may change. `run_tests` tests what stands
there; the number of runs is limited. When you are done, call `submit`: the code is then tested with
other inputs, and nothing can be changed any more.
"""

_ABOUT = ": about {lines}\nline(s)"

_READ_PAPER = " `read_paper` shows the paper it comes from."

_NO_CALL = """
Your reply called no tool, so nothing was done. Call one of the tools: {tools}. If you are done, call
`submit`.
"""

_BAD_ARGUMENTS = "The arguments were not a JSON object ({why}); nothing was done."

_REPEATED = """
You have made the same calls {times} times now and the answers do not change. Do something else, or
call `submit`.
"""

_LEFT_OUT = "[Earlier calls and their answers are left out here.]"

_NOTHING = "[An empty reply.]"

_PLAN = """
Before you write the missing part, make a plan. Answer in at most twenty lines, without code:

1. What the missing part has to compute, from which equations or passages of the paper.
2. Which names of the code it uses, their shapes or types, and what it has to leave behind or return.
3. Special cases, and what is easy to get wrong.
4. How to find out whether it is right.
"""

_OFFICIAL = "\0".join(
    (official_prompt.TEMPLATE, official_prompt.WITH_PAPER, official_prompt.WITHOUT_PAPER)
)

_JOINT = joint_prompts.TEXTS

_PLANNED = """
This is the plan that was made for it after reading the paper:

{plan}
"""


def _version() -> str:
    texts = [value for name, value in sorted(globals().items()) if _is_prompt(name, value)]
    return hashlib.sha256("\0".join([*texts, json.dumps(tool_schemas())]).encode()).hexdigest()[:12]


def _is_prompt(name: str, value: object) -> bool:
    return name.startswith("_") and name.isupper() and isinstance(value, str)


VERSION = _version()


def missing_code(task: Task, paper: str, context: Mapping[str, str]) -> str:
    """The prompt for a task: role, paper, context files, the masked file, guidelines.

    Args:
        task: the task.
        paper: as much of the paper's text as is shown; "": none.
        context: as many of the context files as are shown.
    """
    if task.shown.protocol == "official":
        return official_prompt.missing_code(task, paper, context)
    if task.parts:
        return _joined(*_reading(task, paper, context), joint_prompts.guidelines(task))
    return _joined(
        *_reading(task, paper, context),
        _GUIDELINES.format(
            indent=in_words(_indent(task)),
            indent_shown=_indent(task),
            size=_size(task, _ENOUGH),
            read_later=_read_later(task, "\n"),
        ),
    )


def plan(task: Task, paper: str, context: Mapping[str, str]) -> str:
    """The prompt that asks for a plan; arguments as for `missing_code`."""
    told = _read_later(task) if not task.parts else joint_prompts.listed(task)
    return _joined(*_reading(task, paper, context), _PLAN, told)


def act(task: Task, paper: str, *, plan: str = "") -> str:
    """The first prompt of an agent that acts by tools.

    Args:
        task: the task.
        paper: what is shown of the paper at once; "": it has to be read by a tool.
        plan: what a planner has written; "": nothing.
    """
    more = _READ_PAPER if task.paper_shown == "full" and task.paper_text else ""
    planned = _PLANNED.format(plan=plan.strip()) if plan.strip() else ""
    opening = (_ROLE, _PAPER.format(paper=paper) if paper else "")
    if task.parts:
        return _joined(*opening, joint_prompts.act(task, more.strip()), planned)
    return _joined(
        *opening,
        _ACT.format(
            file=task.file,
            hint=f': "{task.hint}"' if task.hint else "",
            line=task.masked.before.count("\n") + 1,
            indent=in_words(_indent(task)),
            indent_shown=_indent(task),
            size=_size(task, _ABOUT),
            more=more,
            read_later=_read_later(task, "\n\n"),
        ),
        planned,
    )


def _size(task: Task, words: str) -> str:
    """How long the missing part is; of an open challenge nobody knows."""
    return "" if task.challenge.is_open else words.format(lines=task.challenge.lines)


def after_failure(task: Task, result: str) -> str:
    """What follows a try whose tests did not pass."""
    if task.parts:
        return joint_prompts.after_failure(result).strip("\n")
    return _FAILED.format(file=task.file, result=result.strip()).strip("\n")


def after_no_code(task: Task, reason: str) -> str:
    """What follows a reply without code."""
    if task.parts:
        return joint_prompts.after_no_code(task, reason).strip("\n")
    return _NO_CODE.format(reason=reason).strip("\n")


def earlier_try(code: str) -> str:
    """How a try is told to a model that does not remember it."""
    return _EARLIER.format(code=code.rstrip("\n")).strip("\n")


def after_no_call(tools: list[str]) -> str:
    """What follows a reply that called no tool."""
    return _NO_CALL.format(tools=", ".join(tools)).strip("\n")


def after_bad_arguments(why: str) -> str:
    """The answer to a call whose arguments cannot be read."""
    return _BAD_ARGUMENTS.format(why=why)


def after_repeating(times: int) -> str:
    """What follows the same calls with the same answers."""
    return _REPEATED.format(times=times).strip("\n")


def in_place_of_history() -> str:
    """What stands where earlier messages are left out."""
    return _LEFT_OUT


def in_place_of_nothing() -> str:
    """What stands in the conversation for a reply without text and calls."""
    return _NOTHING


def _reading(task: Task, paper: str, context: Mapping[str, str]) -> tuple[str, ...]:
    opening = (_ROLE, _PAPER.format(paper=paper) if paper else "")
    if task.parts:
        return (*opening, joint_prompts.code(task, context))
    shown = {**context, task.file: task.masked_file}  # the masked file comes last
    return (
        *opening,
        _CODE.format(
            file=task.file,
            indent_shown=_indent(task),
            files="\n\n".join(
                f"## {path}\n\n{text.strip(chr(10))}" for path, text in shown.items()
            ),
        ),
    )


def _read_later(task: Task, before: str = "") -> str:
    """The line on what the missing part has to define, after ``before``; "" where there is nothing to say."""
    if not task.defines:
        return ""
    return before + _READ_LATER.format(names=", ".join(f"`{name}`" for name in task.defines))


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part)


def _indent(task: Task) -> str:
    first = task.masked.placeholder.split("\n", 1)[0]
    return first[: len(first) - len(first.lstrip())]
