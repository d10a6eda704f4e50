"""Hidden code in a form of its own for every run, so that nothing about it tells whether it holds a canary.

`disguise` rewrites the hidden modules of a guarded suite: names that only a function knows, numbers, statements that do
nothing, and functions through which values are returned, are drawn anew each time; docstrings go. In a true run those
functions pass on what they get, and in a run with a canary some of them move it: which ones, a number says that looks
like all the others. So no text, size, hash or constant is the same in two runs, and none is special to a canary.
Guarantees: pure but for the draws; what a function computes is what it computed before.
Not covered: code that understands what it reads, or tries out what the reference gives; see docs/security.md.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping

MOVER = "_moved"  # the name of the function that canaries move values with (`canaries.py`)
_TELLING = frozenset({"locals", "vars", "eval", "exec", "globals", "dir"})
_PRIME = 65521
_IDLE = 0.3  # how often a statement is followed by one that does nothing


def disguise(
    hidden: Mapping[str, bytes], mover: ast.FunctionDef, draw: random.Random
) -> dict[str, str]:
    """Other sources for the hidden modules.

    Args:
        hidden: sources by path; one that is no Python stays as it is.
        mover: what moves values, a function of one argument.
        draw: where names and numbers come from.
    """
    made = {}
    for path, data in hidden.items():
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError):
            made[path] = data.decode("utf-8", "replace")
            continue
        made[path] = ast.unparse(ast.fix_missing_locations(_Disguise(draw, mover).module(tree)))
    return made


class _Disguise(ast.NodeTransformer):
    """One module; returns pass through a function of its own, which is called `self._through`."""

    def __init__(self, draw: random.Random, mover: ast.FunctionDef) -> None:
        self._draw = draw
        self._mover = mover
        self._through = self._name()
        self._factor = draw.randrange(2, _PRIME)
        self._limit = draw.randrange(2000, 9000)

    def module(self, tree: ast.Module) -> ast.Module:
        """The module in its disguise."""
        tree.body = [
            one for one in tree.body if not (isinstance(one, ast.FunctionDef) and one.name == MOVER)
        ]
        self.visit(tree)
        _without_docstrings(tree)
        place = next(
            (i + 1 for i, one in enumerate(tree.body) if _is_future(one)),
            0,
        )
        tree.body[place:place] = self._helpers()
        return tree

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function: its own names, and what it returns."""
        self._rename(node)
        generator = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))
        self.generic_visit(node)
        if not generator:
            for one in _returns(node):
                if one.value is not None and not self._goes_through(one.value):
                    one.value = self._call(one.value, moves=False)
        if not _looks_at_names(node):
            node.body = [
                each
                for statement in node.body
                for each in (statement, *self._maybe_idle(statement))
            ]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A value that is moved."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == MOVER and len(node.args) == 1:
            return self._call(node.args[0], moves=True)
        return node

    def _goes_through(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == self._through
        )

    def _call(self, value: ast.expr, *, moves: bool) -> ast.Call:
        while True:
            number = self._draw.randrange(1, _PRIME)
            if (number * self._factor % _PRIME < self._limit) == moves:
                function = ast.Name(self._through, ast.Load())
                return ast.Call(function, [ast.Constant(number), value], [])

    def _helpers(self) -> list[ast.stmt]:
        number, value = self._name(), self._name()
        mover = _renamed(self._mover, self._name())
        text = (
            f"def {self._through}({number}, {value}):\n"
            f"    if {number} * {self._factor} % {_PRIME} < {self._limit}:\n"
            f"        return {mover.name}({value})\n"
            f"    return {value}\n"
        )
        helpers: list[ast.stmt] = [mover, *ast.parse(text).body]
        self._draw.shuffle(helpers)
        return helpers

    def _maybe_idle(self, before: ast.stmt) -> list[ast.stmt]:
        if isinstance(before, ast.Return | ast.Raise) or self._draw.random() > _IDLE:
            return []
        name, number = self._name(), self._draw.randrange(1 << 30)
        return list(ast.parse(f"{name} = {number}").body)

    def _rename(self, function: ast.FunctionDef) -> None:
        """Give the names that only this function knows other ones."""
        if _looks_at_names(function):
            return
        nodes = list(ast.walk(function))
        stored = {
            one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        taken: set[str] = set()
        for one in nodes:
            if isinstance(one, ast.arg):
                taken.add(one.arg)
            elif isinstance(one, ast.Global | ast.Nonlocal):
                taken |= set(one.names)
            elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                taken.add(one.name)
                if isinstance(one, ast.ClassDef):
                    taken |= {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}
            elif isinstance(one, ast.alias):
                taken.add((one.asname or one.name).split(".")[0])
            elif isinstance(one, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and one.name:
                taken.add(one.name)
            elif isinstance(one, ast.MatchMapping) and one.rest:
                taken.add(one.rest)
        others = {name: self._name() for name in sorted(stored - taken)}
        for one in nodes:
            if isinstance(one, ast.Name) and one.id in others:
                one.id = others[one.id]

    def _name(self) -> str:
        return "v" + "".join(self._draw.choices("abcdefghijklmnopqrstuvwxyz", k=9))


def _looks_at_names(function: ast.AST) -> bool:
    return any(isinstance(one, ast.Name) and one.id in _TELLING for one in ast.walk(function))


def _renamed(function: ast.FunctionDef, name: str) -> ast.FunctionDef:
    """A copy of a function that calls itself, under another name."""
    made = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(made, ast.FunctionDef)
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id == function.name:
            node.id = name
    made.name = name
    return made


def _returns(function: ast.AST) -> Iterator[ast.Return]:
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            yield from _returns(child)


def _without_docstrings(tree: ast.Module) -> None:
    tree.body = [one for one in tree.body if not _is_text(one)]  # before imports from __future__
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass() if _is_text(one) else one for one in node.body]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
