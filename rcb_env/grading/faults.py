"""Copies of a public folder's hidden modules with one fault each, the most telling first.

What makes a fault telling: values that the tests compare are moved, nothing else is touched. A function of the reference
whose results are moved also gives away a candidate that calls it. First come the functions that share code or a name
with the region, then faults of one operator or number in them (a constructor, an update in place), then the expected
values and the comparisons of the suite itself, which only give away a suite that was disabled.
Not covered: which of them a suite notices (`canaries.py`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rcb_env.dataset.loading import SUITE
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.mutation import mutants

_FUNCTIONS = 10  # functions of a reference that are tried for one region
_MUTANTS = 24  # faults of one operator that are tried for one region
_SUITE_MUTANTS = 30  # and for a whole suite
_FEW_LINES = 2  # shared by chance
_RELATED = 0.3  # shared lines, from which on a function counts as the region's

# Appended to a module. Moves every number a value holds, far enough for any tolerance; leaves shapes, types and gradients.
_MOVE = """

def _moved(value):
    kind = str(getattr(value, "dtype", ""))
    if kind:
        if "float" in kind or "complex" in kind:
            return value * 1.25 + 0.5
        return value + 1 if "int" in kind else value
    if value is None or isinstance(value, (bool, str, bytes, type)) or callable(value):
        return value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, (float, complex)):
        return value * 1.25 + 0.5
    if isinstance(value, dict):
        return type(value)({key: _moved(one) for key, one in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_moved, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_moved, value))
    if hasattr(value, "__dict__"):
        import copy

        value = copy.copy(value)
        for name, one in list(vars(value).items()):
            if getattr(one, "dtype", None) is not None or isinstance(one, float):
                setattr(value, name, _moved(one))
    return value
"""
# Comparisons: which of their arguments is moved. Of two values the second, of a difference and its limit the difference.
_COMPARED = {
    **dict.fromkeys(
        (
            *("allclose", "isclose", "equal", "array_equal", "assert_close", "assert_allclose"),
            *("assert_array_equal", "assert_array_almost_equal", "assert_almost_equal"),
            *("assertEqual", "assertAlmostEqual", "assertAllClose", "assertListEqual"),
            *("assertTupleEqual", "assertDictEqual", "assertSequenceEqual", "assertCountEqual"),
            *("assertGreater", "assertGreaterEqual"),
        ),
        1,
    ),
    **dict.fromkeys(("assertLess", "assertLessEqual"), 0),
}
_OF_NUMBERS = re.compile(r"close|almost|array|Close|Almost|Less")
_EXPECTED = re.compile(r"expect|ref|target|truth|want|record|original|known|golden|manual", re.I)


@dataclass(frozen=True)
class Fault:
    """Hidden modules with a fault.

    Attributes:
        place: file and line, for people.
        key: names the fault within its paper.
        related: whether it lies in what the reference has in place of the region.
        moves: whether it moves values; else it changes one operator or number.
    """

    place: str
    hidden: Mapping[str, bytes]
    key: str
    related: bool
    moves: bool  # moves values, instead of changing one operator


@functools.cache
def mover() -> ast.FunctionDef:
    """The function that canaries move values with."""
    made = ast.parse(_MOVE).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def hidden_modules(paper: Paper) -> dict[str, bytes]:
    """The suite and the modules only it imports."""
    return {path: data for path, data in paper.tests.items() if path.endswith(".py")}


def faults(challenge: Challenge) -> Iterator[Fault]:
    """Hidden modules with one fault each, the most telling first, none twice."""
    seen = set()
    for fault in _all(challenge):
        if fault.key not in seen:
            seen.add(fault.key)
            yield fault


def _all(challenge: Challenge) -> Iterator[Fault]:
    modules = {
        path: module
        for path, data in hidden_modules(challenge.paper).items()
        if (module := _Module.of(path, data)) is not None
    }
    references = [module for path, module in modules.items() if path != SUITE]
    ranked = _ranked(challenge, references)
    related = [function for score, function in ranked if score >= _RELATED]
    for function in related[:_FUNCTIONS]:
        yield from function.with_moved_results(challenge, related=True)
    seed = int(challenge.paper.content_hash[:8], 16)
    turns = [function.with_mutants(challenge, seed) for function in related[:4]]
    in_turn = (fault for turn in itertools.zip_longest(*turns) for fault in turn if fault)
    yield from itertools.islice(in_turn, _MUTANTS)
    suite = modules.get(SUITE)
    if suite is None:
        return
    yield from suite.with_moved_expectations(challenge)
    for function in [function for score, function in ranked if score < _RELATED][:_FUNCTIONS]:
        yield from function.with_moved_results(challenge, related=False)
    tests = [function for function in suite.functions if function.name.startswith("test")]
    turns = [function.with_mutants(challenge, seed, related=False) for function in tests]
    in_turn = (fault for turn in itertools.zip_longest(*turns) for fault in turn if fault)
    yield from itertools.islice(in_turn, _SUITE_MUTANTS)


@dataclass(frozen=True)
class _Module:
    """A hidden module, taken apart."""

    path: str
    data: bytes
    tree: ast.Module

    @classmethod
    def of(cls, path: str, data: bytes) -> _Module | None:
        try:
            return cls(path, data, ast.parse(data))
        except (SyntaxError, ValueError):
            return None

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")

    @cached_property
    def functions(self) -> list[_Function]:
        return list(_functions(self, self.tree, ""))

    def fault(
        self, challenge: Challenge, line: int, data: bytes, *, related: bool, moves: bool = True
    ) -> Fault:
        """The hidden modules with other content of this one."""
        key = hashlib.sha256(f"{self.path}\0".encode() + data).hexdigest()[:24]
        hidden = {**hidden_modules(challenge.paper), self.path: data}
        return Fault(f"{self.path}:{line}", hidden, key, related, moves)

    def moving(self, nodes: Iterable[ast.expr]) -> bytes:
        """The module with the values of these expressions moved; none lies within another."""
        lines = list(self.lines)
        for node in sorted(nodes, key=lambda one: (one.lineno, one.col_offset), reverse=True):
            last, end = (node.end_lineno or 0) - 1, node.end_col_offset or 0
            lines[last] = lines[last][:end] + b")" + lines[last][end:]
            first, start = node.lineno - 1, node.col_offset
            lines[first] = lines[first][:start] + b"_moved(" + lines[first][start:]
        return b"\n".join(lines) + _MOVE.encode()

    def with_moved_expectations(self, challenge: Challenge) -> Iterator[Fault]:
        """A suite whose expected values are moved, where they are made or where they are compared; all at once."""
        tests = [one.node for one in self.functions if one.name.startswith("test")]
        made = [node for test in tests for node in _expectations(test)]
        # Other functions of the suite compare as well, on behalf of its tests.
        numbers = list(_compared(self.tree, numbers=True))
        for nodes in (made, numbers, list(_compared(self.tree, numbers=False)) + numbers):
            if nodes:
                yield self.fault(challenge, nodes[0].lineno, self.moving(nodes), related=False)


@dataclass(frozen=True)
class _Function:
    """A function of a hidden module."""

    module: _Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    name: str
    owner: str  # the class or function around it, or ""

    @cached_property
    def code(self) -> frozenset[str]:
        first, last = self.node.body[0].lineno - 1, self.node.end_lineno or 0
        text = b"\n".join(self.module.lines[first:last]).decode("utf-8", "replace")
        return _code_lines(text)

    def with_moved_results(self, challenge: Challenge, *, related: bool) -> Iterator[Fault]:
        """Its module with everything it returns moved."""
        nodes = [node.value for node in _own(self.node, ast.Return) if node.value is not None]
        if nodes:
            data = self.module.moving(nodes)
            yield self.module.fault(challenge, self.node.lineno, data, related=related)

    def with_mutants(
        self, challenge: Challenge, seed: int, *, related: bool = True
    ) -> Iterator[Fault]:
        """Its module with one operator, number or statement of it changed."""
        lines = self.module.data.decode("utf-8", "surrogateescape").split("\n")
        start, end = self.node.body[0].lineno - 1, self.node.end_lineno or 0
        if start < self.node.lineno:  # all on one line
            return
        block = "\n".join(lines[start:end]) + "\n"
        for mutant in mutants(block, limit=20, seed=seed):
            changed = [*lines[:start], mutant.code.rstrip("\n"), *lines[end:]]
            data = "\n".join(changed).encode("utf-8", "surrogateescape")
            yield self.module.fault(
                challenge, start + mutant.line, data, related=related, moves=False
            )


def _functions(module: _Module, node: ast.AST, owner: str) -> Iterator[_Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _Function(module, child, child.name, owner)
            yield from _functions(module, child, child.name)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(module, child, child.name)
        else:
            yield from _functions(module, child, owner)


def _own(function: ast.AST, kind: type[ast.Return]) -> Iterator[ast.Return]:
    """The return statements of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, kind):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _own(child, kind)


def _expectations(test: ast.AST) -> Iterator[ast.expr]:
    """What a test assigns to names that speak of expected values."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and _EXPECTED.search(target.id):
                yield node.value


def _compared(tree: ast.AST, *, numbers: bool) -> Iterator[ast.expr]:
    """One side of every comparison: of the tolerant ones of numbers, or of all others."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Call):
            function = child.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            index = _COMPARED.get(name)
            if index is not None:
                if len(child.args) > index and bool(_OF_NUMBERS.search(name)) == numbers:
                    yield child.args[index]
                continue
        if isinstance(child, ast.Compare) and len(child.ops) == 1:
            less = isinstance(child.ops[0], ast.Lt | ast.LtE)
            if isinstance(child.ops[0], ast.Eq) and not numbers:
                yield child.comparators[0]
                continue
            if less and numbers and isinstance(tree, ast.Call | ast.Assert):
                yield child.left
                continue
        yield from _compared(child, numbers=numbers)


# --- which function of a reference stands for a region -------------------------------------------


def _ranked(challenge: Challenge, modules: Iterable[_Module]) -> list[tuple[float, _Function]]:
    """The functions of references, the region's own counterpart first."""
    name, owner = _around(challenge)
    region = _code_lines(challenge.reference)
    scored = []
    for module in modules:
        for function in module.functions:
            shared = len(region & function.code)
            score = max(
                shared / max(len(region), 1),
                shared / max(len(function.code), 1) if shared > 1 else 0.0,
            )
            if bare_name(function.name) == name:
                score += 1.0 if not owner or bare_name(function.owner) == owner else 0.3
            elif owner and bare_name(function.owner) == owner:
                score += 0.3
            scored.append((score, function))
    return sorted(scored, key=lambda one: (-one[0], len(one[1].code)))


def _around(challenge: Challenge) -> tuple[str, str]:
    """The innermost function around the region, or the first one in it, and what is around that; or ""."""
    text = challenge.masked().fill(challenge.reference)
    first = challenge.masked().before.count("\n") + 1
    last = first + challenge.reference.count("\n")
    module = _Module.of(challenge.file, text.encode("utf-8", "surrogateescape"))
    around = inside = None
    for function in module.functions if module else ():
        node = function.node
        if node.lineno <= first and (node.end_lineno or 0) >= last - 1:
            around = function
        elif inside is None and first <= node.lineno <= last:
            inside = function
    found = around or inside
    return ("", "") if found is None else (bare_name(found.name), bare_name(found.owner))


def bare_name(name: str) -> str:
    """A name without what marks it as a reference's."""
    return re.sub(r"_?(ref|reference)$", "", name, flags=re.IGNORECASE)


def shared_code(challenge: Challenge, path: str, data: bytes) -> float:
    """How much of a region's code one function of a module holds, from 0 to 1; 0 where it is but a line or two."""
    module = _Module.of(path, data)
    region = _code_lines(challenge.reference)
    shared = [len(region & function.code) for function in module.functions] if module else []
    most = max(shared, default=0)
    return most / len(region) if most > _FEW_LINES else 0.0


def _code_lines(text: str) -> frozenset[str]:
    lines = (line.split("#", 1)[0].strip() for line in text.split("\n"))
    return frozenset(line for line in lines if len(line) > 1)
