"""The writing of a suite's copies: comparisons handed to the recorder, and what nothing needs taken away.

`Writer` copies a module's tree and puts a call of `__rcb__` in the place of every site; `drop_unused` and `drop_helpers` take
away what only a withheld value needed.
Guarantees: pure; the tree that is copied stays as it is.
Not covered: which comparisons are sites, and what is withheld (`copies.py`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RECORDER = "__rcb__"
TWO = frozenset(
    [
        "allclose",
        "isclose",
        "equal",
        "array_equal",
        "assert_close",
        "assert_allclose",
        "assert_array_equal",
        "assert_array_almost_equal",
        "assert_almost_equal",
        "assert_equal",
        "assertEqual",
        "assertAlmostEqual",
        "assertListEqual",
        "assertTupleEqual",
        "assertDictEqual",
        "assertSetEqual",
        "assertSequenceEqual",
        "assertMultiLineEqual",
        "assertCountEqual",
        "assertIs",
    ]
)
ONE_SIDED = frozenset(
    [
        "assertNotEqual",
        "assertNotAlmostEqual",
        "assertIsNot",
        "assertIn",
        "assertNotIn",
        "assertGreater",
        "assertGreaterEqual",
        "assertLess",
        "assertLessEqual",
        "assert_array_less",
    ]
)
FLAGS = frozenset(
    ["assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone", "assertIsInstance"]
)
EXPECTED_ERRORS = frozenset(
    ["assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex"]
)
LIMITS = frozenset({"assertLess", "assertLessEqual"})
_ANSWERS_BOOL = frozenset({"allclose", "equal", "array_equal"})
_KEYWORDS = (
    ("a", "actual", "first", "input", "x"),
    ("b", "desired", "expected", "second", "other", "y"),
)
_MESSAGES = ("msg", "err_msg")


@dataclass(frozen=True)
class Site:
    """One comparison in the text of a suite.

    Attributes:
        name: the function that compares.
        line: where, in the published file.
        operands: how many of its arguments are compared; 0: whether a block raises what it should.
        withheld: the operands that the candidate's copy does not have.
        limit_at: of a difference: the site that holds it against a limit; else -1.
        squared: of a difference: whether its square is what is held against the limit.
    """

    name: str
    line: int
    operands: int
    withheld: tuple[int, ...] = ()
    limit_at: int = -1
    squared: bool = False

    @property
    def weak(self) -> bool:
        """Whether what it hands out could be made up without an answer: a flag, a type, an exception."""
        return self.name in FLAGS or self.name in EXPECTED_ERRORS or self.name in ONE_SIDED


class Writer(ast.NodeTransformer):
    """Copies a tree, with every site handed to the recorder."""

    def __init__(
        self,
        numbers: Mapping[int, int],
        sites: Sequence[Site],
        hidden: set[int],
        *,
        withhold: bool,
    ) -> None:
        self._numbers, self._sites, self._hidden = numbers, sites, hidden
        self._withhold = withhold

    def copy(self, tree: ast.Module) -> ast.Module:
        """The copy; the tree stays as it is."""
        made = self.visit(tree)
        assert isinstance(made, ast.Module)
        # Nothing may stand before imports from __future__.
        made.body = [one for one in made.body if not isinstance(one, ast.Pass)]
        return made

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """A copy of a node with everything in it visited."""
        made = copy.copy(node)
        return super().generic_visit(_with_own_lists(made))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """A statement that is only an expression: no docstring, no comparison of expectations."""
        if isinstance(node.value, ast.Constant):
            return ast.Pass()
        if id(node.value) in self._hidden and self._withhold:
            return ast.Pass()
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """Loops go over dictionaries in the order of their keys."""
        made = self.generic_visit(node)
        assert isinstance(made, ast.For)
        made.iter = _recorder("ordered", [made.iter])
        return made

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A difference that is held against a limit."""
        made = self.generic_visit(node)
        assert isinstance(made, ast.BinOp)
        if id(node) not in self._numbers:
            return made
        number = ast.Constant(self._numbers[id(node)])
        return _recorder("minus", [number, made.left, made.right])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A comparison."""
        made = self.generic_visit(node)
        assert isinstance(made, ast.Call)
        if id(node) not in self._numbers:
            return made
        number = self._numbers[id(node)]
        site = self._sites[number]
        if site.name in EXPECTED_ERRORS:
            return _recorder(
                "expects", [ast.Constant(number), made.func, *made.args], made.keywords
            )
        positional = list(made.args)
        if site.name.startswith("assert") and site.name[6:7].isupper():
            keep = (
                3
                if "Almost" in site.name
                else 2
                if site.name == "assertIsInstance"
                else site.operands
            )
            positional = positional[:keep]
        keywords = [each for each in made.keywords if each.arg not in _MESSAGES]
        if not (site.withheld and self._withhold):
            count = ast.Constant(site.operands)
            return _recorder(
                "compare", [ast.Constant(number), count, made.func, *positional], keywords
            )
        kept: list[ast.expr] = []
        for index in range(site.operands):
            found = operand(made, index, site.operands)
            kept.append(ast.Constant(...) if index in site.withheld or found is None else found)
        answer = ast.Constant(True if site.name in _ANSWERS_BOOL else None)
        return _recorder("part", [ast.Constant(number), answer, *kept])


def _with_own_lists(node: ast.AST) -> ast.AST:
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(node, name, list(value))
    return node


def _recorder(
    method: str, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword] = ()
) -> ast.Call:
    function = ast.Attribute(ast.Name(RECORDER, ast.Load()), method, ast.Load())
    return ast.Call(function, list(arguments), list(keywords))


def drop_unused(function: ast.FunctionDef, candidates: set[str]) -> None:
    """Take away assignments to names of this function, and functions in it, that nothing needs any more."""
    while needless := candidates - used(function):
        _Dropper(needless).visit_body(function)
        candidates = candidates - needless


def drop_helpers(tree: ast.Module, used_before: set[str]) -> None:
    """Take away functions and methods of the suite that nothing needs any more."""
    while True:
        needless = used_before - used(tree)
        dropped = False
        for owner in ast.walk(tree):
            if not isinstance(owner, ast.Module | ast.ClassDef):
                continue
            for place, node in enumerate(owner.body):
                if isinstance(node, ast.FunctionDef) and node.name in needless:
                    owner.body[place] = ast.Pass()
                    dropped = True
        if not dropped:
            return


def used(tree: ast.AST) -> set[str]:
    """Names and attributes that are read somewhere."""
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


class _Dropper(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_body(self, function: ast.FunctionDef) -> None:
        """Everything in a function."""
        function.body = [self.visit(each) for each in function.body]

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """An assignment to one name."""
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            return self._maybe(node, node.targets[0].id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function in the function."""
        return self._maybe(node, node.name)

    def _maybe(self, node: ast.stmt, name: str) -> ast.AST:
        return ast.Pass() if name in self._names else self.generic_visit(node)


def operand(call: ast.Call, index: int, count: int) -> ast.expr | None:
    """The index-th operand of a comparison."""
    if index < len(call.args):
        node = call.args[index]
        return None if isinstance(node, ast.Starred) else node
    if count == 1:
        return None
    return next((each.value for each in call.keywords if each.arg in _KEYWORDS[index]), None)


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))
