"""Code in sight that is a region's own but for its names.

Statements are compared by their syntax: names count by the order in which they first occur, texts and annotations not
at all; methods, attributes, numbers and operators must be the same. Checks of arguments (an `if` that raises) are left out, as they
are alike everywhere. Statements in a row that make up a good part of a region, and are long enough to be no accident,
are a finding.
Guarantees: pure; a file or a region that is no Python holds none.
Not covered: the same idea in another syntax; literal copies, and copies in prose (points.py).
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rcb_env.dataset.papers import Challenge

MIN_NODES = 16  # of the syntax tree: what is shorter is alike by accident
MIN_SHARE = 0.3  # of a region's nodes

_BLOCKS = frozenset({"body", "orelse", "finalbody", "handlers"})
_UNREAD = frozenset({"ctx", "type_comment", "annotation", "returns", *_BLOCKS})


@dataclass(frozen=True)
class NearCopy:
    """Where the longest of them begins."""

    path: str
    line: int
    share: float  # of the region's nodes


def near_copy(challenge: Challenge) -> NearCopy | None:
    """The longest run of statements in sight that a region has too, by another name; None: there is none."""
    region = _statements_of(textwrap.dedent(challenge.reference))
    total = sum(_size(one) for one in region)
    starts: dict[Any, list[int]] = {}
    for i, one in enumerate(region):
        starts.setdefault(_shape(one, {}), []).append(i)
    found: NearCopy | None = None
    most = MIN_NODES - 1
    for path, data in challenge.tree(f"{challenge.region.indent}pass\n").items():
        seen = _seen(data) if path.endswith(".py") else ()
        for j, (statement, shape) in enumerate(seen):
            for i in starts.get(shape, ()):
                nodes = _run(region[i:], [other for other, _ in seen[j:]])
                if nodes > most and nodes >= MIN_SHARE * total:
                    most = nodes
                    found = NearCopy(path, statement.lineno, nodes / total)
    return found


@functools.lru_cache(maxsize=64)
def _seen(data: bytes) -> tuple[tuple[ast.stmt, Any], ...]:
    """The statements of a file with their shapes; most files are the same for all regions of a paper."""
    return tuple((one, _shape(one, {})) for one in _statements_of(data.decode("utf-8", "replace")))


def _run(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> int:
    """How many nodes the statements at the start of both have, as far as they are alike."""
    nodes = 0
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for one, other in zip(ours, theirs, strict=False):
        if _shape(one, names[0]) != _shape(other, names[1]):
            break
        nodes += _size(one)
    return nodes


def _statements_of(text: str) -> list[ast.stmt]:
    # A region may return, so it is read as a function.
    for source in (text, "def _():\n" + textwrap.indent(text, "    ")):
        try:
            return list(_flat(ast.parse(source).body))
        except (SyntaxError, ValueError):
            continue
    return []


def _flat(block: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    for one in block:
        if isinstance(one, ast.stmt) and not _says_nothing(one):
            yield one
        for name in ("body", "orelse", "handlers", "finalbody"):
            if not (isinstance(one, ast.If) and _refuses(one)):
                yield from _flat(getattr(one, name, []))


def _says_nothing(one: ast.stmt) -> bool:
    return (
        isinstance(one, ast.Import | ast.ImportFrom | ast.Pass | ast.FunctionDef | ast.ClassDef)
        or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        or (isinstance(one, ast.If) and _refuses(one))
    )


def _refuses(one: ast.If) -> bool:
    return len(one.body) == 1 and isinstance(one.body[0], ast.Raise)


def _shape(node: ast.AST, names: dict[str, int]) -> Any:
    """The syntax of a statement without what stands in its blocks; `names` grows with the names met."""
    if isinstance(node, ast.Name | ast.arg):
        name = node.id if isinstance(node, ast.Name) else node.arg
        return names.setdefault(name, len(names))
    if isinstance(node, ast.JoinedStr) or _is_text(node):
        return "text"
    return type(node), tuple(
        (
            name,
            tuple(_value(each, names) for each in (value if isinstance(value, list) else [value])),
        )
        for name, value in _read(node)
    )


def _value(value: Any, names: dict[str, int]) -> Any:
    if isinstance(value, ast.AST):
        return _shape(value, names)
    return type(value), value  # True is 1, and 1 is 1.0


def _size(node: ast.AST) -> int:
    below = [value if isinstance(value, list) else [value] for _, value in _read(node)]
    return 1 + sum(_size(each) for row in below for each in row if isinstance(each, ast.AST))


def _read(node: ast.AST) -> Iterator[tuple[str, Any]]:
    whole = isinstance(node, ast.IfExp | ast.Lambda)  # their body is an expression
    return (pair for pair in ast.iter_fields(node) if whole or pair[0] not in _UNREAD)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
