"""Where an answer goes in a file: what of it the file holds already, and at which indentation the rest stands.

Models send back the function, class or file around a region, tags and comments that were shown to them, or code at another
indentation. `Frame` compares an answer with the file by syntax trees and keeps what is new. Where code stands is told by
its statements alone: comments, the rest of a bracket and the text of a string may stand anywhere. Lines inside
multi-line strings are never moved. Pure; never raises, whatever the text.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from rcb_env.dataset.layout import layout
from rcb_env.dataset.markers import Masked

_COPIED = re.compile(
    r'^\s*#\s*(?:</?paper2code\b.*>|TODO: Implement block(?: ".*")?|Approximately \d+ line\(s\) of code\.'
    r"|task\.md says what it has to do\.)\s*$"
)
_DIFF_HEADER = re.compile(r"^(?:@@ .*@@|--- \S|\+\+\+ \S|diff --git )", re.MULTILINE)
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Frame:
    """The file around the region, as something to compare a reply with."""

    def __init__(self, masked: Masked) -> None:
        self.masked = masked
        first = masked.placeholder.split("\n", 1)[0]
        self.indent = first[: len(first) - len(first.lstrip(" \t\f"))]
        self.path = self._path()

    def _path(self) -> list[ast.AST]:
        """From the module down to the region, a ``pass`` here; empty if that is no Python."""
        module = parse(self.masked.fill(f"{self.indent}pass\n"))
        if module is None:
            return []
        line = self.masked.before.count("\n") + 1
        path: list[ast.AST] = [module]
        while True:
            inside = [
                child
                for child in ast.iter_child_nodes(path[-1])
                if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
                and _first_line(child) <= line <= _last_line(child)
            ]
            if not inside:
                return []
            path.append(inside[0])
            if isinstance(inside[0], ast.Pass):
                return path

    def fits(self, text: str) -> bool:
        """Whether the file is valid Python with this text in the region, or the text alone is."""
        text = _without_copied(text)
        return parse(aligned(text)) is not None or self._valid(_shift(text, self.indent))

    def _valid(self, code: str) -> bool:
        return parse(self.masked.fill(code)) is not None

    def at_home(self, text: str) -> bool:
        """Whether a block was evidently written for this place."""
        if not self.fits(text):
            return False
        indent = layout(text).indent
        return (self.indent != "" and indent == self.indent) or self._unwrap(text) is not None

    def repeated_in(self, text: str) -> bool:
        """Whether a text repeats the function, class or file around this place."""
        return self._unwrap(_without_copied(text)) is not None

    def is_diff(self, text: str) -> bool:
        """Whether a block holds a diff, whatever it is called."""
        if self.fits(text):
            return False
        lines = [line for line in text.split("\n") if line.strip()]
        signs = sum(line[0] in "+-" for line in lines)
        return bool(signs) and (
            _DIFF_HEADER.search(text) is not None or all(line[0] in "+-" for line in lines)
        )

    def place(self, text: str) -> tuple[str | None, list[str]]:
        """The text as the region's code, and notes on what was done to it."""
        notes = []
        kept = _without_copied(text)
        if kept != text:
            notes.append("dropped copied tag or TODO lines")
        unwrapped = self._unwrap(kept)
        if unwrapped is not None:
            kept, note = unwrapped
            notes.append(note)
        code = _first_line_aligned(_trimmed(kept))
        if not code.strip():
            return None, notes
        indent = layout(code).indent or ""
        if indent.startswith(self.indent) and (indent == self.indent or self._valid(code)):
            return code, notes
        moved = _shift(code, self.indent)
        notes.append("moved to the indentation of the region")
        return moved, notes

    def _unwrap(self, text: str) -> tuple[str, str] | None:
        """What is new in a repeated function, class, file or loop; None if nothing is repeated."""
        if not self.path:
            return None
        flush = aligned(text)
        module = parse(flush)
        if module is None:
            return None
        lines = flush.split("\n")
        top, inner = self.path[0], self.path[1]
        if isinstance(top, ast.Module) and isinstance(inner, ast.Pass):
            theirs = {ast.dump(node) for node in module.body}
            ours = [node for node in top.body if node is not inner and not _is_text(node)]
            if ours and all(ast.dump(node) in theirs for node in ours):
                new = _new_lines(top.body, inner, module.body, lines)
                return new, "the file came back whole: took only what is missing in it"
        for depth, node in enumerate(self.path[1:-1], start=1):
            twin = _twin(node, module.body)
            if twin is None or not self._is_wrapper(twin, module.body):
                continue
            what = getattr(twin, "name", "the statement around it")
            found = _difference(self.path[depth:], twin, lines)
            if found is not None:
                beside = self._beside(module.body, twin, lines)
                note = f"{what} came back whole: took only what is missing in it"
                return "\n".join([*beside, aligned(found)]), note
            if isinstance(twin, _Definition):
                # Put into the region it would be a nested definition that nothing ever calls.
                return "", f"{what} came back whole, and what is missing in it cannot be told apart"
        return None

    def _is_wrapper(self, twin: ast.stmt, body: Sequence[ast.stmt]) -> bool:
        """Whether ``twin`` is there only to show where the code goes.

        A function that is followed by a use of it is a nested function, and meant to be one.
        """
        if not isinstance(twin, _Definition):
            return len(body) == 1
        top = self.path[0]
        known = {ast.dump(node) for node in top.body} if isinstance(top, ast.Module) else set()
        return isinstance(twin, ast.ClassDef) or all(
            isinstance(node, _Definition | ast.Import | ast.ImportFrom)
            or _is_text(node)
            or ast.dump(node) in known
            for node in body
        )

    def _beside(self, body: Iterable[ast.stmt], twin: ast.stmt, lines: list[str]) -> Iterator[str]:
        """Imports and functions that came along and that the file does not have."""
        module = self.path[0]
        assert isinstance(module, ast.Module)
        known = {ast.dump(node) for node in module.body}
        names = {getattr(node, "name", None) for node in ast.walk(module)}
        for node in body:
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            new_import = isinstance(node, ast.Import | ast.ImportFrom) and not future
            new_function = (
                isinstance(node, ast.FunctionDef)
                and isinstance(twin, ast.FunctionDef)
                and node.name not in names
            )
            if (new_import and ast.dump(node) not in known) or new_function:
                yield "\n".join(lines[_first_line(node) - 1 : _last_line(node)])


def _twin(node: ast.AST, body: Iterable[ast.stmt]) -> ast.stmt | None:
    """The statement of ``body`` that repeats the header of ``node``."""
    for other in body:
        if isinstance(node, _Definition) and isinstance(other, _Definition):
            both_classes = isinstance(node, ast.ClassDef) == isinstance(other, ast.ClassDef)
            same = node.name == other.name and both_classes
        else:
            same = (
                isinstance(node, _COMPOUND)
                and type(node) is type(other)
                and _header(node) == _header(other)
            )
        if same:
            return other
    return None


def _header(node: ast.AST) -> list[str]:
    return [
        ast.dump(part)
        for name, value in ast.iter_fields(node)
        if name in ("target", "iter", "test", "items")
        for part in (value if isinstance(value, list) else [value])
    ]


def _difference(path: Sequence[ast.AST], twin: ast.AST, lines: list[str]) -> str | None:
    """The lines of ``twin`` that stand where its original, ``path[0]``, has the region."""
    original = path[0]
    for name, ours in ast.iter_fields(original):
        theirs = getattr(twin, name, None)
        if not isinstance(ours, list) or not isinstance(theirs, list):
            continue
        if path[1] not in ours:
            continue
        if isinstance(path[1], ast.Pass):
            return _new_lines(ours, path[1], theirs, lines)
        inner = _twin(path[1], theirs)
        return _difference(path[1:], inner, lines) if inner is not None else None
    return None


def _new_lines(
    ours: list[ast.stmt], region: ast.Pass, theirs: list[ast.stmt], lines: list[str]
) -> str:
    place = ours.index(region)
    before, after = ours[:place], ours[place + 1 :]
    if before and _is_text(before[0]):
        before = before[1:]
    after_line = 0
    if theirs and _is_text(theirs[0]):
        after_line = _last_line(theirs[0])
        theirs = theirs[1:]
    while before and theirs and ast.dump(before[0]) == ast.dump(theirs[0]):
        after_line = _last_line(theirs[0])
        before, theirs = before[1:], theirs[1:]
    while after and theirs and ast.dump(after[-1]) == ast.dump(theirs[-1]):
        after, theirs = after[:-1], theirs[:-1]
    if not theirs:
        return ""
    first, last = _first_line(theirs[0]), _last_line(theirs[-1])
    while first - 1 > after_line and lines[first - 2].strip().startswith("#"):
        first -= 1
    column = theirs[0].col_offset
    head = lines[first - 1]
    if head.strip() and head.encode()[:column].strip():  # `def f(x): return x`
        return "\n".join([head.encode()[column:].decode(), *lines[first:last]])
    return "\n".join(lines[first - 1 : last])


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", [])
    placed = getattr(node, "pattern", node)  # a match case has no line of its own
    return min(int(each.lineno) for each in (*decorators, placed))


def _last_line(node: ast.AST) -> int:
    return int(node.body[-1].end_lineno if isinstance(node, ast.match_case) else node.end_lineno)  # type: ignore[arg-type, attr-defined]


# --- text -------------------------------------------------------------------------------------


def _without_copied(text: str) -> str:
    found = layout(text)
    return "\n".join(
        line
        for row, line in enumerate(found.lines)
        if row in found.in_strings or not _COPIED.match(line)
    )


def _trimmed(text: str) -> str:
    """Without blank lines at both ends, with one newline at the end."""
    lines = text.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return "".join(line + "\n" for line in lines)


def _shift(text: str, indent: str) -> str:
    """The text with its indentation replaced by ``indent``; strings stay as they are."""
    return layout(_first_line_aligned(text)).moved_to(indent)


def aligned(text: str) -> str:
    """The text moved to the left until a line begins there."""
    return _shift(text, "")


def _first_line_aligned(text: str) -> str:
    """A first line that lost its indentation, as trimmed replies do, gets that of the next statement."""
    whole = text.lstrip("\n")
    found = layout(whole)
    least = found.indent_of(range(1, len(found.lines)))
    if not least or 0 not in found.statements or whole[:1].isspace() or parse(text) is not None:
        return text
    candidate = least + whole
    return candidate if parse(f"if 1:\n{candidate}") is not None else text


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None for what is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the model's code, not about ours
            return ast.parse(text.encode("utf-8", "replace").decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
