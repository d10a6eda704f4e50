"""What later code reads from a region: names, attributes and keys, and nothing that it binds for itself."""

from __future__ import annotations

import ast
import dis
import symtable
from collections.abc import Iterator
from types import CodeType

import pytest

from rcb_env.dataset.interface import defines
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge


def interface(text: str, **others: str) -> str:
    """The interface of the lines between ``# [`` and ``# ]``."""
    lines = text.split("\n")
    marks = [n for n, line in enumerate(lines, 1) if line.strip() in ("# [", "# ]")]
    region = range(marks[0] + 1, marks[1])
    files = {f"src/{name}.py": other for name, other in others.items()}
    return ", ".join(defines(text, region, file="src/model.py", others=files))


def body(*lines: str) -> str:
    return "def f(x, flag):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(body("# [", "a = x", "b = a", "# ]", "return b"), "b", id="local"),
        pytest.param(body("# [", "return x", "# ]"), "", id="a return"),
        pytest.param(body("# [", "x = x + 1", "# ]", "return x"), "x", id="an argument anew"),
        pytest.param(body("# [", "a = x", "# ]", "a = 2", "return a"), "", id="bound anew"),
        pytest.param(
            body("# [", "a = x", "# ]", "if flag:", "    a = 2", "return a"),
            "a",
            id="bound anew on one way",
        ),
        pytest.param(
            body("# [", "a = x", "# ]", "if flag:", "    a = 2", "else:", "    a = 3", "return a"),
            "",
            id="bound anew on both ways",
        ),
        pytest.param(body("# [", "a = x", "# ]", "a += 1"), "a", id="added to"),
        pytest.param(body("# [", "a, (b, *c) = x", "# ]", "return c, a"), "a, c", id="taken apart"),
        pytest.param(
            body("a = 0", "for i in x:", "    print(a)", "    # [", "    a = i", "    # ]"),
            "a",
            id="read in the next round",
        ),
        pytest.param(
            body("for i in x:", "    a = 0", "    print(a)", "    # [", "    a = i", "    # ]"),
            "",
            id="bound anew in each round",
        ),
        pytest.param(
            body("while True:", "    # [", "    a = x", "    break", "    # ]", "return a"),
            "a",
            id="left by break",
        ),
        pytest.param(
            body(
                "try:",
                "    # [",
                "    a = x",
                "    b = a",
                "    # ]",
                "except E:",
                "    print(a)",
                "finally:",
                "    print(b)",
            ),
            "a, b",
            id="read where an error is handled",
        ),
        pytest.param(
            body("# [", "a = x", "# ]", "def g():", "    return a", "return g"),
            "a",
            id="read by an inner function",
        ),
        pytest.param(
            body("# [", "a = x", "# ]", "def g(a):", "    return a", "return g"),
            "",
            id="an inner function's own",
        ),
        pytest.param(
            body(
                "def g():", "    nonlocal x", "    # [", "    x = 1", "    # ]", "g()", "return x"
            ),
            "x",
            id="nonlocal",
        ),
        pytest.param(
            body("# [", "i = x", "# ]", "return [i for i in flag]"), "", id="a comprehension's own"
        ),
        pytest.param(
            body("# [", "i = x", "# ]", "return [i for i in i]"),
            "i",
            id="what a comprehension runs over",
        ),
        pytest.param(
            body("# [", "if (n := len(x)) > 1:", "    pass", "# ]", "return n"), "n", id="walrus"
        ),
        pytest.param(
            body(
                "# [",
                "with x as a, x as b:",
                "    pass",
                "for i in x:",
                "    pass",
                "import os.path",
                "from q import r as s",
                "# ]",
                "return a, i, os, s",
            ),
            "a, i, os, s",
            id="bound otherwise",
        ),
        pytest.param(
            body("# [", "match x:", "    case [a, *b]:", "        pass", "# ]", "return b"),
            "b",
            id="match",
        ),
        pytest.param(
            body("# [", "def g():", "    pass", "def h():", "    g()", "# ]", "return h"),
            "h",
            id="inner functions",
        ),
        pytest.param(
            body("# [", "a = {}", "a['k'] = x", "a['j'] = x", "# ]", "return a['k']"),
            'a, a["k"]',
            id="a key",
        ),
        pytest.param(
            "def f(x):\n    # [\n    return {'loss': x, 'n': 1}\n    # ]\ndef g(x):\n    return f(x)['loss']\n",
            '["loss"]',
            id="the keys of what is returned",
        ),
        pytest.param(
            "# [\nA = 1\nB = 2\n_C = 3\n# ]\ndef f():\n    return B\n", "B", id="of a module"
        ),
        pytest.param(
            "# [\ndef f():\n    return _g()\ndef _g():\n    pass\n# ]\n",
            "f",
            id="functions of a module",
        ),
        pytest.param(
            "class A:\n    # [\n    def f(self):\n        return self._g()\n    def _g(self):\n        pass\n    # ]\n",
            "f",
            id="methods",
        ),
        pytest.param(
            "class A:\n    # [\n    def _f(self):\n        pass\n    # ]\n    def g(self):\n        self._f()\n",
            "_f",
            id="a method the class uses",
        ),
        pytest.param(
            "class A:\n    # [\n    n: int\n    m: int = 0\n    # ]\ndef f():\n    return A(n=1)\n",
            "n",
            id="fields",
        ),
        pytest.param(
            "# [\nclass A:\n    def __init__(self):\n        self.n = self.m = 1\n# ]\ndef f():\n    return A().n\n",
            "A, A.n",
            id="a class",
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        # [\n        self.n = self.m = 1\n        # ]\n    def f(self):\n        return self.n\n",
            "self.n",
            id="attributes",
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        # [\n        self.n = 1\n        # ]\nclass B:\n    def f(self):\n        return self.n\n",
            "",
            id="another class's attribute",
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        # [\n        self.n = 1\n        # ]\nclass B(A):\n    def f(self):\n        return self.n\n",
            "self.n",
            id="an heir's attribute",
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        # [\n        self.register_buffer('n', 1)\n        # ]\n    def f(self):\n        return self.n\n",
            "self.n",
            id="a buffer",
        ),
        pytest.param(
            "class F:\n    def forward(ctx, x):\n        # [\n        ctx.n = x\n        # ]\n    def backward(ctx, g):\n        return ctx.n\n",
            "ctx.n",
            id="a context",
        ),
        pytest.param("x = (\n    # [\n    1,\n    # ]\n)\n", "", id="a part of an expression"),
        pytest.param("def f(:\n# [\n# ]\n", "", id="no Python"),
    ],
)
def test_what_is_read_outside_of_the_region_is_told(text: str, names: str) -> None:
    assert interface(text) == names


@pytest.mark.parametrize(
    "other",
    [
        "from model import A\n",
        "from src.model import A as B\n",
        "import src.model as m\nprint(m.A)\n",
        "from src import model\nprint(model.A)\n",
        "from .model import *\nprint(A)\n",
    ],
)
def test_what_other_files_take_is_told(other: str) -> None:
    text = "# [\nA = 1\nB = 2\n# ]\n"
    assert interface(text, main=other) == "A"
    assert interface(text, main=other.replace("model", "modes")) == ""


# --- against the compiler ---------------------------------------------------------------------


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def compiled_reads(text: str, lines: range) -> set[str]:
    """Local names that the lines bind and other lines read, by the compiled code: which store reaches which load."""
    return {
        name
        for code in codes(compile(text, "x.py", "exec"))
        if any(line in lines for _, _, line in code.co_lines() if line)
        for name in _reaching(code, lines)
    }


def _reaching(code: CodeType, lines: range) -> Iterator[str]:
    steps = list(dis.get_instructions(code))
    at = {step.offset: number for number, step in enumerate(steps)}
    follow: list[list[int]] = []
    for number, step in enumerate(steps):
        jump = [at[step.argval]] if step.opcode in dis.hasjrel + dis.hasjabs else []
        ends = step.opname.startswith(("RETURN", "RAISE", "RERAISE"))
        always = step.opname in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
        follow.append(jump + ([] if ends or always or number + 1 == len(steps) else [number + 1]))
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        for number, step in enumerate(steps):
            if entry.start <= step.offset < entry.end:
                follow[number].append(at[entry.target])
    for number, step in enumerate(steps):
        line = step.positions.lineno if step.positions else None
        if not step.opname.startswith("STORE_FAST") or line not in lines:
            continue
        stored = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        for name in {stored[0], stored[-1]}:
            if name.isidentifier() and _reaches(steps, follow, number, name, lines):
                yield name


def _reaches(
    steps: list[dis.Instruction], follow: list[list[int]], start: int, name: str, lines: range
) -> bool:
    pending, seen = list(follow[start]), set[int]()
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        step = steps[number]
        mine = name == step.argval or (isinstance(step.argval, tuple) and name in step.argval)
        line = step.positions.lineno if step.positions else None
        if mine and "LOAD_FAST" in step.opname and line is not None and line not in lines:
            return True
        if not (mine and step.opname.startswith(("STORE_FAST", "DELETE_FAST"))):
            pending += follow[number]
    return False


def region(challenge: Challenge) -> tuple[str, range]:
    masked = challenge.masked()
    first = masked.before.count("\n") + 1
    return masked.fill(challenge.reference), range(first, first + challenge.reference.count("\n"))


def test_local_names_are_those_that_the_compiled_code_reads() -> None:
    """An independent judge: in the compiled reference a store of the region reaches a load outside of it."""
    seen = 0
    for challenge in load_dataset().challenges[::3]:
        text, lines = region(challenge)
        # Shared with inner functions, or bound by a definition: not a plain local everywhere.
        other = _closures(text) | {
            node.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno in lines
        }
        told = defines(text, lines, file=challenge.file)
        plain = {name for name in told if name.isidentifier()} - other
        assert plain == compiled_reads(text, lines) - other, challenge.id
        seen += len(plain)
    assert seen > 20


def _closures(text: str) -> set[str]:
    """Names that some function shares with an inner one: they live in cells, and run when they are called."""
    pending, found = [symtable.symtable(text, "x.py", "exec")], set()
    while pending:
        table = pending.pop()
        pending += table.get_children()
        found |= {name.get_name() for name in table.get_symbols() if name.is_free()}
    return found


def test_a_challenge_tells_what_is_read_from_it() -> None:
    challenge = load_dataset().challenge("DyT/parameters-and-their-initial-values")
    assert challenge.defines == ("self.alpha", "self.weight", "self.bias")
