"""What the models are told where several parts of a paper's code are missing; `prompts` puts it together with the rest."""

from __future__ import annotations

from collections.abc import Mapping

from rcb_env import Task

_CODE = """
Here is its code. {count} parts of it are missing: two comment lines that begin with
"# TODO: Implement block" stand in the place of each.

{files}
"""

_LIBRARY = """
Here is its code. Of {count} files only the public surface is there: signatures, docstrings and names.
Where a body is missing stands `raise NotImplementedError`.

{files}
"""

_LIBRARY_GUIDELINES = """
Write these files:

{parts}

- Each file whole, from its first line to its last, with everything that its surface names: other code
  and hidden tests count on it. Helpers of your own are welcome.
- It has to work with the rest of the code as it is.
- Answer with one block of code for each file, fenced like this. The first line of a block names its file:

```python
{header}
...
```
"""

_GUIDELINES = """
Write all missing parts:

{parts}

- Only the code that takes the place of the two comment lines. Leave out everything that is already
  in the file, a line with `def` or `class` above them included.
- The code of a part starts at exactly the indentation of its TODO.
- It has to work with the rest of the code as it is.
- Answer with one block of code for each part, fenced like this. The first line of a block names its part:

```python
{header}
{indent}...
```
"""

_FAILED = """
Your code was put into its places and tested. The result:

{result}

Find out why, then write the parts that have to change again, by the same rules. A part that you leave
out stays as it is.
"""

_NO_CODE = """
Your last reply had no code that could be used ({reason}).

Write the missing parts again, by the same rules: a block fenced with ```python for each, and the line
that names it, such as `{header}`, as its first line.
"""

_HOLES = """{count} parts of the code are missing. In the place of each stand two comment lines that begin with
"# TODO: Implement block":"""

_SURFACES = """Of {count} files only the public surface is there: signatures, docstrings and names, which other code
counts on. Where a body is missing stands `raise NotImplementedError`. Write these files:"""

_ACT = """
{missing}

{parts}
{more}

Act with the tools, one or more calls in each reply. Look at the files first. `write_region` puts your
code in the place of a part: begin the code with the line that names it, for instance
`{header}`. One call may hold several parts, each below such a line; a part that is not named
stays as it is. `replace` needs the `path` of the file. Only these parts may change. `run_tests` tests
all of them together; the number of runs is limited. When you are done, call `submit`: the code is then
tested with other inputs, and nothing can be changed any more.
"""

_PART = "- {name}: `{file}` from line {line} on, about {lines} line(s) at an indentation of {indent}{read_later}"

_READ_LATER = ". Other code reads from it: {names}"

_FILE = "- `{file}`, {lines} lines"

TEXTS = "\0".join(
    (
        *(_CODE, _LIBRARY, _GUIDELINES, _LIBRARY_GUIDELINES, _FAILED, _NO_CODE),
        *(_HOLES, _SURFACES, _ACT, _PART, _READ_LATER, _FILE),
    )
)
"""All words, for the version of the prompts."""


def code(task: Task, context: Mapping[str, str]) -> str:
    """The files of a prompt, the masked ones last."""
    shown = {**context, **task.masked_files}
    files = "\n\n".join(f"## {path}\n\n{text.strip(chr(10))}" for path, text in shown.items())
    words = _LIBRARY if task.parts[0].whole else _CODE
    return words.format(count=len(task.parts), files=files)


def guidelines(task: Task) -> str:
    """What is to be written, and how to answer."""
    first = task.parts[0]
    words = _LIBRARY_GUIDELINES if first.whole else _GUIDELINES
    return words.format(parts=listed(task), header=first.header, indent=first.indent)


def act(task: Task, more: str) -> str:
    """What an agent that acts by tools is told of its task."""
    missing = missing_parts(task)
    return _ACT.format(missing=missing, parts=listed(task), header=task.parts[0].header, more=more)


def missing_parts(task: Task) -> str:
    """What is missing, in a sentence before the list of it."""
    words = _SURFACES if task.parts[0].whole else _HOLES
    return words.format(count=len(task.parts))


def after_failure(result: str) -> str:
    """What follows a try whose tests did not pass."""
    return _FAILED.format(result=result.strip())


def after_no_code(task: Task, reason: str) -> str:
    """What follows a reply without code."""
    return _NO_CODE.format(reason=reason, header=task.parts[0].header)


def listed(task: Task) -> str:
    """The missing parts, a line each."""
    if task.parts[0].whole:
        return "\n".join(_FILE.format(file=part.file, lines=part.lines) for part in task.parts)
    return "\n".join(
        _PART.format(
            name=part.name,
            file=part.file,
            line=part.line,
            lines=part.lines,
            indent=in_words(part.indent),
            read_later=_READ_LATER.format(names=", ".join(f"`{name}`" for name in part.defines))
            if part.defines
            else "",
        )
        for part in task.parts
    )


def in_words(indent: str) -> str:
    """An indentation in words."""
    if not indent:
        return "none"
    kind = "space" if set(indent) == {" "} else "tab" if set(indent) == {"\t"} else None
    if kind is None:
        return repr(indent)
    return f"{len(indent)} {kind}{'s' if len(indent) > 1 else ''}"
