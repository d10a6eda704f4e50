"""Where the values in a suite come from, read from its text: the candidate's code, or the suite itself.

A value is CANDIDATE where a call of something imported from the candidate's (or the reference's) modules made it, or
where it is an attribute, an item or a method's result of such a value. It is MADE where the suite computes it: a
literal, arithmetic, a call of a library or of a function of its own, even if something of the candidate's goes in. Anything
else is OTHER: parameters, and attributes nobody is seen to set.
Guarantees: pure; a value whose origin is in doubt is OTHER, about which nothing is concluded.
Not covered: flow of control. A name with several origins has the one they share, else OTHER.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, TypeGuard

Kind = Literal["candidate", "made", "other"]
CANDIDATE: Kind = "candidate"
MADE: Kind = "made"
OTHER: Kind = "other"

# Functions whose result is their first argument in another form.
_CONVERSIONS = frozenset(
    ["float", "int", "bool", "str", "len", "set", "list", "tuple", "sorted", "dict"]
)
_MAX_DEPTH = 20


class Kinds:
    """The kinds of one module's values.

    Args:
        tree: the module.
        of_candidate: dotted names of the modules that are the candidate's, or bound to them.
    """

    def __init__(self, tree: ast.Module, of_candidate: set[str]) -> None:
        self._imported: dict[str, bool] = {}  # name -> whether it is the candidate's
        self._modules: set[str] = set()  # names of modules that are not
        self._attributes: dict[str, list[ast.expr]] = {}
        self._where: dict[int, ast.FunctionDef] = {}  # id of an attribute's value -> its function
        self._locals: dict[str, dict[str, list[ast.expr]]] = {}
        self._defined: dict[str, set[str]] = {}
        self._known: dict[int, Kind] = {}  # by id of an expression of the tree
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    self._imported[name] = alias.name in of_candidate
                    if alias.name not in of_candidate:
                        self._modules.add(name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    ours = node.module in of_candidate or whole in of_candidate
                    self._imported[alias.asname or alias.name] = ours
            elif isinstance(node, ast.FunctionDef):
                self._read(node)

    def _read(self, function: ast.FunctionDef) -> None:
        found = self._locals.setdefault(function.name, {})
        self._defined.setdefault(function.name, set()).update(
            node.name
            for node in ast.walk(function)
            if isinstance(node, ast.FunctionDef) and node is not function
        )
        for target, value in _assignments(function):
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
            elif _is_of_the_test(target):
                self._attributes.setdefault(target.attr, []).append(value)
                self._where[id(value)] = function

    def locals_of(self, function: str) -> set[str]:
        """Names that a function of this name assigns, and functions that it defines."""
        return {*self._locals.get(function, ()), *self._defined.get(function, ())}

    def made_in(self, function: ast.FunctionDef) -> set[str]:
        """Names of a function that hold values the suite made."""
        found = self._locals.get(function.name, {})
        return {
            name
            for name, values in found.items()
            if all(self.of(value, function) == MADE for value in values)
        }

    def is_method(self, call: ast.Call) -> bool:
        """Whether a call is of a method of a value, and not of a module's or the test's own function."""
        if not isinstance(call.func, ast.Attribute):
            return False
        base = call.func.value
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name):
            return True
        return base.id not in self._modules and base.id not in ("self", "cls")

    def resolve(self, node: ast.expr, function: ast.FunctionDef) -> ast.expr:
        """What a name was assigned, where it was assigned once; anything else as it is."""
        for _ in range(_MAX_DEPTH):
            values = (
                self._locals.get(function.name, {}).get(node.id, [])
                if isinstance(node, ast.Name)
                else []
            )
            if len(values) != 1:
                return node
            node = values[0]
        return node

    def of(self, node: ast.expr, function: ast.FunctionDef) -> Kind:
        """The kind of an expression in a function."""
        if id(node) not in self._known:
            self._known[id(node)] = OTHER  # for names that are assigned from themselves
            self._known[id(node)] = self._of(node, function)
        return self._known[id(node)]

    def _of(self, node: ast.expr, function: ast.FunctionDef) -> Kind:
        match node:
            case ast.Name(id=name):
                return self._of_name(name, function)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                values = self._attributes.get(name, [])
                return _shared({self.of(value, self._where[id(value)]) for value in values})
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                return self.of(base, function)
            case ast.Call():
                return self._of_call(node, function)
            case ast.IfExp(body=one, orelse=other):
                return _shared({self.of(one, function), self.of(other, function)})
            case _:
                return MADE

    def _of_name(self, name: str, function: ast.FunctionDef) -> Kind:
        values = self._locals.get(function.name, {}).get(name)
        if values:
            return _shared({self.of(value, function) for value in values})
        if name in self._imported:
            return CANDIDATE if self._imported[name] else MADE
        return OTHER

    def _of_call(self, call: ast.Call, function: ast.FunctionDef) -> Kind:
        if isinstance(call.func, ast.Attribute):
            return self.of(call.func.value, function)
        if not isinstance(call.func, ast.Name):
            return self.of(call.func, function)
        name = call.func.id
        if name in _CONVERSIONS and call.args:
            return self.of(call.args[0], function)
        kind = self._of_name(name, function)
        return MADE if kind == OTHER and not self._is_parameter(name, function) else kind

    def _is_parameter(self, name: str, function: ast.FunctionDef) -> bool:
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return name in {one.arg for one in every}


def _is_of_the_test(target: ast.expr) -> TypeGuard[ast.Attribute]:
    """Whether a target is an attribute of the test case or its class."""
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id in ("self", "cls")
    )


def _shared(kinds: set[Kind]) -> Kind:
    return kinds.pop() if len(kinds) == 1 else OTHER


def _assignments(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every target in a function with what it is given; elements have the origin of the whole.

    Names of functions in the function are their own.
    """
    for node in _own(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _spread(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _spread(target, value)
            case ast.AugAssign(target=target, value=value):
                yield from _spread(target, ast.Constant(None))  # arithmetic
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from _spread(target, value)
            case ast.NamedExpr(target=target, value=value):
                yield target, value
            case _:
                pass


def _own(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own(child)


def _spread(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple | ast.List):
        elements = value.elts if isinstance(value, ast.Tuple) else []
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "zip":
            elements = value.args
        for index, each in enumerate(target.elts):
            same = len(elements) == len(target.elts)
            yield from _spread(each, elements[index] if same else value)
    else:
        yield target, value
