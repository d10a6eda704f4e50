"""Guarded grading on a folder in the public benchmark's layout: what passes, what fails, what is found out.

The folders' suites import a module that holds the answer, so that they cannot be split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.grader import Grader, Verdict

MODEL = '''"""Annotated file."""
import torch


def scale(x, factor):
    # <paper2code name="scale">
    y = x * factor
    return y + 1
    # </paper2code name="scale">


def untested(x):
    # <paper2code name="untested">
    return x - 1
    # </paper2code name="untested">
'''
REFERENCE = '''"""Reference."""


def scale_ref(x, factor):
    y = x * factor
    return y + 1
'''
SUITE = """import unittest

import torch

import answers
from model import scale, untested
from model_ref import scale_ref


class TestScale(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_equivalence(self):
        x = torch.randn(3, 4)
        self.assertTrue(torch.allclose(scale(x, 2.5), scale_ref(x, 2.5)))

    def test_values(self):
        for factor in (1.0, 2.0):
            with self.subTest(factor=factor):
                self.assertEqual(float(scale(torch.tensor(3.0), factor)), 3.0 * factor + 1)


if __name__ == "__main__":
    unittest.main()
"""
# What keeps a suite from being split: it needs a module of its own that holds the answer.
ANSWERS = """
def scale(x, factor):
    y = x * factor
    return y + 1


def shapes():
    return (3, 4)


def factors():
    return (1.0, 2.0)
"""
INDEX = """
- id: tiny
  title: Tiny
  annotated_file_paths: model.py
"""
RIGHT = "    y = x * factor\n    return y + 1\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    for path, text in {
        "papers.yaml": INDEX,
        "tiny/paper2code_paper.md": "Multiply and add one.\n",
        "tiny/model.py": MODEL,
        "tiny/model_ref.py": REFERENCE,
        "tiny/answers.py": ANSWERS,
        "tiny/paper2code_test.py": SUITE,
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture(scope="module")
def challenge(root: Path) -> Challenge:
    return load_dataset(root).challenge("tiny/scale")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(official=True) as made:
        yield made


def grade(grader: Grader, challenge: Challenge, code: str) -> Verdict:
    return grader.grade(challenge, code, final=True)


def test_the_reference_passes_by_our_rule_and_by_the_public_one(
    grader: Grader, challenge: Challenge
) -> None:
    verdict = grade(grader, challenge, challenge.reference)
    assert verdict.passed
    assert verdict.notes == ()
    assert verdict.official_pass is True
    assert [(result.case, result.outcome) for result in verdict.cases] == [
        ("TestScale.test_equivalence", "passed"),
        ("TestScale.test_values", "passed"),
    ]


@pytest.mark.parametrize(
    ("code", "error_class", "outcomes"),
    [
        ("    return x * factor\n", "value", ["failed", "failed"]),
        ("    return x * factor + (1 if x.dim() else 2)\n", "value", ["passed", "failed"]),
        ("    return z\n", "name", ["error", "error"]),
        ("    return x.repeat(2) * factor + 1\n", "shape", ["error", "error"]),
        ("    return x * factor + torch.ones(2)\n", "shape", ["error", "error"]),
        ("    return (\n", "syntax", ["not_run", "not_run"]),
        ("    import unittest\n    raise unittest.SkipTest('no')\n", "value", ["not_run"] * 2),
    ],
)
def test_a_wrong_region_fails_with_its_class_and_the_outcome_of_every_test(
    grader: Grader, challenge: Challenge, code: str, error_class: str, outcomes: list[str]
) -> None:
    verdict = grade(grader, challenge, code)
    assert (verdict.status, verdict.error_class) == ("failed", error_class)
    assert [result.outcome for result in verdict.cases] == outcomes


def test_right_code_that_prints_failed_passes_here_and_fails_by_the_public_rule(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C034: the public rule reads the output, even the part of it that is not kept."""
    code = "    print('x' * 200_000, 'failed', 'x' * 200_000)\n" + RIGHT
    verdict = grade(grader, challenge, code)
    assert verdict.passed
    assert verdict.official_pass is False


def test_an_early_exit_fails_here_and_passes_by_the_public_rule(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C032: exit code 0 without the tests having passed."""
    verdict = grade(grader, challenge, "    import os\n    os._exit(0)\n")
    assert verdict.status == "failed"
    assert "did not complete" in verdict.message
    assert verdict.official_pass is True


CALLS_THE_REFERENCE = [
    # Taken from the frame of the test that calls.
    "    import sys\n    return sys._getframe(1).f_globals['scale_ref'](x, factor)\n",
    # Found among all living objects.
    "    import gc\n"
    "    ref = [o for o in gc.get_objects() if getattr(o, '__name__', '') == 'scale_ref'][0]\n"
    "    return ref(x, factor)\n",
]
# The result objects of the tests under way are told that nothing went wrong.
FORGES_THE_RECORD = """    import gc, unittest
    unittest.TestCase.failureException = type('Never', (Exception,), {})
    for o in gc.get_objects():
        if type(o).__name__ == 'Recorder':
            good = type(o).addSuccess
            type(o).addFailure = type(o).addError = lambda s, t, err: good(s, t)
            type(o).addSubTest = lambda s, t, subtest, err: good(s, t)
            type(o).wasSuccessful = lambda s: True
    return x
"""


@pytest.mark.parametrize("code", CALLS_THE_REFERENCE)
def test_a_stolen_reference_is_found_out(grader: Grader, challenge: Challenge, code: str) -> None:
    """The suite passes, and passes with a known fault in the reference as well."""
    verdict = grade(grader, challenge, code)
    assert verdict.status == "tampered", verdict
    assert "known fault in model_ref.py" in verdict.message
    assert verdict.official_pass is True


def test_a_disabled_suite_is_found_out(grader: Grader, challenge: Challenge) -> None:
    """Case C045: whatever reports failures was replaced, so the canary goes unreported too."""
    verdict = grade(grader, challenge, FORGES_THE_RECORD)
    assert verdict.status == "tampered", verdict


def test_a_comparison_patched_during_the_tests_is_no_pass(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C045, for the comparisons a suite uses."""
    code = (
        "    import unittest\n    torch.allclose = lambda *a, **k: True\n"
        "    unittest.TestCase.assertTrue = lambda *a, **k: None\n"
        "    unittest.TestCase.assertEqual = lambda *a, **k: None\n    return x\n"
    )
    assert not grade(grader, challenge, code).passed


@pytest.mark.parametrize(
    "code",
    [
        "    import model_ref\n    return model_ref.scale_ref(x, factor)\n",
        "    import importlib\n"
        "    return importlib.import_module('model' + '_ref').scale_ref(x, factor)\n",
        "    import os\n"
        "    exec(open('model_ref.py').read(), globals())\n    return scale_ref(x, factor)\n",
        "    import sys\n    return sys.modules['model_ref'].scale_ref(x, factor)\n",
        "    import os\n"
        "    for folder, _, files in os.walk('/'):\n"
        "        for file in files:\n"
        "            assert 'model_ref' not in file and 'paper2code_test' not in file\n"
        "    raise RuntimeError('not found')\n",
    ],
)
def test_the_reference_is_on_no_path_and_in_no_module_table(
    grader: Grader, challenge: Challenge, code: str
) -> None:
    verdict = grade(grader, challenge, code)
    assert verdict.status == "failed", verdict
    assert verdict.error_class in ("import", "index_key", "other"), verdict


SUITE_THAT_IMPORTS_LATE = """from model import scale
import answers
from model_ref import scale_ref

import random
import unittest

import numpy
import torch


class TestScale(unittest.TestCase):
    def test_equivalence(self):
        x = torch.tensor([random.uniform(1.0, 2.0) for _ in range(4)])
        self.assertTrue(numpy.allclose(scale(x, 2.5).numpy(), scale_ref(x, 2.5).numpy()))
"""
SHADOWS = """    return x

import os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
for path in (NAME + '.py', NAME + '/__init__.py'):
    os.makedirs(os.path.dirname(os.path.join(HERE, path)), exist_ok=True)
    with open(os.path.join(HERE, path), 'w') as file:
        file.write('class TestCase: pass\\ndef __getattr__(name): return lambda *a, **k: True\\n')
for name in list(sys.modules):
    if name.partition('.')[0] == NAME:
        del sys.modules[name]
sys.path_importer_cache.clear()
"""


@pytest.fixture(scope="module")
def any_grader(maker_name: str) -> Iterator[Grader]:
    with Grader(maker_name, official=True) as made:
        yield made


def folder(root: Path, files: dict[str, str]) -> Challenge:
    """The region of a public folder that holds these files."""
    for path, text in {
        "papers.yaml": INDEX,
        "tiny/paper2code_paper.md": "Multiply and add one.\n",
        **{f"tiny/{path}": text for path, text in files.items()},
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return load_dataset(root).challenge("tiny/scale")


def test_a_module_put_beside_the_suite_is_of_no_use(any_grader: Grader, tmp_path: Path) -> None:
    """Case C043: a stub that the candidate writes as it is imported is found before the real module.

    The suite imports the candidate first, as none should.
    """
    files = {
        "model.py": MODEL,
        "model_ref.py": REFERENCE,
        "answers.py": ANSWERS,
        "paper2code_test.py": SUITE_THAT_IMPORTS_LATE,
    }
    challenge = folder(tmp_path, files)
    assert grade(any_grader, challenge, RIGHT).passed
    for name in ("unittest", "random", "numpy", "torch"):
        verdict = grade(any_grader, challenge, SHADOWS.replace("NAME", repr(name)))
        assert verdict.status == ("tampered" if name == "numpy" else "failed"), (name, verdict)
    assert grade(any_grader, challenge, RIGHT).passed


def test_a_suite_that_seeds_nothing_has_the_same_inputs_in_every_run(tmp_path: Path) -> None:
    """A right answer would pass in one run and fail in the next."""
    suite = (
        SUITE.replace("        torch.manual_seed(0)\n", "        self.x = torch.rand(3)\n")
        .replace("import torch\n", "import random\n\nimport numpy as np\nimport torch\n")
        .replace("float(scale(", "float(scale(0 * self.draw() + ")
        .replace("3.0 * factor + 1)", "3.0 * factor + 1)\n        print('drew', self.draw())")
    )
    suite = suite.replace(
        "    def test_equivalence",
        "    def draw(self):\n        return random.random() + np.random.rand() + float(self.x[0])\n\n"
        "    def test_equivalence",
    )
    challenge = folder(
        tmp_path,
        {
            "model.py": MODEL,
            "model_ref.py": REFERENCE,
            "answers.py": ANSWERS,
            "paper2code_test.py": suite,
        },
    )
    drawn = []
    for _ in range(2):
        with Grader("bubblewrap") as fresh:
            verdict = grade(fresh, challenge, RIGHT)
        assert verdict.passed, verdict
        drawn.append([line for line in verdict.stdout.splitlines() if line.startswith("drew")])
    assert drawn[0] == drawn[1] != []


def test_helper_files_that_a_folder_ships_keep_working(any_grader: Grader, tmp_path: Path) -> None:
    """Case C043: what keeps stubs away must not keep away the modules and data that belong to the paper."""
    suite = """import json
import unittest
from pathlib import Path

import torch

from checking.close import close
from model import scale
from model_ref import scale_ref
import inputs


class TestScale(unittest.TestCase):
    def test_equivalence(self):
        here = Path(__file__).parent
        for factors in (json.loads((here / "factors.json").read_text()), json.load(open("factors.json"))):
            for factor in factors:
                self.assertTrue(close(scale(inputs.make(), factor), scale_ref(inputs.make(), factor)))
"""
    files = {
        "model.py": MODEL.replace("import torch\n", "import torch\nfrom layers.basic import one\n")
        .replace("return y + 1", "return y + one(y)"),
        "layers/__init__.py": "",
        "layers/basic.py": "import torch\nfrom .kinds import KIND\n\n\ndef one(x):\n    return torch.ones_like(x, dtype=KIND)\n",
        "layers/kinds.py": "import torch\n\nKIND = torch.float32\n",
        "model_ref.py": REFERENCE,
        "inputs.py": "import torch\n\n\ndef make():\n    torch.manual_seed(0)\n    return torch.randn(3, 4)\n",
        "checking/__init__.py": "",
        "checking/close.py": "import torch\n\n\ndef close(a, b):\n    return torch.allclose(a, b)\n",
        "factors.json": "[1.0, 2.5]",
        "paper2code_test.py": suite,
    }  # fmt: skip
    challenge = folder(tmp_path, files)
    assert {"layers/basic.py", "layers/kinds.py"} <= challenge.workspace().keys()
    assert not {"inputs.py", "checking/close.py", "model_ref.py"} & challenge.workspace().keys()
    verdict = grade(any_grader, challenge, challenge.reference)
    assert verdict.passed, verdict
    assert verdict.notes == ()
    assert grade(any_grader, challenge, RIGHT).passed
    wrong = grade(any_grader, challenge, "    return x * factor\n")
    assert (wrong.status, wrong.error_class) == ("failed", "value")


def test_a_region_that_no_test_looks_at_passes_when_it_is_emptied(
    grader: Grader, root: Path
) -> None:
    untested = load_dataset(root).challenge("tiny/untested")
    assert grade(grader, untested, "    pass\n").passed


def test_a_suite_that_fails_on_the_reference_is_unavailable_and_no_failure(
    tmp_path: Path, grader: Grader
) -> None:
    for path, text in {
        "papers.yaml": INDEX,
        "tiny/paper2code_paper.md": "Multiply and add one.\n",
        "tiny/model.py": MODEL,
        "tiny/answers.py": ANSWERS,
        "tiny/model_ref.py": "from torch import mmcv\n",
        "tiny/paper2code_test.py": SUITE,
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    challenge = load_dataset(tmp_path).challenge("tiny/scale")
    verdict = grade(grader, challenge, challenge.reference)
    assert verdict.status == "infra_error"
    assert "cannot import name 'mmcv'" in verdict.message


def test_a_test_that_is_skipped_on_the_reference_may_be_skipped(
    grader: Grader, tmp_path: Path
) -> None:
    """A skip in both runs is a skip; it used to make every candidate tampered, the reference included."""
    suite = SUITE.replace(
        "    def test_values",
        '    @unittest.skip("not here")\n    def test_skipped(self):\n        self.fail()\n\n'
        "    def test_skips_itself(self):\n        self.skipTest('not now')\n\n    def test_values",
    )
    files = {
        "model.py": MODEL,
        "model_ref.py": REFERENCE,
        "answers.py": ANSWERS,
        "paper2code_test.py": suite,
    }
    one = folder(tmp_path, files)
    verdict = grade(grader, one, one.reference)
    assert verdict.passed, verdict
    assert [result.case for result in verdict.cases] == [
        "TestScale.test_equivalence",
        "TestScale.test_values",
    ]


def test_a_canary_that_runs_out_of_time_is_no_evidence(
    grader: Grader, challenge: Challenge
) -> None:
    """The code is right, and for ever busy where what it is given was moved: it timed out, no more is known."""
    paper = dataclasses.replace(challenge.paper, time_limit_s=4.0)
    short = dataclasses.replace(challenge, paper=paper)
    code = (
        "    import sys, time\n"
        "    ref = sys._getframe(1).f_globals['scale_ref']\n"
        "    time.sleep(100 * (ref(0.0, 1.0) != 1.0))\n" + RIGHT
    )
    verdict = grade(grader, short, code)
    assert verdict.status == "timeout", verdict
    assert verdict.evidence == "guarded"


def test_code_that_looks_around_is_on_record(grader: Grader, challenge: Challenge) -> None:
    verdict = grade(grader, challenge, "    import gc\n    gc.collect()\n" + RIGHT)
    assert verdict.passed, verdict
    assert any("looks around" in note and "gc" in note for note in verdict.notes)


def test_hidden_code_is_new_in_every_run_and_no_text_of_it_is_there(
    grader: Grader, challenge: Challenge
) -> None:
    """What a run can read of the reference is no two times the same, so nothing can be learnt about it bit by bit."""
    code = (
        "    import sys, zlib\n"
        "    ref = sys._getframe(1).f_globals['scale_ref']\n"
        "    assert ref.__doc__ is None\n"
        "    assert not any(\n"
        "        b'def scale_ref' in repr(vars(finder)).encode() for finder in sys.meta_path if hasattr(finder, '__dict__')\n"
        "    )\n"
        "    told = repr((ref.__code__.co_code, ref.__code__.co_varnames, ref.__code__.co_consts))\n"
        "    if zlib.crc32(told.encode()) % 2:\n        raise ValueError(told)\n" + RIGHT
    )
    seen = {grader.grade(challenge, code, final=False).status for _ in range(24)}
    assert seen == {"passed", "failed"}, "half of all checksums are odd"
