"""The two copies of a public suite: what is numbered, what is withheld, what is bound."""

from __future__ import annotations

import ast
from pathlib import Path

from rcb_env.dataset.loading import load_dataset
from rcb_env.grading.copies import Copies, copies

MODEL = """import torch


class Layer:
    # <paper2code name="call">
    def __call__(self, x):
        y = torch.tanh(x)
        z = y * 2
        return z + 1
    # </paper2code name="call">
"""
HEAD = """\"\"\"What it tests.\"\"\"
from __future__ import annotations
import unittest
import numpy as np
import torch
from model import Layer
"""


def made(root: Path, suite: str, **modules: str) -> Copies:
    """The copies of a suite; the body of one test may be given alone."""
    if "class " not in suite:
        body = "\n".join(f"        {line}" for line in suite.strip().split("\n"))
        suite = f"{HEAD}\nclass TestLayer(unittest.TestCase):\n    def test_it(self):\n{body}\n"
    files = {
        "papers.yaml": "- {id: tiny, title: Tiny, annotated_file_paths: model.py}\n",
        "tiny/paper2code_paper.md": "Words.\n",
        "tiny/model.py": MODEL,
        "tiny/paper2code_test.py": suite,
        **{f"tiny/{name}.py": text for name, text in modules.items()},
    }
    for path, text in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    return copies(load_dataset(root).papers[0])


def texts(found: Copies) -> tuple[str, str]:
    assert not found.trouble
    for source in (*found.judge.values(), *found.candidate.values()):
        ast.parse(source)
    return found.judge["paper2code_test.py"], found.candidate["paper2code_test.py"]


def test_what_the_suite_expects_is_only_in_the_judges_copy(tmp_path: Path) -> None:
    judge, candidate = texts(
        made(
            tmp_path,
            """
layer = Layer()
x = torch.randn(3)
def formula(values):
    return torch.tanh(values) * 2 + 1
expected = formula(x)
got = layer(x)
self.assertEqual(expected.shape, x.shape)
self.assertTrue(torch.allclose(got, expected), f"{got} is not {expected}")
np.testing.assert_allclose(layer(x), torch.tanh(x) * 2 + 1)
""",
        )
    )
    assert judge.count("tanh") == 2
    assert "tanh" not in candidate
    assert "expected" not in candidate
    assert "is not" not in candidate
    assert "x = torch.randn(3)" in candidate


def test_a_reference_is_bound_by_the_names_it_defines(tmp_path: Path) -> None:
    suite = HEAD + (
        "from published import LayerReference\n\nclass TestLayer(unittest.TestCase):\n"
        "    def test_it(self):\n        x = torch.ones(2)\n"
        "        self.assertTrue(torch.equal(Layer()(x), LayerReference()(x)))\n"
    )
    reference = MODEL.replace("class Layer", "class LayerReference")
    found = made(tmp_path, suite, published=reference)
    _, candidate = texts(found)
    (bound,) = found.bound
    assert (bound.module, bound.file) == ("published", "model.py")
    assert bound.aliases == {"LayerReference": "Layer"}
    assert "published.py" not in found.candidate
    assert "compare(1, 2, torch.equal, Layer()(x), LayerReference()(x))" in candidate


def test_a_suite_that_needs_a_module_with_the_answer_has_no_copies(tmp_path: Path) -> None:
    suite = HEAD + "import helpers\n\nclass TestLayer(unittest.TestCase):\n    pass\n"
    named = "class Layer:\n    pass\n\n\ndef one():\n    pass\n\n\ndef two():\n    pass\n"
    assert "it defines Layer" in made(tmp_path, suite, helpers=named).trouble
    shared = "def one(x):\n    y = torch.tanh(x)\n    z = y * 2\n    return z + 1\n"
    assert "shares code with tiny/call" in made(tmp_path, suite, helpers=shared).trouble
    assert not made(tmp_path, suite, helpers="def one(x):\n    return x\n").trouble


def test_a_difference_held_against_a_limit_hands_out_both_sides(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        """
one, other = Layer()(torch.ones(2)), Layer()(torch.ones(2))
error = ((one - other) ** 2).mean()
self.assertLess(error, 1e-6)
""",
    )
    _, candidate = texts(found)
    assert "minus(1, one, other) ** 2" in candidate
    assert (found.sites[1].limit_at, found.sites[1].squared) == (0, True)
    assert [site.weak for site in found.sites] == [True, False]


def test_only_comparisons_of_the_suite_are_numbered_and_flags_are_weak(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        """
got = Layer()(torch.ones(2))
with self.assertRaises(TypeError):
    Layer()(None)
self.assertTrue(got.allclose(got + 0))
self.assertEqual(len(got), 2)
self.assertIn("a", {"a": 1})
print(got)
""",
    )
    judge, candidate = texts(found)
    assert [site.name for site in found.sites] == [
        *("assertRaises", "assertTrue", "allclose", "assertEqual", "assertIn")
    ]
    assert [site.weak for site in found.sites] == [True, True, False, False, True]
    assert "part(3, None, len(got), ...)" in candidate
    assert "compare(3, 2, self.assertEqual, len(got), 2)" in judge


def test_what_cannot_be_told_apart_is_left_and_what_must_differ_is_only_a_flag(
    tmp_path: Path,
) -> None:
    found = made(
        tmp_path,
        """
expected = torch.ones(2)
expected = Layer()(expected)
self.assertTrue(torch.allclose(Layer()(torch.ones(2)), expected))
self.assertFalse(torch.allclose(expected, torch.zeros(2)))
""",
    )
    _, candidate = texts(found)
    assert not any(site.withheld for site in found.sites)
    assert [site.name for site in found.sites] == ["assertTrue", "allclose", "assertFalse"]
    assert candidate.count("compare(") == 3


def test_a_suite_that_is_no_python_has_no_copies(tmp_path: Path) -> None:
    assert "cannot be read" in made(tmp_path, "class (").trouble
