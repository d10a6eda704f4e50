"""The places of a piece of Python where a small fault can be made, and the text of each fault.

`Edits.of` walks a syntax tree and gives byte ranges of the source with what is to stand there instead: a changed number, a
swapped operator, a dropped statement.
Guarantees: pure; edits lie inside the code itself, and touch nothing that cannot matter (docstrings, type annotations,
texts of exceptions, printing).
Not covered: whether an edited source still parses and differs (`mutation.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

_NUMBER_SHIFTS = (1, -1)
_ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("/",)),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("*",)),
    ast.Mod: ("%", ("//",)),
    ast.Pow: ("**", ("*",)),
    ast.MatMult: ("@", ("*",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.BitXor: ("^", ("&",)),
}
# A boundary moved, then the whole comparison turned round.
_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_PAIRS = (
    "sum mean, min max, amin amax, argmin argmax, exp log, sin cos, sinh cosh, floor ceil, any all,"
    "cumsum cumprod, zeros ones, zeros_like ones_like, triu tril, maximum minimum, std var,"
    "softmax log_softmax, clamp_min clamp_max, logical_and logical_or, lt gt, le ge, eq ne"
)
_SWAPS = {
    name: other
    for pair in _PAIRS.split(",")
    for name, other in (pair.split(), reversed(pair.split()))
} | {"tanh": "sin", "sqrt": "abs", "expm1": "exp", "log1p": "log", "prod": "sum", "square": "abs"}
_BUILTIN_SWAPS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Calls whose first two arguments may change places.
_SYMMETRIC = frozenset(
    (
        *(
            "min",
            "max",
            "minimum",
            "maximum",
            "fmin",
            "fmax",
            "add",
            "mul",
            "multiply",
            "logaddexp",
        ),
        *("hypot", "gcd", "lcm", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"),
    )
)
_Placed = ast.expr | ast.stmt | ast.keyword  # the nodes that are edited; all know their place
Edit = tuple[int, int, str, str, str]  # first byte, end byte, new text, kind, description


class Edits:
    """Finds the edits of one source; byte positions, as the syntax tree counts columns."""

    def __init__(self, source: bytes, first: int, end: int) -> None:
        self._source = source
        self._first = first
        self._end = end
        self._lines = [0]
        for line in source.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._makers: dict[type[ast.AST], Callable[[ast.AST], Iterator[Edit]]] = {
            ast.Constant: self._constant,
            ast.BinOp: self._binary,
            ast.AugAssign: self._augmented,
            ast.Compare: self._comparison,
            ast.BoolOp: self._boolean,
            ast.UnaryOp: self._unary,
            ast.Call: self._call,
            ast.Slice: self._slice,
            ast.Return: self._returned,
            ast.Yield: self._returned,
        }

    def of(self, tree: ast.AST) -> Iterator[Edit]:
        """All edits inside the code itself, not in what frames it."""
        for node in self._walk(tree):
            if not self._inside(node):
                continue  # belongs to the frame
            if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
                yield from self._condition(node.test)
            if isinstance(node, ast.stmt):
                yield from self._statement(node)
            if maker := self._makers.get(type(node)):
                yield from maker(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.comprehension):
                for test in node.ifs:
                    if self._inside(test):
                        yield from self._condition(test)

    def _walk(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that may be changed, each before its children."""
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params") or (
                name == "msg" and isinstance(node, ast.Assert)
            ):
                continue
            if isinstance(node, ast.Raise):
                continue  # what an exception says is not looked at
            for child in value if isinstance(value, list) else [value]:
                # Places inside f-strings are not told rightly before Python 3.12.
                if isinstance(child, ast.JoinedStr) or _is_print(child):
                    continue
                if isinstance(child, ast.AST):
                    yield from self._walk(child)

    # --- places -------------------------------------------------------------------------------

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, _Placed)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def _inside(self, node: ast.AST) -> bool:
        if not isinstance(node, _Placed):
            return False
        start, end = self._span(node)
        return self._first <= start and end <= self._end

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _token(self, start: int, end: int, token: str) -> tuple[int, int] | None:
        """Where ``token`` stands between two nodes; a comment there may hold anything."""
        gap = re.sub(rb"#[^\n]*", lambda found: b" " * len(found[0]), self._source[start:end])
        pattern = rb"\s+".join(re.escape(word.encode()) for word in token.split())
        found = re.search(pattern, gap)
        return (start + found.start(), start + found.end()) if found else None

    def _replace_token(
        self, left: ast.AST, right: ast.AST, token: str, news: Sequence[str], kind: str
    ) -> Iterator[Edit]:
        place = self._token(self._span(left)[1], self._span(right)[0], token)
        if place:
            for new in news:
                yield (*place, new, kind, f"`{token}` became `{new}`")

    def _replace(self, node: ast.AST, text: str, kind: str) -> Edit:
        return (
            *self._span(node),
            text,
            kind,
            f"`{_short(self._text(node))}` became `{_short(text)}`",
        )

    # --- operators ----------------------------------------------------------------------------

    def _constant(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Constant)
        value = node.value
        if isinstance(value, bool):
            yield self._replace(node, str(not value), "flag")
        elif isinstance(value, int | float):
            zero, one = type(value)(0), type(value)(1)
            for new in (*(value + type(value)(s) for s in _NUMBER_SHIFTS), -value, zero, one):
                if new != value:
                    yield self._replace(node, f"({new!r})" if new < 0 else repr(new), "number")

    def _binary(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.BinOp)
        if isinstance(node.left, ast.JoinedStr) or _is_text(node.left) or _is_text(node.right):
            return
        if isinstance(node.op, ast.Add | ast.Sub) and _is_number(node.right, 0):
            return
        if isinstance(node.op, ast.Mult | ast.Div | ast.Pow) and _is_number(node.right, 1):
            return
        token, news = _ARITHMETIC[type(node.op)]
        yield from self._replace_token(node.left, node.right, token, news, "arithmetic")

    def _augmented(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.AugAssign)
        token, news = _ARITHMETIC[type(node.op)]
        yield from self._replace_token(
            node.target, node.value, f"{token}=", [f"{new}=" for new in news] + ["="], "augmented"
        )

    def _comparison(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Compare)
        operands = [node.left, *node.comparators]
        for left, right, operator in zip(operands, operands[1:], node.ops, strict=False):
            token, news = _COMPARISONS[type(operator)]
            yield from self._replace_token(left, right, token, news, "comparison")

    def _boolean(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.BoolOp)
        token, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        start, end = self._span(node)
        parts, position = [], start
        for left, right in zip(node.values, node.values[1:], strict=False):
            place = self._token(self._span(left)[1], self._span(right)[0], token)
            if place is None:
                return
            parts.append(self._source[position : place[0]].decode() + new)
            position = place[1]
        # Brackets keep the operands together: `and` binds more tightly than `or`.
        text = "(" + "".join(parts) + self._source[position:end].decode() + ")"
        yield (start, end, text, "boolean", f"`{token}` became `{new}`")

    def _unary(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.UnaryOp)
        if isinstance(node.op, ast.UAdd) or isinstance(node.operand, ast.Constant):
            return  # the number itself is changed
        kind = "not" if isinstance(node.op, ast.Not) else "sign"
        token = {ast.Not: "not", ast.USub: "-", ast.Invert: "~"}[type(node.op)]
        start, _ = self._span(node)
        end = start + len(token)
        while self._source[end : end + 1] in (b" ", b"\t"):
            end += 1
        yield (start, end, "", kind, f"`{token}` dropped from `{_short(self._text(node))}`")

    def _condition(self, test: ast.expr) -> Iterator[Edit]:
        simple_comparison = isinstance(test, ast.Compare) and len(test.ops) == 1
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if not (simple_comparison or negated or isinstance(test, ast.Constant)):
            yield self._replace(test, f"not ({self._text(test)})", "condition")

    def _statement(self, node: ast.stmt) -> Iterator[Edit]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring, or `...`
        droppable = isinstance(
            node,
            ast.Expr
            | ast.Assign
            | ast.AugAssign
            | ast.Return
            | ast.Raise
            | ast.Assert
            | ast.Delete
            | ast.Break
            | ast.Continue,
        ) or (isinstance(node, ast.AnnAssign) and node.value is not None)
        if not droppable or (isinstance(node, ast.Expr) and _is_print(node.value)):
            return
        text = self._text(node)
        yield (*self._span(node), "pass", "statement", f"`{_short(text)}` dropped")

    def _call(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Call)
        name = _called(node)
        swaps = _SWAPS if isinstance(node.func, ast.Attribute) else _BUILTIN_SWAPS
        if name in swaps:
            end = self._span(node.func)[1]
            yield (
                end - len(name.encode()),
                end,
                swaps[name],
                "attribute",
                f"`{name}` became `{swaps[name]}`",
            )
        arguments = node.args[:2]
        if (
            len(arguments) == 2
            and not any(isinstance(argument, ast.Starred) for argument in arguments)
            and name not in _SYMMETRIC
        ):
            one, two = arguments
            start, end = self._span(one)[0], self._span(two)[1]
            between = self._source[self._span(one)[1] : self._span(two)[0]].decode()
            yield (
                start,
                end,
                self._text(two) + between + self._text(one),
                "arguments",
                f"`{_short(self._text(one))}` and `{_short(self._text(two))}` swapped",
            )
        yield from self._keywords(node)

    def _keywords(self, call: ast.Call) -> Iterator[Edit]:
        parts: list[ast.AST] = sorted([*call.args, *call.keywords], key=self._span)
        for number, part in enumerate(parts):
            if not isinstance(part, ast.keyword) or part.arg is None:
                continue
            start = self._span(part)[0]
            closing = self._span(call)[1] - 1
            if number + 1 < len(parts):
                end = self._span(parts[number + 1])[0]
            else:
                end = closing
                if number and (comma := self._token(self._span(parts[number - 1])[1], start, ",")):
                    start = comma[0]
            yield (start, end, "", "keyword", f"`{_short(self._text(part))}` dropped")

    def _slice(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Slice)
        start, end = self._span(node)
        if node.lower is None:
            yield (start, start, "1", "slice", "the slice starts at 1")
        elif not _is_number(node.lower):
            text = self._text(node.lower)
            yield self._replace(node.lower, f"({text}) + 1", "slice")
        if node.upper is None:
            after = self._span(node.lower)[1] if node.lower else start
            if colon := self._token(after, end, ":"):
                yield (colon[1], colon[1], "-1", "slice", "the slice ends one earlier")
        elif not _is_number(node.upper):
            text = self._text(node.upper)
            for change in (" + 1", " - 1"):
                yield self._replace(node.upper, f"({text}){change}", "slice")

    def _returned(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Return | ast.Yield)
        if node.value is None:
            return
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for value in values:
            if isinstance(value, ast.Compare | ast.BoolOp):
                yield self._replace(value, f"(not ({self._text(value)}))", "return")
            elif isinstance(
                value, ast.BinOp | ast.Call | ast.Name | ast.Attribute | ast.Subscript | ast.IfExp
            ) and not (isinstance(value, ast.Name) and value.id in ("self", "cls")):
                yield self._replace(value, f"(-({self._text(value)}))", "return")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_number(node: ast.AST, value: int | None = None) -> bool:
    """Whether the node is a number (this number), with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and (value is None or node.value == value)
    )


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_print(node: object) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    )


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:57] + "..."
