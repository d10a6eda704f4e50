"""Which lines of a piece of Python begin a statement, and which begin inside a string.

Only statements have an indentation that means something. Comments, the rest of a bracket and the text of a string may
stand anywhere, so none of them says how far a piece of code is indented, and the text of a string must never be moved.

Guarantees: pure; never raises, whatever the text. The text may be a part of a file that is no Python by itself (a
branch, the items of a list, the end of a bracket), or no Python at all; that is why this does not ask Python's
tokenizer, which gives up on such text, and does so at another place in each version.
Not covered: whether the code is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Possessive repeats: an answer may be anything, and no text shall take more than one pass.
_PART = re.compile(
    r"""
    [^\#"'\\()\[\]{}\n]*+
    (?: \#[^\n]*+
      | (?P<string>
          \"{3} (?: [^"\\] | \\. | "(?!"") )*+ (?: \"{3} | (?P<endless>) )
        | '{3} (?: [^'\\] | \\. | '(?!'') )*+ (?: '{3} | (?P<endless_too>) )
        | "(?: [^"\\\n] | \\(?:\r\n|.) )*+ (?: " | (?P<cut>) )
        | '(?: [^'\\\n] | \\(?:\r\n|.) )*+ (?: ' | (?P<cut_too>) )
        )
      | (?P<joined> \\\r?\n)
      | (?P<open> [(\[{])
      | (?P<close> [)\]}])
      | (?P<line> \n)
      | \\
      | \Z
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_UNCLOSED = ("endless", "endless_too", "cut", "cut_too")
_LEADING = re.compile(r"[ \t\f]*")


@dataclass(frozen=True)
class Layout:
    """The lines of a text by what they begin with; numbers are from 0.

    Attributes:
        lines: the text at its line feeds.
        statements: lines that begin a statement; the rest of its lines are none.
        in_strings: lines that begin inside a string.
    """

    lines: tuple[str, ...]
    statements: tuple[int, ...]
    in_strings: frozenset[int]

    @property
    def indent(self) -> str | None:
        """What stands before the statement furthest to the left; without any, before the comment."""
        return self.indent_of(range(len(self.lines)))

    def indent_of(self, rows: Iterable[int]) -> str | None:
        """The same for some lines of the text; None if all of them are blank."""
        filled = [row for row in rows if self.lines[row].strip() and row not in self.in_strings]
        begun = set(self.statements).intersection(filled)
        return min(
            (_leading(self.lines[row]) for row in sorted(begun) or filled), key=len, default=None
        )

    def moved_to(self, indent: str) -> str:
        """The text with its indent replaced by ``indent``; what stands inside strings stays."""
        old = len(self.indent or "")
        return "\n".join(
            line
            if row in self.in_strings
            else indent + line[min(old, len(_leading(line))) :]
            if line.strip()
            else ""
            for row, line in enumerate(self.lines)
        )


def layout(text: str) -> Layout:
    """Tells the lines of ``text`` apart."""
    lines = tuple(text.split("\n"))
    row = depth = 0
    begun, in_strings = [0], set[int]()
    for part in _PART.finditer(text):
        kind = part.lastgroup
        if kind == "string":
            passed = range(row + 1, row + 1 + part[0].count("\n"))
            row += len(passed)
            if all(part[name] is None for name in _UNCLOSED):
                in_strings.update(passed)
            else:  # no Python: from here on every line counts
                begun += passed
        elif kind == "open":
            depth += 1
        elif kind == "close" and depth:
            depth -= 1
        elif kind == "close":  # opened before the text: so far everything was inside that bracket
            begun.clear()
        elif kind is not None:
            row += 1
            if kind == "line" and not depth:
                begun.append(row)
    return Layout(
        lines,
        tuple(
            row
            for row in begun
            if not lines[row].lstrip().startswith(("#", "\\")) and lines[row].strip()
        ),
        frozenset(in_strings),
    )


def _leading(line: str) -> str:
    found = _LEADING.match(line)
    return found[0] if found else ""
