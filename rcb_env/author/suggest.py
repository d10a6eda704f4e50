"""`rcb suggest`: which parts of a file would make good challenges, and which files they need beside them.

`proposals` offers the bodies of functions, and the loops, conditionals and `with` blocks in them, best first. A region is
good when a lot can go wrong in it (as many small faults as `rcb_env.mutation` can make) and when it can be read in one go.
`context` follows the file's imports to the other files of its paper.

Guarantees: pure but for reading the paper's folder, and `tagged` is pure; proposals are whole lines, nest and never overlap
partly, neither with each other nor with regions that are tagged already; `tagged` changes nothing but added tag lines.
Not covered: whether a region can be written from the paper's text. That is for a human to say.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rcb_env.dataset.imports import reachable
from rcb_env.dataset.markers import Region, count_code_lines, find_regions, strip_tags
from rcb_env.dataset.metadata import read_yaml
from rcb_env.errors import UsageError
from rcb_env.mutation import mutants

Kind = Literal["function", "loop", "conditional", "with"]
MAX_LINES = 60  # code lines of a region; what `rcb check` allows
_GOOD_LINES = range(3, 31)
_MAX_NAME = 60
_KINDS: dict[type[ast.AST], Kind] = {
    ast.FunctionDef: "function",
    ast.AsyncFunctionDef: "function",
    ast.For: "loop",
    ast.AsyncFor: "loop",
    ast.While: "loop",
    ast.If: "conditional",
    ast.With: "with",
    ast.AsyncWith: "with",
}


@dataclass(frozen=True)
class Proposal:
    """A part of a file that could be a region.

    Attributes:
        name: a hint to start from.
        start: 1-based first line.
        end: 1-based last line, included.
        lines: lines of code, by the public rule.
        faults: small faults that can be made in it.
        inside: number of the smallest other proposal around it, counted from 1 in the answer's order; None if there is none.
    """

    name: str
    kind: Kind
    start: int
    end: int
    lines: int
    faults: int
    inside: int | None = None


def proposals(text: str, *, path: str) -> tuple[Proposal, ...]:
    """What could be a region in a file, best first.

    Args:
        text: the file, tags included if it has any.
        path: how messages name it.

    Raises:
        UsageError: it is no Python, or its tags are broken.
    """
    lines = text.split("\n")
    taken = find_regions(text, path=path)
    found: dict[tuple[int, int], Proposal] = {}
    names: dict[str, int] = {region.name: 1 for region in taken}
    for kind, name, first, last in _spans(_parse(text, path), lines):
        first, last = _with_tags(first, last, taken)
        code = strip_tags("\n".join(lines[first - 1 : last]) + "\n")
        size = count_code_lines(code.split("\n"))
        if not 1 <= size <= MAX_LINES or (first, last) in found or _clashes(first, last, taken):
            continue
        faults = len(mutants(code))
        if faults:
            found[first, last] = Proposal(_fresh(name, names), kind, first, last, size, faults)
    ranked = sorted(found.values(), key=lambda one: (-_worth(one), one.start, -one.end))
    return tuple(_with_parent(one, ranked) for one in ranked)


def paper_folder(file: Path) -> Path:
    """The folder of the paper that a file belongs to: the nearest one above it with a paper.yaml, else the file's own."""
    resolved = file.resolve()
    return next((up for up in resolved.parents if (up / "paper.yaml").is_file()), resolved.parent)


def to_annotate(file: Path) -> str:
    """A file's path as its paper.yaml has yet to list it under annotated; "" where nothing is left to do.

    Raises:
        PaperError: the paper.yaml is no YAML.
    """
    root = paper_folder(file)
    if not (root / "paper.yaml").is_file():
        return ""
    value = read_yaml(root / "paper.yaml").value
    listed = value.get("annotated") if isinstance(value, dict) else None
    path = file.resolve().relative_to(root).as_posix()
    return "" if isinstance(listed, list) and path in listed else path


def context(file: Path) -> tuple[str, ...]:
    """The other files of a paper that importing a file can load, relative to the paper's folder, sorted."""
    root = paper_folder(file)
    base = root / "src" if (root / "src").is_dir() else root  # what stands first on the path
    resolved = file.resolve()
    if not resolved.is_relative_to(base):
        base = root
    files = {
        path.relative_to(base).as_posix(): path.read_bytes()
        for path in sorted(base.rglob("*.py"))
        if not any(part.startswith(".") for part in path.relative_to(base).parts)
    }
    this = resolved.relative_to(base).as_posix()
    prefix = base.relative_to(root).as_posix()
    return tuple(
        path if prefix == "." else f"{prefix}/{path}"
        for path in sorted(reachable([this], files) - {this})
        if files[path].strip()
    )


def tagged(text: str, chosen: Sequence[Proposal], *, path: str) -> str:
    """The file with tags around some proposals.

    Raises:
        UsageError: the tags would not work in this file.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split("\n")
    before: dict[int, list[str]] = {}
    after: dict[int, list[str]] = {}
    for one in sorted(chosen, key=lambda each: each.end - each.start, reverse=True):
        code = [line for line in lines[one.start - 1 : one.end] if line.strip()]
        indent = min((re.match(r"\s*", line)[0] for line in code), key=len)  # type: ignore[index]
        before.setdefault(one.start, []).append(f'{indent}# <paper2code name="{one.name}">')
        after.setdefault(one.end, []).insert(0, f'{indent}# </paper2code name="{one.name}">')
    made: list[str] = []
    for number, line in enumerate(lines, start=1):
        made += [tag + end[:-1] for tag in before.get(number, ())]
        made.append(line)
        made += [tag + end[:-1] for tag in after.get(number, ())]
    result = "\n".join(made)
    if strip_tags(result) != strip_tags(text) or len(find_regions(result, path=path)) < len(chosen):
        raise UsageError(f"{path}: its lines end in more than one way; tag it by hand")
    return result


# --- what there is ----------------------------------------------------------------------------


def _parse(text: str, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the paper's code, not about ours
            return ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno or 1}: is not Python: {error.msg}") from None
    except ValueError:  # bytes that are no UTF-8 cannot be parsed
        raise UsageError(
            f"{path}: is not a Python source file in UTF-8; name another file"
        ) from None


def _spans(tree: ast.Module, lines: Sequence[str]) -> Iterator[tuple[Kind, str, int, int]]:
    """Kind, name, first and last line of everything that stands on lines of its own."""
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, where = todo.pop(0)
        for child in ast.iter_child_nodes(node):
            inner = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{where} {_words(child.name)}".strip()
            todo.append((child, inner))
            kind = _KINDS.get(type(child))
            if kind is None or not isinstance(child, ast.stmt) or not (where or kind == "function"):
                continue  # not at the top of a module: that is what `if __name__` does
            block = _body(child) if kind == "function" else [child]
            if _alone(block, child, lines):
                first, last = _first_line(block[0]), block[-1].end_lineno or block[-1].lineno
                yield kind, _name(kind, child, inner, lines), _with_comment(first, lines), last


def _body(function: ast.stmt) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    return function.body[1:] if ast.get_docstring(function, clean=False) else function.body


def _alone(block: Sequence[ast.stmt], whole: ast.stmt, lines: Sequence[str]) -> bool:
    """Whether a block has its lines to itself; `elif` has not, nor has what follows a colon or a semicolon."""
    if not block:
        return False
    first, last = block[0], block[-1]
    column = min([first.col_offset, *(item.col_offset - 1 for item in _decorators(first))])
    start, end = lines[_first_line(first) - 1], lines[(last.end_lineno or 1) - 1].encode()
    rest = end[last.end_col_offset or 0 :].decode("utf-8", "replace").strip()
    if start.encode()[:column].strip() not in (b"", b"\xef\xbb\xbf") or (rest and rest[0] != "#"):
        return False
    return not (isinstance(whole, ast.If) and start.lstrip().startswith("elif"))


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    return list(getattr(statement, "decorator_list", ()))


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(item.lineno for item in _decorators(statement))])


def _with_comment(first: int, lines: Sequence[str]) -> int:
    """The line where the comment right above begins: it would tell what is missing."""
    indent = re.match(r"\s*", lines[first - 1])
    while first > 1 and re.match(
        rf"{indent[0] if indent else ''}#(?!\s*</?paper2code)", lines[first - 2]
    ):
        first -= 1
    return first


def _with_tags(first: int, last: int, taken: Iterable[Region]) -> tuple[int, int]:
    """The span together with the tags of regions that lie at its edges."""
    for region in sorted(taken, key=lambda one: one.end - one.start):
        start, end = region.start + 1, region.end + 1  # the lines of its tags
        if start == first - 1 and end <= last:
            first = start
        elif end == last + 1 and start >= first:
            last = end
    return first, last


def _clashes(first: int, last: int, taken: Iterable[Region]) -> bool:
    """Whether a span is a region already, or cuts one in two."""
    for region in taken:
        start, end = region.start + 1, region.end + 1
        apart = last < start or end < first
        around = first <= start and end <= last
        inside = start < first and last < end
        if not (apart or around or inside) or (start, end) == (first - 1, last + 1):
            return True
    return False


# --- names and ranks --------------------------------------------------------------------------


def _words(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.strip("_").replace("_", " "))
    return (
        spaced
        if name.isupper()
        else " ".join(w if w.isupper() else w.lower() for w in spaced.split())
    )


def _name(kind: Kind, node: ast.stmt, where: str, lines: Sequence[str]) -> str:
    if kind == "function":
        return where[:_MAX_NAME].strip() or "function"
    above = lines[node.lineno - 2].strip() if node.lineno > 1 else ""
    if above.startswith("#") and "paper2code" not in above and len(above) > 4:
        return _printable(above.lstrip("# "))
    if isinstance(node, ast.For | ast.AsyncFor):
        what = f"loop over {ast.unparse(node.iter)}"
    elif isinstance(node, ast.While | ast.If):
        what = f"{'while' if isinstance(node, ast.While) else 'case of'} {ast.unparse(node.test)}"
    else:
        assert isinstance(node, ast.With | ast.AsyncWith)
        what = f"with {ast.unparse(node.items[0].context_expr)}"
    return _printable(f"{where}: {what}")


def _printable(text: str) -> str:
    flat = " ".join(text.replace('"', "'").split())
    return flat if len(flat) <= _MAX_NAME else flat[: _MAX_NAME - 3].rstrip() + "..."


def _fresh(name: str, names: dict[str, int]) -> str:
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name} ({names[name]})"


def _worth(one: Proposal) -> float:
    """More faults are better, with less and less gain; very short and very long regions count half."""
    return math.log2(1 + one.faults) * (1.0 if one.lines in _GOOD_LINES else 0.5)


def _with_parent(one: Proposal, ranked: Sequence[Proposal]) -> Proposal:
    around = [
        (other.end - other.start, number)
        for number, other in enumerate(ranked, start=1)
        if other is not one and other.start <= one.start and one.end <= other.end
    ]
    inside = min(around)[1] if around else None
    return Proposal(one.name, one.kind, one.start, one.end, one.lines, one.faults, inside)
