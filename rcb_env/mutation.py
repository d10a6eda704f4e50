"""Small faults for a region's code: what a good test suite must notice.

`mutants` makes variants of a piece of Python that each differ in one place: a changed number, a
swapped operator, a dropped statement. The source text is edited where the syntax tree says, so
indentation, comments and formatting stay, and a mutant can be put straight into its region.

Guarantees: pure and deterministic; every mutant parses wherever the original does, has a different
syntax tree than the original and than every other mutant, and changes nothing that cannot matter
(docstrings, type annotations, texts of exceptions, printing). Code that no syntax tree can be made
of gives no mutants.
Not covered: where an edit is made (`edits.py`); whether a mutant behaves differently. Some do not, and that is for a human to say.
"""

from __future__ import annotations

import ast
import hashlib
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from rcb_env.edits import Edits


@dataclass(frozen=True)
class Mutant:
    """A region's code with one fault.

    Attributes:
        code: the whole code, indented like the original.
        kind: the operator that made it, for instance "comparison".
        line: 1-based line of the code where the fault is.
        description: what was changed, unique among the mutants of one code.
    """

    code: str
    kind: str
    line: int
    description: str

    @property
    def hash(self) -> str:
        """Names the mutant as long as the code around the fault stays the same."""
        return hashlib.sha256(self.code.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def mutants(code: str, *, limit: int | None = None, seed: int = 0) -> list[Mutant]:
    """Faulty variants of ``code``, in the order of their places.

    Args:
        code: any run of whole lines, indented as in its file.
        limit: how many at most; a random sample is taken, spread over the whole code.
        seed: of that sample.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the code, not about us
        made = list(_all(code))
    if limit is not None and len(made) > limit:
        chosen = sorted(random.Random(seed).sample(range(len(made)), limit))
        made = [made[index] for index in chosen]
    return made


def _all(code: str) -> Iterator[Mutant]:
    found = _frame(code)
    if found is None:
        return
    before, after, tree = found
    source = (before + code + after).encode()
    first, end = len(before.encode()), len((before + code).encode())
    seen = {ast.dump(tree)}
    edits = sorted(Edits(source, first, end).of(tree), key=lambda edit: edit[:2])
    for start, stop, text, kind, description in edits:
        mutated = source[:start] + text.encode() + source[stop:]
        try:
            dump = ast.dump(ast.parse(mutated.decode()))
        except (SyntaxError, ValueError, RecursionError):
            continue
        if dump in seen:
            continue
        seen.add(dump)
        line = source.count(b"\n", first, start) + 1
        column = start - (source.rfind(b"\n", 0, start) + 1) + 1
        yield Mutant(
            code=mutated[first : len(mutated) - (len(source) - end)].decode(),
            kind=kind,
            line=line,
            description=f"{line}:{column} {description}",
        )


def _frame(code: str) -> tuple[str, str, ast.Module] | None:
    """Text to put before and after ``code`` so that it parses on its own, and the tree of all.

    ``return``, ``yield`` and ``await`` parse anywhere; what is missing is what indentation, a
    branch, an open header or an open bracket refers to.
    """
    if "\r" in code.replace("\r\n", ""):
        return None  # Python ends a line there, the file's own line count does not
    lines = [line for line in code.split("\n") if line.strip() and not line.strip().startswith("#")]
    if not lines:
        return None
    levels = [line[: len(line) - len(line.lstrip())] for line in lines]
    own, last = levels[0], levels[-1]
    lower: list[str] = []  # code may begin inside blocks that it leaves again
    for level in levels:
        if len(level) < len((lower or [own])[-1]):
            lower.append(level)
    open_block = "if 1:\n"
    befores = [
        open_block if own else "",
        ("" if "" in lower else open_block) + "".join(f"{level}if 1:\n" for level in lower[::-1]),
        f"{open_block if own else ''}{own}if 1:\n{own} pass\n",
        f"{open_block if own else ''}{own}try:\n{own} pass\n",
    ]
    end = "" if code.endswith("\n") else "\n"
    afters = ["", f"{end}{last} pass\n", f"{end}{own}except Exception:\n{own} pass\n"]
    frames = [(before, after) for after in afters for before in befores]
    frames += [(f"_{left}\n", f"{end}{right}\n") for left, right in ("()", "[]")]
    frames += [("{\n", f"{end}}}\n")]
    for before, after in frames:
        try:
            return before, after, ast.parse(before + code + after)
        except (SyntaxError, ValueError, RecursionError):
            continue
    return None
