"""Edits of one text: literal replacement and re-indentation. Pure functions.

Guarantees: bytes an edit does not mean to change stay as they are, line ends and tabs included; an
edit that does not fit in exactly one way changes nothing and raises `EditError` with a text for the
agent.
Not covered: diffs (`rcb_env.env.patches`); which part of a file may change at all (`rcb_env.env.workspace`).
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SURROGATE = re.compile(
    "[\ud800-\udfff]"
)  # from bytes that are no UTF-8; the tokenizer refuses them
_WORD = re.compile(r"\w+|[^\w\s]")
_SHOWN_LINES = 6
_SHOWN_LINE_CHARS = 300
_COMPARED_LINES = 20


class EditError(ValueError):
    """An edit that cannot be made; the text is for the agent."""


def lines_of(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends a line."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def without_end(line: str) -> str:
    """A line without its LF or CRLF."""
    return line.removesuffix("\n").removesuffix("\r")


def numbered(lines: Iterable[str], first: int) -> str:
    """Lines as they are shown: number, tab, line; ``first`` is the number of the first."""
    return "\n".join(f"{first + n}\t{without_end(line)}" for n, line in enumerate(lines))


# --- literal replacement ----------------------------------------------------------------------


def replace_once(text: str, old: str, new: str, newline: str) -> str:
    r"""``text`` with its only ``old`` replaced by ``new``.

    A line feed in ``old`` also matches CRLF. Nothing in ``new`` has a special meaning. Lines that
    ``old`` and ``new`` share at their start and end keep their bytes; the others get ``newline``,
    or, where that is "" (mixed), the line end that stands in the replaced text.

    Raises:
        EditError: ``old`` is empty, equal to ``new``, or does not occur exactly once.
    """
    if not old:
        raise EditError("replace: 'old' is empty; give the text that is to be replaced")
    if old == new:
        raise EditError("replace: 'old' and 'new' are equal, so nothing would change")
    places = _occurrences(text, old)
    if not places:
        raise EditError(f"replace: 'old' does not occur{nearest(lines_of(text), lines_of(old))}")
    if len(places) > 1:
        lines = [str(text.count("\n", 0, start) + 1) for start, _ in places]
        raise EditError(
            f"replace: 'old' occurs {len(places)} times, on lines {', '.join(lines)};"
            " add lines around it until it occurs once"
        )
    start, end = places[0]
    return text[:start] + _rewritten(text[start:end], new, newline) + text[end:]


def _occurrences(text: str, old: str) -> list[tuple[int, int]]:
    """Start and end of every match, overlapping ones included."""
    parts = old.replace("\r\n", "\n").split("\n")
    # Not `\r?\n`: that would find a match twice, once with and once without the \r it begins with.
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, parts)))
    found: list[tuple[int, int]] = []
    match = pattern.search(text)
    while match:
        found.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return found


def _rewritten(matched: str, new: str, newline: str) -> str:
    before, after = lines_of(matched), lines_of(new)
    same = [
        len(_common(before, after)),
        len(_common(reversed(before), reversed(after))),
    ]
    head = same[0]
    tail = min(same[1], len(before) - head, len(after) - head)
    end = newline or ("\r\n" if "\r\n" in matched else "\n")
    middle = (
        without_end(line) + end if line.endswith("\n") else line
        for line in after[head : len(after) - tail]
    )
    return "".join([*before[:head], *middle, *before[len(before) - tail :]])


def _common(first: Iterable[str], second: Iterable[str]) -> list[str]:
    common = []
    for one, other in zip(first, second, strict=False):
        if one.replace("\r\n", "\n") != other.replace("\r\n", "\n"):
            break
        common.append(one)
    return common


# --- re-indentation ---------------------------------------------------------------------------


def reindented(code: str, indent: str) -> str | None:
    """``code`` moved as a whole so that its statements start at ``indent``.

    Only white space in front of lines changes, and never inside a string. Two mistakes of models
    are mended: all lines at another indent, and a first line that lost its indent.

    Returns:
        The moved code; None if it stands at ``indent`` already, or if moving it is not plainly
        right (it does not tokenize, or leaves the block it starts in).
    """
    shape = _shape(code)
    if shape is not None and shape.indent == indent:
        return None
    if shape is None:
        if code[:1].isspace() or not indent:
            return None
        mended = indent + code
        shape = _shape(mended)
        return mended if shape is not None and shape.indent == indent else None
    moved = []
    for number, line in enumerate(code.split("\n")):
        if number in shape.inside_strings or not line.strip():
            moved.append(line)
        elif line.startswith(shape.indent):
            moved.append(indent + line[len(shape.indent) :])
        else:  # a comment or the rest of a bracket, further left than the statements
            moved.append(indent + line.lstrip())
    return "\n".join(moved)


@dataclass(frozen=True)
class _Shape:
    indent: str  # of the first statement; no statement stands further left
    inside_strings: frozenset[int]  # 0-based numbers of lines that begin inside a string


def _shape(code: str) -> _Shape | None:
    """How a block of code is indented; None if that is not sound by itself."""
    lines = code.split("\n")
    inside: set[int] = set()
    indent: str | None = None
    expects_block = at_start = True
    opened: list[int] = []
    last = ""
    string_start = getattr(tokenize, "FSTRING_START", -1)
    string_end = getattr(tokenize, "FSTRING_END", -1)
    try:
        for token in tokenize.generate_tokens(io.StringIO(_SURROGATE.sub("?", code)).readline):
            if token.type == tokenize.ERRORTOKEN:
                return None
            if token.type == tokenize.STRING:
                inside.update(range(token.start[0], token.end[0]))
            elif token.type == string_start:
                opened.append(token.start[0])
            elif token.type == string_end:
                inside.update(range(opened.pop(), token.end[0]))
            if token.type == tokenize.NEWLINE:
                at_start, expects_block, last = True, last == ":", ""
            elif token.type == tokenize.INDENT:
                if not expects_block:
                    return None  # Python: unexpected indent
                expects_block = False
            elif token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.DEDENT):
                if token.type == tokenize.ENDMARKER:
                    break
                if at_start:
                    if indent is None:
                        row, column = token.start
                        indent = lines[row - 1][:column]
                    elif expects_block:
                        return None  # Python: expected an indented block
                    elif not lines[token.start[0] - 1].startswith(indent):
                        return None
                at_start, expects_block = False, False
                last = token.string
    except (tokenize.TokenError, SyntaxError, IndexError):
        return None
    return None if indent is None or indent.strip() else _Shape(indent, frozenset(inside))


# --- what an agent may have meant -------------------------------------------------------------


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The part of ``lines`` most like ``wanted``, as the end of a message; "" if nothing is."""
    have = [set(_WORD.findall(line)) for line in lines]
    want = [set(_WORD.findall(line)) for line in wanted[:_COMPARED_LINES]]
    best, place = 0.0, 0
    for start in range(len(have)):
        score = sum(
            len(mine & theirs) / len(mine | theirs)
            for mine, theirs in zip(want, have[start : start + len(want)], strict=False)
            if mine and theirs
        )
        if score > best:
            best, place = score, start
    if best < 0.3 or best < 0.2 * len(want):
        return ""
    shown = lines[place : place + min(len(wanted), _SHOWN_LINES)]
    blank_only = [line.split() for line in lines[place : place + len(wanted)]] == [
        line.split() for line in wanted
    ]
    what = "differs in white space only" if blank_only else "nearest"
    return f" ({what}):\n" + numbered(
        (cut(without_end(line), _SHOWN_LINE_CHARS) for line in shown), place + 1
    )


def cut(text: str, limit: int = 100) -> str:
    """At most ``limit`` characters of something that is repeated in a message."""
    return text if len(text) <= limit else text[:limit] + "..."
