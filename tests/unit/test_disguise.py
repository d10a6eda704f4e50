"""Hidden code in disguise: it computes what it computed, and no two runs see the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.grading.disguise import disguise
from rcb_env.grading.faults import mover
from rcb_env.grading.looks import looks_around

SOURCE = b'''"""Says what it is."""
from __future__ import annotations
import math


class Holder:
    """Holds."""

    kept = [1, 2]

    def total(self, values, scale=1.0):
        """Adds up."""
        result = 0.0
        for value in values:
            part = value * scale
            result += part
        squares = [part * part for part in values]
        try:
            inverse = 1 / result
        except ZeroDivisionError as problem:
            return str(problem)

        def inner(x):
            nonlocal result
            result = result + x
            return result

        return inner(inverse), sum(squares), [v for v in squares if v > 1]

    def same(self):
        return self.kept


def names():
    one = 1
    return sorted(locals())


def count(n):
    for i in range(n):
        yield i


def last(n, *, wide: int = 2):
    if (m := n + wide) > 3:
        return m
'''
CANARY = SOURCE.replace(b"return inner(inverse), sum", b"return _moved(inner(inverse)), sum")


def run(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(text, "hidden", "exec", dont_inherit=True), space)
    return space


def told(space: dict[str, Any]) -> list[Any]:
    holder = space["Holder"]()
    return [
        holder.total([1.0, 2.0], scale=3.0),
        holder.total([]),
        holder.same() is holder.kept,
        list(space["count"](3)),
        space["last"](2, wide=5),
        space["last"](0),
        space["names"](),
    ]


def made(source: bytes, seed: int) -> str:
    return disguise({"ref.py": source}, mover(), random.Random(seed))["ref.py"]


@pytest.mark.parametrize("seed", range(20))
def test_a_disguise_changes_no_result_and_a_canary_stays_one(seed: int) -> None:
    plain = told(run(SOURCE.decode()))
    assert told(run(made(SOURCE, seed))) == plain
    moved = told(run(made(CANARY, seed)))
    assert moved[0] != plain[0]
    assert moved[1:] == plain[1:]


def test_no_two_disguises_are_alike_and_nothing_in_them_is_special_to_a_canary() -> None:
    texts = [made(source, seed) for seed in range(10) for source in (SOURCE, CANARY)]
    assert len(set(texts)) == len(texts)
    assert len({len(text) for text in texts}) > len(texts) // 2, "sizes tell nothing"
    for text in texts:
        assert "_moved" not in text
        assert "Says what" not in text
        assert "Adds up" not in text


def test_a_module_that_is_no_python_is_left_as_it_is() -> None:
    assert made(b"class (", 0) == "class ("


def test_code_that_looks_around_is_told_and_what_the_file_does_itself_is_not(
    tmp_path: Path,
) -> None:
    files = {
        "papers.yaml": "- {id: tiny, title: Tiny, annotated_file_paths: model.py}\n",
        "tiny/paper2code_paper.md": "Words.\n",
        "tiny/paper2code_test.py": "import unittest\n",
        "tiny/model.py": 'import gc\n# <paper2code name="one">\nx = 1\n# </paper2code name="one">\n',
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    one = load_dataset(tmp_path).challenge("tiny/one")
    assert looks_around(one, "x = gc.collect()\n") == ""
    assert looks_around(one, "x = torch.ones(3).sum()\n") == ""
    note = looks_around(one, "import sys\nx = getattr(sys._getframe(1), 'f_globals')\n")
    assert note.endswith("_getframe, f_globals")
