"""What the models are told, in our own words.

One prompt for a missing piece of code, and what is added to it after a try. `VERSION` changes with
every word, so that two runs with other prompts are never taken for the same experiment.
Not covered: the public benchmark's own prompt, quirks included; tool-using agents.
"""

from __future__ import annotations

import hashlib

from rcb_env import Task

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
- It has to work with the rest of the file as it is. About {lines} line(s) are enough.
- Answer with one block of code, fenced like this, and with nothing after it:

```python
{indent_shown}...
```
"""

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

VERSION = hashlib.sha256(
    "\0".join((_ROLE, _PAPER, _CODE, _GUIDELINES, _FAILED, _NO_CODE, _EARLIER)).encode()
).hexdigest()[:12]


def missing_code(task: Task, *, paper: bool) -> str:
    """The prompt for a task: role, paper, context files, the masked file, guidelines.

    Args:
        task: the task.
        paper: False leaves the paper out even where the task has it.
    """
    shown = {**task.context_files, task.file: task.masked_file}  # the masked file comes last
    first = task.masked.placeholder.split("\n", 1)[0]
    indent = first[: len(first) - len(first.lstrip())]
    parts = [
        _ROLE,
        _PAPER.format(paper=task.paper_text.strip()) if paper and task.paper_text else "",
        _CODE.format(
            file=task.file,
            indent_shown=indent,
            files="\n\n".join(
                f"## {path}\n\n{text.strip(chr(10))}" for path, text in shown.items()
            ),
        ),
        _GUIDELINES.format(
            indent=_in_words(indent), indent_shown=indent, lines=task.challenge.lines
        ),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part)


def after_failure(task: Task, result: str) -> str:
    """What follows a try whose tests did not pass."""
    return _FAILED.format(file=task.file, result=result.strip()).strip("\n")


def after_no_code(reason: str) -> str:
    """What follows a reply without code."""
    return _NO_CODE.format(reason=reason).strip("\n")


def earlier_try(code: str) -> str:
    """How a try is told to a model that does not remember it."""
    return _EARLIER.format(code=code.rstrip("\n")).strip("\n")


def _in_words(indent: str) -> str:
    if not indent:
        return "none"
    kind = "space" if set(indent) == {" "} else "tab" if set(indent) == {"\t"} else None
    if kind is None:
        return repr(indent)
    return f"{len(indent)} {kind}{'s' if len(indent) > 1 else ''}"
