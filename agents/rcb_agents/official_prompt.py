"""A prompt built as the public benchmark builds its own, for ``--protocol official``. Off by default.

Same parts in the same order, and the same quirks, which are part of what the published numbers
measured: the lines of context files are joined without line breaks; each line of the placeholder is
followed by an empty line; of a paper with several files that have challenges only the masked one is
shown; the paper is there whole. Without the paper there is another opening.

The wording is ours: the public text carries no licence to repeat it. Scores by this prompt are
therefore close to, and not the same experiment as, the published ones.
Not covered: how code is found in the reply (``--extractor official``).
"""

from __future__ import annotations

from collections.abc import Mapping

from rcb_env import Task

TEMPLATE = """\
{opening}

Complete this code:
{code}

Write the code that is missing where the TODO comment stands. Keep to these rules:

1. Give only the code that takes the place of the TODO comment.
2. Start at exactly the indentation of the TODO comment.
3. Repeat nothing that surrounds it, no line with `def` or `class` either.
4. The code must be complete and run as it is.
5. If there is a paper above, the code must do what the paper says.
6. Put the code between a line ```python and a line ```.

For instance, where this is to be completed:
```python
class Circle:
    def area(self):
        if self.radius > 0:
            # TODO: Implement block "area"
            # Approximately 2 line(s) of code.
```

the answer keeps the 12 spaces of the TODO comment:
```python
            area = math.pi * self.radius ** 2
            return area
```
"""

WITH_PAPER = """\
You turn papers into working research code.

This is the paper to work from:
{paper}
"""

WITHOUT_PAPER = "You complete research code.\n"


def missing_code(task: Task, paper: str, context: Mapping[str, str]) -> str:
    """The prompt for a task.

    Args:
        task: the task.
        paper: as much of the paper's text as is shown; "": none.
        context: the context files that are shown.
    """
    if paper == task.paper_text.strip():
        paper = task.paper_text  # byte for byte, where nothing had to be left out
    opening = WITH_PAPER.replace("{paper}", paper) if paper else WITHOUT_PAPER
    # Not `format`: papers and code are full of braces.
    before, _, after = TEMPLATE.partition("{code}")
    return before.replace("{opening}", opening) + _code(task, context) + after


def _code(task: Task, context: Mapping[str, str]) -> str:
    flat = "".join(
        f"## {path}\n\n{''.join(text.splitlines())}\n\n" for path, text in context.items()
    )
    masked = task.masked
    lines = [
        *_readable(masked.before).splitlines(),
        *(f"{line}\n" for line in masked.placeholder.splitlines()),
        *_readable(masked.after).splitlines(),
    ]
    return flat + "\n".join(lines)


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
