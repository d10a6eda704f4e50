"""`rcb suggest` proposes whole blocks, best first, and can tag them without changing anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.author.suggest import Proposal, context, proposals, tagged
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.markers import find_regions, strip_tags
from rcb_env.errors import UsageError

SOURCE = '''\
"""A module."""
import math

if math.pi > 3:
    LIMIT = 1


class RunningMean:
    def __init__(self, size):
        """Keep a mean."""
        self.size = size

    def add(self, value):
        # Only finite values count.
        if math.isfinite(value):
            for place in range(self.size):
                self.mean += (value - self.mean) / (place + 1)
        elif value > 0:
            self.infinite = True
        with self.lock:
            return self.mean * 2 + 1


def short(): return 1 + 1
def later(x): x += 1; return x
def nothing():
    """Only a docstring."""
'''


def found_in(text: str) -> dict[str, Proposal]:
    return {one.name: one for one in proposals(text, path="m.py")}


def test_functions_loops_conditionals_and_with_blocks_are_proposed() -> None:
    found = found_in(SOURCE)
    assert {(one.kind, name, one.start, one.end, one.lines) for name, one in found.items()} == {
        ("function", "running mean init", 11, 11, 1),
        ("function", "running mean add", 14, 21, 7),
        ("conditional", "Only finite values count.", 14, 19, 5),
        ("loop", "running mean add: loop over range(self.size)", 16, 17, 2),
        ("with", "running mean add: with self.lock", 20, 21, 2),
    }


def test_what_can_go_wrong_most_comes_first_and_nesting_is_told() -> None:
    found = proposals(SOURCE, path="m.py")
    assert found[0].name == "running mean add"
    numbers = {one.name: number for number, one in enumerate(found, start=1)}
    loop = found[numbers["running mean add: loop over range(self.size)"] - 1]
    assert loop.inside == numbers["Only finite values count."]
    assert found[0].inside is None


def test_tagged_files_have_just_these_regions_more() -> None:
    for text in (SOURCE, SOURCE.replace("\n", "\r\n")):
        found = proposals(text, path="m.py")
        made = tagged(text, found, path="m.py")
        assert strip_tags(made) == text
        assert {region.name for region in find_regions(made, path="m.py")} == {
            one.name for one in found
        }
        assert proposals(made, path="m.py") == (), "what is a region already is not proposed"


def test_no_proposal_cuts_a_region_in_two() -> None:
    for challenge in load_dataset().challenges[:20]:
        text = challenge.paper.files[challenge.file].decode()
        before = find_regions(text, path="m.py")
        for one in proposals(text, path="m.py"):
            made = tagged(text, [one], path="m.py")
            assert len(find_regions(made, path="m.py")) == len(before) + 1


def test_equal_names_are_told_apart() -> None:
    twice = "def f(x):\n    return x + 1\n\n\ndef f(x):\n    return x + 2\n"
    assert set(found_in(twice)) == {"f", "f (2)"}


def test_what_is_no_python_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"^m.py:1: is not Python: "):
        proposals("def f(:\n", path="m.py")
    binary = b"\x7fELF\xd0\xff".decode("utf-8", "surrogateescape")
    with pytest.raises(
        UsageError, match=r"^m.py: is not a Python source file in UTF-8; name another file$"
    ):
        proposals(binary, path="m.py")


def test_the_context_is_what_importing_the_file_can_load(tmp_path: Path) -> None:
    for name, content in {
        "paper.yaml": "",
        "src/model.py": "import blocks\nfrom parts import inner\n",
        "src/blocks.py": "import numpy\nimport deep\n",
        "src/deep.py": "X = 1\n",
        "src/parts/__init__.py": "",
        "src/parts/inner.py": "X = 1\n",
        "src/other.py": "import model\n",
        "tests/cases.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
    assert context(tmp_path / "src/model.py") == (
        "src/blocks.py",
        "src/deep.py",
        "src/parts/inner.py",
    )
