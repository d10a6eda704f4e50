"""The public surface of a Python file: what others may count on, without how it is done.

Kept as written: docstrings, imports, signatures with their defaults and decorators, fields of classes, and values of names that
are no result of a computation. A body becomes ``raise NotImplementedError``. Private names go, unless other code reads them. The
attributes that a class gives its instances are named in a comment, in order, as parameters of a model are ordered by them.

Guarantees: pure; the surface of valid Python is valid Python; no line is new but the stubs and that comment. What stands inside a
region of the file is never a value that is kept.
Not covered: whether a case asks for more than a surface and the paper say.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Collection, Iterable, Iterator

from rcb_env.dataset.flow import parts

STUB = "raise NotImplementedError"
"""What stands in place of a body."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef
_COMPUTED = (ast.Call, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_REGISTER = ("register_buffer", "register_parameter", "register_module", "add_module")


def surface(text: str, *, hidden: Collection[int] = (), read: Collection[str] = ()) -> str:
    """The surface of a file.

    Args:
        text: the file, without tags.
        hidden: lines, from 1, that stand in a region.
        read: names that other code reads.
    """
    module = ast.parse(text)
    return "".join(_Surface(text, hidden, read).of(module.body, "")).lstrip("\n")


def says_all(left: str, text: str) -> bool:
    """Whether nothing of a file went with its surface, comments aside."""
    return ast.dump(ast.parse(left)) == ast.dump(ast.parse(text))


def names_read(text: str) -> set[str]:
    """Names, and names of attributes, that a file mentions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # getattr, and names of modules
    return found


def imported(text: str, package: str = "") -> set[str]:
    """Modules that a file imports, and the packages they are in.

    Args:
        text: the file.
        package: the one it is in, dotted: where its relative imports begin.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join(filter(None, (*above, node.module)))
            found |= {base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)}
    return with_packages(found)


def with_packages(modules: Iterable[str]) -> set[str]:
    """Modules, and the packages above them, which are loaded before them."""
    found: set[str] = set()
    for name in modules:
        while name:
            found.add(name)
            name = name.rpartition(".")[0]
    return found


class _Surface:
    def __init__(self, text: str, hidden: Collection[int], read: Collection[str]) -> None:
        self._lines = [*text.split("\n")]
        self._hidden, self._read = hidden, read

    def of(self, body: Iterable[ast.stmt], indent: str) -> Iterator[str]:
        """What is kept of a module's or a class's statements."""
        for node in body:
            if isinstance(node, _Definition):
                if self._public(node.name):
                    apart = "\n\n" if not indent else "\n"
                    yield apart + self._definition(node, indent)
                continue
            blank = node.lineno > 1 and not self._lines[node.lineno - 2].strip()
            apart = "\n" if blank else ""
            if self._kept(node):
                yield apart + (
                    self._text(node.lineno, node.end_lineno or node.lineno)
                    if self._alone(node)
                    else f"{indent}{ast.unparse(node)}\n"
                )
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                names = _bound(node)
                if any(map(self._public, names)):
                    type = (
                        f": {ast.unparse(node.annotation)}"
                        if isinstance(node, ast.AnnAssign)
                        else ""
                    )
                    yield f"{apart}{indent}{' = '.join(names)}{type} = ...\n"

    def _definition(self, node: _Definition, indent: str) -> str:
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        begins = node.body[0]
        inner = f"{indent}    "
        if begins.lineno == node.lineno:  # `def f(): return 1`
            line = self._lines[node.lineno - 1].encode()[: begins.col_offset].decode()
            head = self._text(first, node.lineno - 1) + line.rstrip() + "\n"
        else:
            head = self._text(first, self._header_end(node))
            inner = self._lines[begins.lineno - 1][: begins.col_offset] or inner
        if _is_text(begins) and begins.lineno != node.lineno:
            head += self._text(begins.lineno, begins.end_lineno or begins.lineno)
        if isinstance(node, ast.ClassDef):
            rest = node.body[1:] if _is_text(begins) else node.body
            names = _attributes(node)
            told = f"{inner}# attributes, in this order: {', '.join(names)}\n" if names else ""
            body = "".join(self.of(rest, inner))
            return head + told + (body or ("" if _is_text(begins) else f"{inner}pass\n"))
        if _is_stub(node):
            return head if _is_text(node.body[-1]) else f"{head}{inner}...\n"
        return f"{head}{inner}{STUB}\n"

    def _header_end(self, node: _Definition) -> int:
        """The line of the colon: comments behind it belong to the body."""
        lines = iter([f"{line}\n" for line in self._lines[node.lineno - 1 :]])
        depth = 0
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.OP:
                if token.string == ":" and not depth:
                    return node.lineno + token.start[0] - 1
                depth += (token.string in _OPENING) - (token.string in _CLOSING)
        raise AssertionError("a definition without a colon")

    def _public(self, name: str) -> bool:
        return name[0] != "_" or name[-2:] == "__" or name in self._read

    def _kept(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
            return True
        if isinstance(node, ast.If):  # `if TYPE_CHECKING`, and no program
            return "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            return False
        within = any(
            line in self._hidden for line in range(node.lineno, (node.end_lineno or 0) + 1)
        )
        computed = node.value is not None and any(
            isinstance(part, _COMPUTED) for part in ast.walk(node.value)
        )
        plain = isinstance(node, ast.AnnAssign) and node.value is None
        return any(map(self._public, _bound(node))) and (plain or not (within or computed))

    def _alone(self, node: ast.stmt) -> bool:
        """Whether nothing else stands on its lines, such as another statement behind a semicolon."""
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        last = self._lines[(node.end_lineno or node.lineno) - 1].encode()
        after = last[node.end_col_offset :].strip()
        return not before.strip() and (not after or after.startswith(b"#"))

    def _text(self, first: int, last: int) -> str:
        return "".join(f"{line}\n" for line in self._lines[first - 1 : last])


def _bound(node: ast.Assign | ast.AnnAssign) -> list[str]:
    """The names that an assignment binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [
        part.id
        for each in targets
        for part in ast.walk(each)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    ]


def _attributes(node: ast.ClassDef) -> list[str]:
    """Attributes that the class's constructor gives its instances, in order; private ones are none."""
    found: dict[str, None] = {}
    for method in node.body:
        if not isinstance(method, _Function) or method.name not in ("__init__", "__post_init__"):
            continue
        own = method.args.args[0].arg if method.args.args else ""
        marks = [each for each in parts(method) if isinstance(each, ast.expr)]
        for part in sorted(marks, key=lambda each: (each.lineno, each.col_offset)):
            base = part.value if isinstance(part, ast.Attribute) else None
            if isinstance(base, ast.Name) and base.id == own and isinstance(part, ast.Attribute):
                if isinstance(part.ctx, ast.Store):
                    found[part.attr] = None
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                first = part.args[0] if part.args else None
                if part.func.attr in _REGISTER and isinstance(first, ast.Constant):
                    found[str(first.value)] = None
    return [name for name in found if name[0] != "_"]


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_stub(node: _Function) -> bool:
    """Whether a function has no body but words and dots, as those of a protocol."""
    return all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in node.body
    )
