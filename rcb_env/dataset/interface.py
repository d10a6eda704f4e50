"""What later code reads from a region: names, attributes and keys that nobody could know who sees only the rest.

Names are followed by `rcb_env.dataset.flow`, so one that is bound anew before it is read is not told. A function or
class that the region defines for its module or class is always told, as hidden tests may call it, unless its name
begins with an underscore and nothing reads it. Attributes and keys are matched by their names: those of ``self`` within
the classes of one family, others where they are read from something of the same name, or where no other visible code
binds them. What a function returns has no name, so nothing is said of it.

Guarantees: pure; a file that is no Python gives nothing.
Not covered: shapes and types; names that are built at run time.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from rcb_env.dataset.flow import Scope, direct_reads, parts, read_later

_REGISTER = ("register_buffer", "register_parameter", "register_module", "add_module", "setattr")
_LOOKUPS = ("get", "pop", "setdefault")
_ASKING = ("getattr", "hasattr", "delattr", "attrgetter")


def defines(
    text: str, lines: range, *, file: str, others: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """What some lines of a file define for others, as they write it, in the order of the lines.

    Args:
        text: the file.
        lines: the region, from 1.
        file: its path.
        others: the other files that can be seen, by path.
    """
    module = _parsed(text)
    if module is None:
        return ()
    texts = tuple((others or {}).values())
    trees = [tree for each in texts if (tree := _parsed(each))]
    found: dict[str, tuple[int, int]] = {}
    for name, place in (*_names(module, lines, file, trees), *_members(text, lines, texts)):
        found[name] = min(place, found.get(name, place))
    return tuple(sorted(found, key=lambda name: found[name]))


@functools.lru_cache(maxsize=128)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text.encode("utf-8", "replace").decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_Found = Iterable[tuple[str, tuple[int, int]]]
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


# --- names ------------------------------------------------------------------------------------


def _names(module: ast.Module, lines: range, file: str, others: Iterable[ast.Module]) -> _Found:
    def inside(node: ast.AST) -> bool:
        return getattr(node, "lineno", 0) in lines

    for scope in _scopes(module, lines):
        read = read_later(scope, inside)
        if scope is module:
            read |= _imported(file, others)
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            read |= {
                node.name
                for node in parts(scope)
                if isinstance(node, _Definition)
                and inside(node)
                and (node.name[0] != "_" or node.name[-2:] == "__")
            }
        own = {name for node in parts(scope) if inside(node) for name in _bound(node)}
        for node in (*parts(scope), *(ast.walk(scope) if read - own else ())):
            if node is not scope and inside(node):
                names = read.intersection(_bound(node))
                yield from ((name, (node.lineno, node.col_offset)) for name in names)


def _scopes(module: ast.Module, lines: range) -> Iterable[Scope]:
    """The scopes that begin before the lines and reach into them: those the lines bind names of."""
    yield module
    for node in ast.walk(module):
        if isinstance(node, _Definition) and node.lineno < lines.start <= (node.end_lineno or 0):
            yield node


def _bound(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, _Definition | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield from (node.name,) if node.name else ()


def _imported(file: str, others: Iterable[ast.Module]) -> set[str]:
    """Names that other files take from this one."""
    path = PurePosixPath(file)
    own = path.parent.name if path.stem == "__init__" else path.stem
    found: set[str] = set()
    for tree in others:
        aliases: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                if (node.module or "").rpartition(".")[2] == own:
                    found |= direct_reads(tree, _nowhere) if "*" in names else names
                aliases |= {alias.asname or own for alias in node.names if alias.name == own}
            elif isinstance(node, ast.Import):
                ours = [one for one in node.names if one.name.rpartition(".")[2] == own]
                aliases |= {alias.asname or alias.name for alias in ours}
        if aliases:
            found |= {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) in aliases
            }
    return found


def _nowhere(_: ast.AST) -> bool:
    return False


# --- attributes and keys ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Member:
    """One place where an attribute or a key is bound or read.

    Attributes:
        base: what it belongs to, as written; "" where it is bound in the class itself.
        owner: the class whose instances it belongs to, if that can be told.
        unit: the class, or else the outermost function, where it stands.
        function: the function where it stands, by the line it begins on; 0: none.
    """

    kind: Literal["attribute", "key"]
    name: str
    base: str
    owner: str | None
    unit: str
    function: int
    node: ast.expr | ast.stmt
    bound: bool


class _Collector(ast.NodeVisitor):
    """All attributes and keys of a file, and the bases of its classes."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.bases: dict[str, set[str]] = {}
        self.classes: dict[str, int] = {}  # the line each begins on
        self._units: list[str] = []
        self._functions: list[int] = []
        self._classes: list[ast.ClassDef] = []
        self._selves: dict[str, str] = {}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self.bases[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        self.classes[node.name] = node.lineno
        self._units.append(node.name)
        self._classes.append(node)
        for part in parts(node):
            for name in _bound(part):
                self._add("attribute", name, "", node.name, part, bound=True)
        for statement in node.body:
            self.visit(statement)
        self._classes.pop()
        self._units.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in node.decorator_list:
            self.visit(part)
        selves = self._selves
        first = [*node.args.posonlyargs, *node.args.args][:1]
        if first and self._classes and node in self._classes[-1].body:
            self._selves = {**selves, first[0].arg: self._classes[-1].name}
        self._units.append(node.name)
        self._functions.append(node.lineno)
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()
        self._units.pop()
        self._selves = selves

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._of("attribute", node.attr, node.value, node, bound=not isinstance(node.ctx, ast.Load))
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if name := _text(node.slice):
            self._of("key", name, node.value, node, bound=not isinstance(node.ctx, ast.Load))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.target)
        target = node.target
        if isinstance(target, ast.Attribute):
            self._of("attribute", target.attr, target.value, target, bound=False)
        elif isinstance(target, ast.Subscript) and (name := _text(target.slice)):
            self._of("key", name, target.value, target, bound=False)
        self.visit(node.value)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if key is not None and (name := _text(key)):
                self._add("key", name, "", None, key, bound=True)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        plain = node.func.id if isinstance(node.func, ast.Name) else None
        texts = [text for each in node.args[:2] if (text := _text(each))]
        if isinstance(node.func, ast.Attribute) and texts and called in _REGISTER:
            self._of("attribute", texts[0], node.func.value, node, bound=True)
        elif isinstance(node.func, ast.Attribute) and texts and called in _LOOKUPS:
            self._of("key", texts[0], node.func.value, node, bound=False)
        elif texts and len(node.args) > 1 and plain in (*_REGISTER, *_ASKING):
            self._of("attribute", texts[0], node.args[0], node, bound=plain in _REGISTER)
        elif plain:
            for keyword in node.keywords:  # fields of a data class
                if keyword.arg:
                    self._add("attribute", keyword.arg, plain, plain, keyword.value, bound=False)
        self.generic_visit(node)

    def _of(
        self,
        kind: Literal["attribute", "key"],
        name: str,
        base: ast.expr,
        node: ast.expr,
        *,
        bound: bool,
    ) -> None:
        owner = None
        if isinstance(base, ast.Name):
            owner = self._selves.get(base.id, base.id if base.id in self.bases else None)
        elif self._classes and ast.unparse(base) in ("super()", "type(self)", "self.__class__"):
            owner = self._classes[-1].name
        owner = owner if kind == "attribute" else None
        self._add(kind, name, ast.unparse(base), owner, node, bound=bound)

    def _add(
        self,
        kind: Literal["attribute", "key"],
        name: str,
        base: str,
        owner: str | None,
        node: ast.AST,
        *,
        bound: bool,
    ) -> None:
        assert isinstance(node, ast.expr | ast.stmt | ast.ExceptHandler)
        self.members.append(
            _Member(
                kind,
                name,
                base,
                owner,
                self._units[0] if self._units else "",
                self._functions[-1] if self._functions else 0,
                node,  # type: ignore[arg-type]
                bound,
            )
        )


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@functools.lru_cache(maxsize=128)
def _collected(text: str) -> _Collector:
    found = _Collector()
    if module := _parsed(text):
        found.visit(module)
    return found


def _members(text: str, lines: range, others: Iterable[str]) -> _Found:
    ours, theirs = _collected(text), [_collected(other) for other in others]
    family = _Family({name: above for one in (*theirs, ours) for name, above in one.bases.items()})
    outside = [one for one in ours.members if one.node.lineno not in lines]
    far_off = [each for one in theirs for each in one.members]
    whole = {name for name, line in ours.classes.items() if line in lines}
    for one in ours.members:
        if not one.bound or one.node.lineno not in lines:
            continue
        local = [each for each in outside if each.kind == one.kind and each.name == one.name]
        far = [each for each in far_off if each.kind == one.kind and each.name == one.name]
        if _read_elsewhere(one, local, far, family, lines):
            yield _shown(one, whole), (one.node.lineno, one.node.col_offset)


def _read_elsewhere(
    one: _Member, local: list[_Member], far: list[_Member], family: _Family, lines: range
) -> bool:
    every = local + far
    reads = [each for each in every if not each.bound]
    if one.owner is not None:
        others_bind = any(
            each.bound and not (each.owner and family.related(one.owner, each.owner))
            for each in every
        )
        return any(
            family.related(one.owner, each.owner) if each.owner else not others_bind
            for each in reads
        )
    if one.base and any(
        each.base == one.base
        and each.unit == one.unit
        and (each.function != one.function or each.node.lineno >= lines.stop)
        for each in local
        if not each.bound
    ):
        return True
    return one.kind == "key" and bool(reads) and not any(each.bound for each in every)


def _shown(one: _Member, whole: set[str]) -> str:
    if one.kind == "key":
        return f"{one.base}[{one.name!r}]".replace("'", '"')
    if one.owner in whole:
        return f"{one.owner}.{one.name}"
    return f"{one.base}.{one.name}" if one.base else one.name


class _Family:
    """Which classes inherit from each other, by name."""

    def __init__(self, bases: Mapping[str, set[str]]) -> None:
        self._bases = bases

    def related(self, one: str, other: str) -> bool:
        return other in self._above(one) or one in self._above(other)

    def _above(self, name: str) -> set[str]:
        found, pending = set[str](), [name]
        while pending:
            if (each := pending.pop()) not in found:
                found.add(each)
                pending += self._bases.get(each, ())
        return found
