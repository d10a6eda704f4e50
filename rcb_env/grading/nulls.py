"""Answers that know nothing of the paper: the cases any of them passes are free, and partial credit does not count them.

An answer does nothing, raises, returns a constant or an argument of the function it stands in, or gives a constant to every
name that later code reads from it. Of several parts all are answered alike; of a whole file
all functions are.

Guarantees: pure. Every answer is Python where its file was, and no two give the same files.
Not covered: answers that stop the run (a loop without end, an exit): they earn nothing anyway (`rcb_env.grading.worth`);
code copied from elsewhere in the paper (`rcb_env.certify.nothing`).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from rcb_env.dataset.markers import Masked
from rcb_env.dataset.papers import Challenge
from rcb_env.dataset.surface import STUB

CONSTANTS = ("None", "0", "1", "True", "False", "[]")
ERRORS = ("ValueError", "TypeError")
_ARGUMENTS = 2  # of a function, that are tried


def null_answers(challenge: Challenge) -> dict[str, str]:
    """The answers by what they do, the simplest first; `{}` for an open challenge, whose baseline stands for them."""
    if challenge.is_open:
        return {}
    parts = [*_parts(challenge)]
    found: dict[str, str] = {}
    for name in ("pass", *_names(parts)):
        codes = {part.name: part.code(name) for part in parts}
        answer = challenge.holes.join(codes) if challenge.holes else codes[""]
        found.setdefault(answer, name)
    return {name: answer for answer, name in found.items()}


def _names(parts: list[_Part]) -> Iterator[str]:
    yield from (f"raise {error}" for error in ERRORS)
    yield from (f"return {value}" for value in CONSTANTS)
    arguments = max(len(part.arguments) for part in parts)
    yield from (f"return argument {number + 1}" for number in range(arguments))
    if any(part.defines for part in parts):
        yield from (f"names = {value}" for value in (*CONSTANTS, "lambda *_, **__: None"))


@dataclass(frozen=True)
class _Part:
    """One missing part, and what can be said of it without reading its code."""

    name: str
    around: Masked
    indent: str
    defines: tuple[str, ...]
    arguments: tuple[str, ...]
    surface: str = ""

    def code(self, name: str) -> str:
        """The answer of this name; where it is no Python there, `pass`."""
        does, _, what = name.partition(" ")
        line = name
        if does == "return" and what.startswith("argument"):
            number = int(what.split()[1])
            line = f"return {self.arguments[number - 1]}" if number <= len(self.arguments) else ""
        elif does == "names":
            line = " = ".join((*self.defines, what[2:])) if self.defines else ""
        for each in filter(None, (line, "pass")):
            code = self.surface.replace(STUB, each) or f"{self.indent}{each}\n"
            if is_python(self.around.fill(code)):
                break
        return code


def _parts(challenge: Challenge) -> Iterator[_Part]:
    if challenge.holes is None:
        around = challenge.masked()
        indent = challenge.region.indent
        yield _Part("", around, indent, challenge.defines, _arguments(around, indent))
        return
    passes = {hole.name: hole.surface or f"{hole.region.indent}pass\n" for hole in challenge.holes}
    for path, file in challenge.holes.files.items():
        beside = challenge.holes.of(path)
        for number, hole in enumerate(beside):
            around = file.around(number, [passes[each.name] for each in beside])
            indent = hole.region.indent
            defines = challenge.defines_by_hole[hole.name]
            arguments = () if hole.surface else _arguments(around, indent)
            yield _Part(hole.name, around, indent, defines, arguments, hole.surface or "")


def _arguments(around: Masked, indent: str) -> tuple[str, ...]:
    """Of the function that the part stands in, without the object it is a method of."""
    line = around.before.count("\n") + 1
    tree = _parsed(around.fill(f"{indent}pass\n"))
    functions = [
        node
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno < line <= (node.end_lineno or 0)
    ]
    if not functions:
        return ()
    found = functions[-1].args  # the innermost: outer ones come first
    names = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
    return tuple(name for name in names if name not in ("self", "cls"))[:_ARGUMENTS]


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text.encode("utf-8", "replace"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_python(text: str) -> bool:
    """Whether a file with this text can be compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the paper's code, not about us
        try:
            compile(text.encode("utf-8", "replace"), "answer", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
