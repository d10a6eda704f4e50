"""Split grading on folders in the public benchmark's layout: honest answers as in one process, and nothing to cheat with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.grader import Grader, Verdict

MODEL = '''"""Annotated file."""
import torch


# <paper2code name="scale">
def scale(x, factor):
    y = x * factor
    return y + 1
# </paper2code name="scale">


class Layer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size))

    def forward(self, x):
        # <paper2code name="forward">
        return {"y": x * self.weight, "norm": self.weight.norm()}
        # </paper2code name="forward">


def checked(x):
    # <paper2code name="checked">
    if x < 0:
        raise ValueError("negative")
    # </paper2code name="checked">
    return True
'''
SUITE = """import unittest

import numpy as np
import torch

from model import Layer, checked, scale
from model_ref import Layer as LayerRef
from model_ref import scale_ref


class TestScale(unittest.TestCase):
    def setUp(self):
        self.x = torch.randn(3, 4)

    def test_equivalence(self):
        self.assertTrue(torch.allclose(scale(self.x, 2.5), scale_ref(self.x, 2.5)), "they differ")

    def test_formula(self):
        secret_formula = self.x * 3.0 + 1
        got = scale(self.x, 3.0)
        self.assertEqual(got.shape, self.x.shape)
        np.testing.assert_allclose(got.numpy(), secret_formula.numpy(), rtol=1e-5)

    def test_distance(self):
        distance = (scale(self.x, 0.5) - scale_ref(self.x, 0.5)).abs().max()
        self.assertLess(distance, 1e-5)


class TestLayer(unittest.TestCase):
    def test_outputs(self):
        layer, reference = Layer(4), LayerRef(4)
        reference.load_state_dict(layer.state_dict())
        x = torch.randn(2, 4)
        one, other = layer(x), reference(x)
        for key in one:
            torch.testing.assert_close(one[key], other[key])

    @unittest.skip("not today")
    def test_not_today(self):
        self.assertTrue(False)


class TestChecked(unittest.TestCase):
    def test_negative(self):
        with self.assertRaises(ValueError):
            checked(-1)
        self.assertTrue(checked(1))
"""
FILES = {
    "papers.yaml": "- {id: tiny, title: Tiny, annotated_file_paths: model.py}\n",
    "tiny/paper2code_paper.md": "Multiply and add one.\n",
    "tiny/model.py": MODEL,
    "tiny/model_ref.py": "\n".join(
        line
        for line in MODEL.replace("def scale(", "def scale_ref(").split("\n")
        if "# <" not in line
    ),
    "tiny/paper2code_test.py": SUITE,
}
HEAD = "def scale(x, factor):\n"


def challenge(root: Path, name: str = "scale", **others: str) -> Challenge:
    """A region of the folder, or of one where files have another content."""
    files: Mapping[str, str] = {**FILES, **{f"tiny/{key}.py": text for key, text in others.items()}}
    for path, text in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    return load_dataset(root).challenge(f"tiny/{name}")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("public")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(official=True) as made:
        yield made


def grade(grader: Grader, one: Challenge, code: str, *, final: bool = True) -> Verdict:
    verdict = grader.grade(one, code, final=final)
    assert verdict.evidence == "split", verdict
    return verdict


def test_the_reference_passes_and_its_pass_is_proven(grader: Grader, root: Path) -> None:
    one = challenge(root)
    verdict = grade(grader, one, one.reference)
    assert verdict.proven, verdict
    assert (verdict.notes, verdict.official_pass) == ((), True)
    assert [case.case for case in verdict.cases] == [
        "TestChecked.test_negative",
        "TestLayer.test_outputs",
        "TestScale.test_distance",
        "TestScale.test_equivalence",
        "TestScale.test_formula",
    ], "a test that is skipped is no test"


@pytest.mark.parametrize(
    "body",
    [
        "    return 1 + factor * x\n",
        "    return torch.addcmul(torch.ones_like(x), x, torch.tensor(factor))\n",
        "    return (x.double() * factor + 1).float() * (1 + 1e-7)\n",
        "    torch.rand(7)\n    return x * factor + 1\n",  # draws, after all inputs of a test were made
    ],
)
@pytest.mark.parametrize("final", [True, False])
def test_another_right_answer_passes(grader: Grader, root: Path, body: str, final: bool) -> None:
    verdict = grade(grader, challenge(root), HEAD + body, final=final)
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("body", "error_class", "told"),
    [
        ("    return x * factor\n", "value", "assertLess in line 29"),
        (
            "    return x * factor + 1.01\n",
            "value",
            "TestScale.test_distance: - in line 28: operand 1",
        ),
        ("    return z\n", "name", "NameError: name 'z' is not defined"),
        ("    return x[:2] * factor + 1\n", "shape", "size"),
        ("    return (\n", "syntax", "SyntaxError"),
        ("    import unittest\n    raise unittest.SkipTest('no')\n", "value", "did not report it"),
        ("    import os\n    os._exit(0)\n", "other", "did not complete"),
    ],
)
def test_a_wrong_answer_fails_and_is_told_why(
    grader: Grader, root: Path, body: str, error_class: str, told: str
) -> None:
    verdict = grade(grader, challenge(root), HEAD + body)
    assert (verdict.status, verdict.error_class) == ("failed", error_class), verdict
    assert told in verdict.message or "operand" in verdict.message, verdict


def test_feedback_tells_the_texts_of_errors_since_nothing_secret_is_where_they_come_from(
    grader: Grader, root: Path
) -> None:
    body = "    raise RuntimeError('factor is ' + str(factor))\n"
    verdict = grade(grader, challenge(root), HEAD + body, final=False)
    assert "factor is 2.5" in str(verdict.cases)


def test_a_dictionary_in_another_order_is_the_same_answer(grader: Grader, root: Path) -> None:
    one = challenge(root, "forward")
    code = (
        '        norm = self.weight.norm()\n        return {"norm": norm, "y": self.weight * x}\n'
    )
    assert grade(grader, one, code).passed
    wrong = '        return {"y": x * self.weight, "norm": self.weight.sum()}\n'
    assert not grade(grader, one, wrong).passed


def test_a_region_that_only_exceptions_give_away_is_not_called_split(
    grader: Grader, root: Path
) -> None:
    """Whoever knows the suite can make a flag up; such a pass is not proven."""
    one = challenge(root, "checked")
    verdict = grader.grade(one, one.reference, final=True)
    assert verdict.passed, verdict
    assert (verdict.evidence, verdict.proven) == ("guarded", False)
    assert "only flags" in grader.decision(one).why


CHEATS = {
    "every comparison says yes": """
    import numpy, unittest
    torch.allclose = torch.equal = numpy.allclose = lambda *a, **k: True
    torch.testing.assert_close = numpy.testing.assert_allclose = lambda *a, **k: None
    for name in dir(unittest.TestCase):
        if name.startswith('assert') and 'Raises' not in name:
            setattr(unittest.TestCase, name, lambda *a, **k: None)
    return x
""",
    "the recorder sends nothing": """
    import sys
    frame = sys._getframe(1)
    rcb = frame.f_globals['__rcb__']
    type(rcb)._record = lambda *a: None
    return x
""",
    "the recorder sends every record twice": """
    import sys
    rcb = sys._getframe(1).f_globals['__rcb__']
    if not hasattr(type(rcb), 'old'):
        type(rcb).old = type(rcb)._record
        type(rcb)._record = lambda self, *a: (self.old(*a), self.old(*a))
    return x
""",
    "the formula is looked for in the suite": """
    import gc
    for found in gc.get_objects():
        if 'secret_formula' in str(getattr(getattr(found, '__code__', None), 'co_varnames', '')):
            return eval('x * factor + 1')
    return x
""",
    "the reference is looked for": """
    import sys
    ref = sys._getframe(1).f_globals.get('scale_ref') or sys.modules['model_ref'].scale_ref
    return x if ref.__code__.co_code == scale.__code__.co_code else ref(x, factor)
""",
}


@pytest.mark.parametrize("code", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheat_finds_nothing_to_cheat_with(grader: Grader, root: Path, code: str) -> None:
    one = challenge(root)
    verdict = grade(grader, one, HEAD + code.lstrip("\n"))
    assert verdict.status == "failed", verdict
    assert grade(grader, one, one.reference).passed


def test_a_suite_that_fails_with_some_seeds_is_seeded_with_another(
    grader: Grader, tmp_path: Path
) -> None:
    """A suite's own draws may give its reference a case it cannot pass: not-a-number is close to nothing."""
    suite = SUITE.replace(
        "        self.x = torch.randn(3, 4)\n",
        "        self.x = torch.randn(3, 4)\n"
        "        if torch.rand(1) < 0.5:\n            self.x[0, 0] = float('nan')\n",
    )
    one = challenge(tmp_path, paper2code_test=suite)
    verdict = grader.grade(one, one.reference, final=False)
    assert verdict.passed or "fails on the reference" in verdict.message, verdict


def test_the_limits_hold(grader: Grader, root: Path) -> None:
    one = challenge(root)
    short = replace(one, paper=replace(one.paper, time_limit_s=3.0))
    grade(grader, short, one.reference)
    body = "    import time\n    time.sleep(30)\n    return x\n"
    assert grade(grader, short, HEAD + body).status == "timeout"
