"""Text from anywhere, as it may stand in a page: plain, as code, as a difference, as Markdown.

Models, tested code and whoever sent the run wrote it.

Guarantees: characters that control something or turn the direction of text are shown as escapes; everything is escaped for
HTML; a text of any length costs bounded time, since what is longer than a limit is cut and counted.
Not covered: what a browser may do with a page (`guard.py`).
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from rcb_env.report.printable import printable

MOST_CHARS = 20_000  # of one text in a page
_MOST_LINES = 2_000  # of a text that is compared line by line
# What is not seen, or turns what is: joiners, marks of direction, separators, the byte order mark.
_UNSEEN = re.compile("[\u061c\u200b-\u200f\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb]")


def plain(value: object) -> str:
    """A text without anything that works unseen."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", printable(str(value)))


@dataclass(frozen=True)
class Cut:
    """The beginning of a text."""

    text: str
    more: int
    """Characters that are left out."""


def cut(value: object, most: int = MOST_CHARS) -> Cut:
    """A text of at most so many characters, and how many are left out."""
    text = value if isinstance(value, str) else _json(value)
    return Cut(plain(text[:most]), max(0, len(text) - most))


def as_json(value: object, most: int = MOST_CHARS) -> Cut:
    """A JSON-like value, laid out; strings that are long are cut one by one, so that the rest is seen."""
    return cut(_json(_shortened(value)), most)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _shortened(value: Any, most: int = 4_000) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]} [{len(value) - most} more]"
    if isinstance(value, dict):
        return {str(name)[:200]: _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return value


def code(text: str) -> Markup:
    """Python code with its parts marked by classes; plain where it is too long for that."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    shown = plain(text)
    if len(shown) > MOST_CHARS or max(map(len, shown.split("\n")), default=0) > 1_000:
        return Markup.escape(shown)
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    made = highlight(shown, lexer, HtmlFormatter(nowrap=True))  # which escapes, and ends the line
    return Markup(made if shown.endswith("\n") else made.removesuffix("\n"))


def markdown(text: str) -> Markup:
    """Markdown as HTML; HTML inside it stays text, and pictures become links."""
    return Markup(_markdown().render(plain(text)))


@functools.cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


Kind = Literal["same", "gone", "new", "changed", "skipped"]


@dataclass(frozen=True)
class Line:
    """A line of a difference; side by side, each of its halves may be missing."""

    kind: Kind
    before: int | None
    """Its number on the left, from 1."""
    after: int | None
    left: str = ""
    right: str = ""


@dataclass(frozen=True)
class Difference:
    """What became of a text, line by line."""

    lines: tuple[Line, ...]
    added: int
    removed: int


def difference(before: str, after: str, *, context: int | None = None) -> Difference | None:
    """What differs between two texts, removed lines before the added ones.

    Args:
        before: the first one.
        after: the other one.
        context: lines around a change that are shown; None: all.

    Returns:
        None: they are too long to be compared line by line.
    """
    a, b = _split(before), _split(after)
    if a is None or b is None:
        return None
    lines: list[Line] = []
    for tag, first, last, start, end in _opcodes(a, b):
        if tag == "equal":
            same = [
                Line("same", one + 1, other + 1, a[one], b[other])
                for one, other in zip(range(first, last), range(start, end), strict=True)
            ]
            lines += _around(same, context, at_start=not lines, at_end=last == len(a))
            continue
        lines += [Line("gone", one + 1, None, a[one]) for one in range(first, last)]
        lines += [Line("new", None, one + 1, right=b[one]) for one in range(start, end)]
    return Difference(
        tuple(lines),
        added=sum(line.kind == "new" for line in lines),
        removed=sum(line.kind == "gone" for line in lines),
    )


def side_by_side(before: str, after: str) -> tuple[Line, ...] | None:
    """Two texts beside each other, changed lines in one row; None: they are too long for that."""
    a, b = _split(before), _split(after)
    if a is None or b is None:
        return None
    rows: list[Line] = []
    for tag, first, last, start, end in _opcodes(a, b):
        kind: Kind = "same" if tag == "equal" else "changed"
        for row in range(max(last - first, end - start)):
            one = first + row if first + row < last else None
            other = start + row if start + row < end else None
            rows.append(
                Line(
                    kind,
                    None if one is None else one + 1,
                    None if other is None else other + 1,
                    "" if one is None else a[one],
                    "" if other is None else b[other],
                )
            )
    return tuple(rows)


def _split(text: str) -> list[str] | None:
    if len(text) > 10 * MOST_CHARS:
        return None
    lines = plain(text).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines if len(lines) <= _MOST_LINES else None


def _opcodes(a: Sequence[str], b: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()


def _around(
    same: Sequence[Line], context: int | None, *, at_start: bool, at_end: bool
) -> list[Line]:
    if context is None:
        return list(same)
    head, tail = (0 if at_start else context), (0 if at_end else context)
    if len(same) <= head + tail + 1:
        return list(same)
    skipped = Line("skipped", None, None, f"{len(same) - head - tail} lines that are the same")
    return [*same[:head], skipped, *(same[-tail:] if tail else ())]
