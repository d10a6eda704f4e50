"""Mutants differ in one place, keep the layout, and leave out what cannot matter."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.mutation import Mutant, mutants


def lines(code: str, kind: str | None = None) -> list[str]:
    """The one line that each mutant of a one-line code consists of."""
    return [mutant.code.strip() for mutant in mutants(code) if kind in (None, mutant.kind)]


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("x = 3\n", "number", ["x = 4", "x = 2", "x = (-3)", "x = 0", "x = 1"]),
        ("x = 0.5\n", "number", ["x = 1.5", "x = (-0.5)", "x = 0.0", "x = 1.0"]),
        ("x = a + b\n", "arithmetic", ["x = a - b"]),
        ("x = (a)  *  (b)\n", "arithmetic", ["x = (a)  /  (b)"]),
        ("x = a ** b @ c\n", "arithmetic", ["x = a * b @ c", "x = a ** b * c"]),
        ("x = a < b\n", "comparison", ["x = a <= b", "x = a >= b"]),
        ("x = a not  in b is c\n", "comparison", ["x = a in b is c", "x = a not  in b is not c"]),
        ("x = a and b and c\n", "boolean", ["x = (a or b or c)"]),
        ("x = not (a)\n", "not", ["x = (a)"]),
        ("x = -a\n", "sign", ["x = a"]),
        ("if a and b: pass\n", "condition", ["if not (a and b): pass"]),
        ("x = [i for i in a if f(i)]\n", "condition", ["x = [i for i in a if not (f(i))]"]),
        ("x = y\n", "statement", ["pass"]),
        ("a = 1; b = 2\n", "statement", ["pass; b = 2", "a = 1; pass"]),
        ("f(a, b, c)\n", "arguments", ["f(b, a, c)"]),
        ("f(a, k=1, m=(2))\n", "keyword", ["f(a, m=(2))", "f(a, k=1)"]),
        ("f(k=(1),)\n", "keyword", ["f()"]),
        ("f(\n  k=1,  # a, b\n  **m)\n", "keyword", ["f(\n  **m)"]),
        ("x = f(True)\n", "flag", ["x = f(False)"]),
        ("x = y.sum(z.exp())\n", "attribute", ["x = y.mean(z.exp())", "x = y.sum(z.log())"]),
        ("x = max(a)\n", "attribute", ["x = min(a)"]),
        ("y = x[a:b]\n", "slice", ["y = x[(a) + 1:b]", "y = x[a:(b) + 1]", "y = x[a:(b) - 1]"]),
        ("y = x[:, 0]\n", "slice", ["y = x[1:, 0]", "y = x[:-1, 0]"]),
        (
            "return a, self, b < c\n",
            "return",
            ["return (-(a)), self, b < c", "return a, self, (not (b < c))"],
        ),
        ("x += y\n", "augmented", ["x -= y", "x = y"]),
    ],
)
def test_each_operator_edits_the_source_at_its_place(
    code: str, kind: str, expected: list[str]
) -> None:
    assert lines(code, kind) == expected


@pytest.mark.parametrize(
    "code",
    [
        '"""A docstring 1 + 2."""\n',
        "def f():\n    '''A docstring.'''\n    ...\n",
        "print(1 + 2)\n",
        "x: int | 3\n",
        "def f(x: A[1] = None) -> B[2]: ...\n",
        "import math\n",
        "# only a comment\n",
        "",
        "\n",
        "x = = 1\n",
        "pass\n",
    ],
)
def test_what_cannot_matter_is_not_mutated(code: str) -> None:
    assert mutants(code) == []


def test_the_text_of_an_exception_is_not_looked_at() -> None:
    assert lines("raise ValueError('need %d' % (n + 1), 3)\n") == ["pass"]
    assert lines("assert f(x), f'{x + 1} of {2 * 3}'\n", "arithmetic") == []


def test_changes_that_are_certain_to_be_equivalent_are_left_out() -> None:
    assert lines("x = a + 0\n", "arithmetic") == []
    assert lines("x = a / 1\n", "arithmetic") == []
    assert lines("x = torch.maximum(a, b)\n", "arguments") == []
    assert lines("x = f(a, a)\n", "arguments") == []


REGION = '''\
        """Docs."""
        # scale, then "shift" + 1
        y = (x * 2.0  # not + here
             + self.b)

        if y.sum() > 0:
\t\treturn y  # a tab, as in the file
        return "é", y[1:]
'''.replace("\t\t", "            ")


def test_formatting_comments_and_indentation_are_kept() -> None:
    made = mutants(REGION)
    assert made
    for mutant in made:
        assert mutant.code.count("\n") == REGION.count("\n") or mutant.kind == "statement"
        assert mutant.code.startswith('        """Docs."""\n        # scale, then "shift" + 1\n')
        assert mutant.code.endswith("\n")
    plus = next(mutant for mutant in made if "`+` became" in mutant.description)
    assert "             - self.b)" in plus.code
    assert plus.line == 4
    assert plus.description == "4:14 `+` became `-`"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_ends_are_kept(ending: str) -> None:
    code = REGION.replace("\n", ending)
    for mutant in mutants(code):
        assert mutant.code.replace(ending, "").count("\n") == 0


@pytest.mark.parametrize(
    "code",
    [
        "    return x + 1\n",
        "    y = yield x + 1\n",
        "    await f(x + 1)\n",
        "    elif x + 1:\n        y = 1\n",
        "    else:\n        y = x + 1\n",
        "    except E:\n        y = x + 1\n",
        "        y = x + 1\n    z = 1\nw = 1\n",
        "        y = x + 1\n    else:\n        z = 1\n",
        "    for i in range(n + 1):\n",
        "def f(x=n + 1):\n",
        "    try:\n        y = x + 1\n",
        "    a=x + 1,\n    b=2,\n",
        "    x + 1,\n    2,\n",
        "    'a': x + 1,\n",
        "    y = x + 1",
        "\tif a:\n\t\ty = x + 1\n",
        '    s = """\nat the margin\n"""\n    y = x + 1\n',
        "    global q\n    nonlocal_ = x + 1\n    break\n",
    ],
)
def test_regions_that_are_no_whole_statements_are_mutated_too(code: str) -> None:
    made = mutants(code)
    assert any("`+` became `-`" in mutant.description for mutant in made)
    for mutant in made:
        assert mutant.code.endswith("\n") == code.endswith("\n")


@pytest.mark.parametrize("code", ["x = foo(\n", "x = 1\ry = 2\n", "x = '\udcff'\n", "x = 1 +\n"])
def test_what_has_no_syntax_tree_has_no_mutants(code: str) -> None:
    assert mutants(code) == []


def test_mutants_are_deterministic_unique_and_in_order() -> None:
    made = mutants(REGION)
    assert made == mutants(REGION)
    for key in ("code", "description", "hash"):
        assert len({getattr(mutant, key) for mutant in made}) == len(made)
    assert [mutant.line for mutant in made] == sorted(mutant.line for mutant in made)


def test_a_limit_takes_a_seeded_sample_in_order() -> None:
    made = mutants(REGION)
    sample = mutants(REGION, limit=5, seed=1)
    assert len(sample) == 5
    assert sample == [mutant for mutant in made if mutant in sample]
    assert sample == mutants(REGION, limit=5, seed=1)
    assert sample != mutants(REGION, limit=5, seed=2)
    assert mutants(REGION, limit=10_000) == made


_ATOMS = st.sampled_from(
    ["a", "b.c", "1", "2.5", "-3", "True", "x[i:]", "f(a, k=2)", "g(a, b)", "'é'"]
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(
                ["+", "-", "*", "/", "**", "@", "//", "%", "<", "==", "and", "or", "in"]
            ),
            inner,
        ).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda text: f"not {text}").map(lambda text: f"({text})"),
        inner.map(lambda text: f"h({text}, 1, key={text})"),
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x = {}", "x += {}", "return {}", "if {}: pass", "x[{}:] = 1"]),
            _EXPRESSIONS,
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["", "    ", "\t"]),
)
def test_every_mutant_parses_and_differs(statements: list[tuple[str, str]], indent: str) -> None:
    code = "".join(f"{indent}{form.format(value)}\n" for form, value in statements)
    original = ast.dump(ast.parse(textwrap.dedent(code)))
    dumps = [original]
    made: list[Mutant] = mutants(code)
    for mutant in made:
        dumps.append(ast.dump(ast.parse(textwrap.dedent(mutant.code))))
        assert all(line.startswith(indent) for line in mutant.code.splitlines())
    assert len(set(dumps)) == len(dumps)
