"""A table of text, and what Markdown and LaTeX make of it.

Guarantees: cells are text, so every form says the same; what a cell holds can be no command of a form.
Not covered: which tables there are (`sheets.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rcb_env.report.printable import printable


@dataclass(frozen=True)
class Sheet:
    """A table of text; the first column names the rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def to_markdown(sheets: Iterable[Sheet]) -> str:
    """Sheets as Markdown."""
    parts = []
    for sheet in sheets:
        lines = [f"**{_markdown(sheet.title)}**", "", _row(map(_markdown, sheet.columns))]
        lines.append(_row(["---", *("---:" for _ in sheet.columns[1:])]))
        lines += [_row(map(_markdown, row)) for row in sheet.rows]
        lines += ["", _markdown(sheet.note)] if sheet.note else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def to_latex(sheets: Iterable[Sheet]) -> str:
    """Sheets as LaTeX, with the packages booktabs and amsmath."""
    parts = []
    for sheet in sheets:
        lines = [
            r"\begin{table}",
            rf"  \caption{{{_latex(f'{sheet.title}. {sheet.note}'.strip())}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{l{'r' * (len(sheet.columns) - 1)}}}",
            r"    \toprule",
            f"    {' & '.join(map(_latex, sheet.columns))} \\\\",
            r"    \midrule",
            *(f"    {' & '.join(map(_latex, row))} \\\\" for row in sheet.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≤": r"$\leq$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in printable(text).replace("\n", " "))


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", printable(text).replace("\n", " "))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
