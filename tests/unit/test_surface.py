"""The public surface of a file, and the challenges at scope library."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.dataset.surface import surface
from rcb_env.env.settings import Shown
from rcb_env.env.workspace import Workspace, WorkspaceError
from rcb_env.errors import PaperError, UsageError
from rcb_env.play.joint_extraction import extract_for


def test_bodies_go_and_signatures_docstrings_and_fields_stay() -> None:
    text = '''"""Words."""

import math

LEAST = 1e-3
TABLE = [x for x in range(3)]
_own = 4


def area(
    r: float, *, exact: bool = True  # in metres
) -> float:  # how
    """Of a circle."""
    # pi times the square
    return math.pi * r * r


def _helper():
    return 1


class Tube(Base):
    """A tube."""

    r: float
    h: float = 2.0
    table = make()

    @property
    def size(self): return self.r

    def _hidden(self):
        return 1

    @staticmethod
    def of(x): ...


if __name__ == "__main__":
    area(1)
'''
    found = surface(text)
    assert (
        found
        == '''"""Words."""

import math

LEAST = 1e-3
TABLE = ...


def area(
    r: float, *, exact: bool = True  # in metres
) -> float:  # how
    """Of a circle."""
    raise NotImplementedError


class Tube(Base):
    """A tube."""

    r: float
    h: float = 2.0
    table = ...

    @property
    def size(self):
        raise NotImplementedError

    @staticmethod
    def of(x):
        ...
'''
    )
    ast.parse(found)


def test_attributes_are_named_in_the_order_in_which_they_are_made() -> None:
    text = """class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.last, self.first = nn.Linear(width, 1), nn.Linear(1, width)
        self._private = 1
        self.register_buffer("mean", torch.zeros(1))
        for _ in range(2):
            self.deep = width

    def forward(self, x):
        self.seen = x
        return self.last(x)
"""
    assert "    # attributes, in this order: last, first, mean, deep\n" in surface(text)
    assert "seen" not in surface(text)


def test_a_private_name_stays_where_other_code_reads_it() -> None:
    text = "def _helper(x):\n    return x\n\n\n_LEAST = 3\n"
    assert surface(text) == ""
    assert surface(text, read={"_helper", "_LEAST"}) == (
        "def _helper(x):\n    raise NotImplementedError\n\n_LEAST = 3\n"
    )


def test_a_value_in_a_region_is_not_kept() -> None:
    text = "RATE = 0.1\nSIZE = 3\n"
    assert surface(text, hidden={1}) == "RATE = ...\nSIZE = 3\n"


def test_a_name_whose_value_is_not_kept_keeps_its_type_and_its_company() -> None:
    text = "class A:\n    sizes: list[int] = field(default_factory=list)\n\nLOW, HIGH = bounds()\n"
    assert surface(text) == "class A:\n    sizes: list[int] = ...\n\nLOW = HIGH = ...\n"


@pytest.mark.parametrize(
    "head",
    [
        'def f(x, sep="#"):',
        'def f(x, *, key=lambda v: v["#"]) -> "dict[str, int]":  # a note: no body',
        "def f(\n    x,  # comments: are kept\n    y={1: 2},\n) -> dict[str, int]:",
        "class A(dict[str, int], metaclass=type):",
    ],
)
def test_of_a_definition_its_head_is_kept_and_nothing_of_its_body(head: str) -> None:
    body = "    # how: by halves\n    if 1:\n        rate = 3\n"
    left = surface(f"{head}\n{body}")
    rest = "pass" if head.startswith("class") else "raise NotImplementedError"
    assert left == f"{head}\n    {rest}\n"


@pytest.fixture(scope="module")
def library(
    tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]
) -> Challenge:
    tagged = '# <paper2code name="rate">\n{}# </paper2code name="rate">\n'
    files = {
        "src/steps.py": "from kinds import WIDE\nfrom rates import rate\n\n"
        + tagged.format("HALF = 0.5\n")
        + "\n\ndef step(x):\n    return x * rate() * HALF\n",
        "src/rates.py": "def rate():\n    return 3\n",
        "src/kinds.py": '"""Kinds."""\n\nWIDE = 3\n',
        "src/demo.py": "from steps import step\n\nprint(step(1))\n",
        "tests/cases.py": "from rcb_env.cases import case\n\n\n@case(seeds=1)\ndef steps(tree, rng):\n"
        '    return tree.load("steps").step(2.0)\n',
    }
    folder = write_paper(tmp_path_factory.mktemp("papers") / "small", files)
    return load_dataset(f"{folder}@library").challenge("small@library")


def test_files_that_no_case_loads_or_that_are_surface_are_handed_over_whole(
    library: Challenge,
) -> None:
    seen = library.workspace()
    assert seen["src/kinds.py"].endswith(b"WIDE = 3\n")
    assert library.files == ("src/rates.py", "src/steps.py")
    assert seen["src/demo.py"] == b"from steps import step\n\nprint(step(1))\n"
    assert seen["src/steps.py"] == (
        b"from kinds import WIDE\nfrom rates import rate\n\nHALF = ...\n\n\ndef step(x):\n    raise NotImplementedError\n"
    )


def test_statements_on_one_line_are_kept_one_by_one() -> None:
    """A line with a semicolon was once kept as a whole, with what is computed on it, and twice if both of it are kept."""
    text = "A = 1; B = compute(A); C = 3  # last\nclass Point: x: int; y: int = zero()\n"
    assert surface(text) == (
        "A = 1\nB = ...\nC = 3\n\n\nclass Point:\n    x: int\n    y: int = ...\n"
    )


def test_a_line_end_that_only_python_knows_has_no_surface(
    tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    tagged = 'def f():\n    # <paper2code name="f">\n    return 1\n    # </paper2code name="f">\n'
    folder = write_paper(tmp_path / "old", {"src/a.py": tagged + "A = 1\rB = 2\n"})
    with pytest.raises(PaperError, match="carriage return"):
        load_dataset(f"{folder}@library")


@pytest.mark.parametrize(
    "line", ["from .b import g", "from . import b", "import pkg.b as b", "from ..pkg import b"]
)
def test_what_a_package_imports_is_missing_too(
    tmp_path: Path, write_paper: Callable[..., Path], line: str
) -> None:
    tagged = '    # <paper2code name="{0}">\n    return 1\n    # </paper2code name="{0}">\n'
    files = {
        "src/pkg/__init__.py": "from . import base\n",
        "src/pkg/base.py": "def h():\n    return 1\n",
        "src/pkg/a.py": f"{line}\n\n\ndef f():\n" + tagged.format("f"),
        "src/pkg/b.py": "def g():\n" + tagged.format("g"),
        "src/pkg/other.py": "def i():\n    return 1\n",
        "tests/cases.py": "from rcb_env.cases import case\n\n\n@case(seeds=1)\ndef one(tree, rng):\n"
        '    return tree.load("pkg.a").f()\n',
    }
    folder = write_paper(tmp_path / "packed", files)
    made = load_dataset(f"{folder}@library").challenge("packed@library")
    assert set(made.files) == {"src/pkg/a.py", "src/pkg/b.py", "src/pkg/base.py"}


def test_a_whole_file_may_become_any_other(library: Challenge) -> None:
    space = Workspace(library, Shown(with_hint=False))
    told = space.write_region("# file: src/rates.py\ndef rate():\n    return 3\n")
    assert told == "wrote 1 of 2 files: src/rates.py lines 1-2"
    space.replace("HALF = ...", "HALF = 0.5", "src/steps.py")
    assert "src/steps.py  (8 lines; to be written)" in space.list_files()
    with pytest.raises(WorkspaceError, match="# file: NAME"):
        space.write_region("def rate():\n    return 3\n")
    with pytest.raises(WorkspaceError, match="may not change; only the files may change"):
        space.replace("print", "pass", "src/demo.py")
    graded = library.tree(space.code)
    assert graded["src/rates.py"] == b"def rate():\n    return 3\n"
    assert b"HALF = 0.5" in graded["src/steps.py"]


@pytest.mark.parametrize(
    "block",
    [
        "```python\n# file: src/rates.py\n{}```\n",
        "```python\n# src/rates.py\n{}```\n",
        "### `src/rates.py`\n\n```python\n{}```\n",
        "```python src/rates.py\n{}```\n",
        '```python title="src/rates.py"\n{}```\n',
    ],
)
def test_a_file_in_a_reply_is_known_by_its_path(library: Challenge, block: str) -> None:
    code = "def rate():\n    return 3\n"
    found = extract_for(library, block.format(code)).code
    assert found == f"# file: src/rates.py\n{code}"


def test_a_paper_without_a_surface_says_why(
    tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    source = 'def f():\n    # <paper2code name="f">\n    return 1\n    # </paper2code name="f">\n'
    unused = write_paper(tmp_path / "unused", {"src/a.py": source})
    with pytest.raises(UsageError, match="no case of the data set unused loads a file"):
        load_dataset(f"{unused}@library")
    broken = write_paper(tmp_path / "broken", {"src/a.py": source, "src/b.py": "def\n"})
    with pytest.raises(PaperError, match=r"b\.py.*no Python"):
        load_dataset(f"{broken}@library")
