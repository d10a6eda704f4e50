"""`rcb check` of a folder in the public layout: what works, what its suite does not see, and what is remembered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.certify.suites import SuiteReport, survey
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.grading.canaries import Search
from rcb_env.grading.faults import Fault, faults
from rcb_env.grading.grader import Grader
from rcb_env.grading.guarded import GuardedGrading
from rcb_env.sandbox import make
from rcb_env.sandbox.box import BoxSettings
from rcb_env.sandbox.fleet import Fleet

MODEL = '''"""Annotated file."""
import torch


class Layer:
    def __init__(self, factor):
        # <paper2code name="keep the factor">
        self.factor = factor
        # </paper2code name="keep the factor">

    def scale(self, x):
        # <paper2code name="scale">
        y = x * self.factor
        return y + 1
        # </paper2code name="scale">


def untested(x):
    y = x
    # <paper2code name="untested">
    y = x - 1
    return y
    # </paper2code name="untested">


def only_a_statement(x):
    if x is None:
        # <paper2code name="needs a statement">
        x = 0
        # </paper2code name="needs a statement">
    return x


# def commented(x):
#     y = x - 1
#     return y
'''
REFERENCE = '''"""Reference."""


class LayerRef:
    def __init__(self, factor):
        self.factor = factor

    def scale(self, x):
        y = x * self.factor
        return y + 1
'''
SUITE = """import unittest

import torch

from model import Layer, only_a_statement, untested
from model_ref import LayerRef


class TestScale(unittest.TestCase):
    def test_equivalence(self):
        torch.manual_seed(0)
        x = torch.randn(3, 4)
        self.assertTrue(torch.allclose(Layer(2.5).scale(x), LayerRef(2.5).scale(x)))


if __name__ == "__main__":
    unittest.main()
"""
CONSTANTS = """import unittest

import torch

from model import Layer


class TestScale(unittest.TestCase):
    def test_values(self):
        got = Layer(2.0).scale(torch.tensor([1.0, 2.0]))
        expected = torch.tensor([3.0, 5.0])
        self.assertTrue(torch.allclose(got, expected))
"""
NO_COMPARISON = """import unittest

import torch

from model import Layer


class TestScale(unittest.TestCase):
    def test_runs(self):
        Layer(2.0).scale(torch.tensor([1.0, 2.0]))
"""
INDEX = """
- {id: tiny, title: Tiny, annotated_file_paths: model.py}
- {id: absent, title: Absent, annotated_file_paths: model.py}
"""


def write(folder: Path, suite: str = SUITE) -> Dataset:
    """Two papers; the suite of the second needs a package that is not there."""
    files = {"papers.yaml": INDEX}
    for paper, reference in (
        ("tiny", REFERENCE),
        ("absent", "from torch import mmgen\n" + REFERENCE),
    ):
        files |= {
            f"{paper}/paper2code_paper.md": "Multiply and add one.\n",
            f"{paper}/model.py": MODEL,
            f"{paper}/model_ref.py": reference,
            f"{paper}/paper2code_test.py": suite if paper == "tiny" else SUITE,
        }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return load_dataset(folder)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    write(folder)
    return folder


def ids(report: SuiteReport) -> dict[str, list[str]]:
    return {
        kind: [finding.challenge for finding in report.of_kind(kind)]
        for kind in ("empty", "pass", "leak", "no_canary")
    }


def test_what_a_suite_does_not_see_is_listed_and_no_error(
    tmp_path: Path, root: Path, grader: Grader
) -> None:
    paper = load_dataset(root).papers[0]
    told: list[str] = []
    report = survey(
        paper, grader, cache=tmp_path, progress=lambda what, *_: told.append(what), workers=1
    )
    assert report.ok
    assert (report.unavailable, report.passed, report.challenges) == ("", 4, 4)
    assert ids(report) == {
        "empty": ["tiny/untested"],
        "pass": ["tiny/untested", "tiny/needs-a-statement"],
        "leak": ["tiny/untested"],
        "no_canary": [],
    }
    assert (report.split, report.split_tests) == (4, ("TestScale.test_equivalence",))
    assert (report.weak_tests, report.unseeded) == ((), False)
    finding = report.of_kind("empty")[0]
    assert (finding.lines, finding.where.line) == (2, 20)
    assert report.warm_test_s is not None
    assert set(told) == {"reference", "left empty", "replaced by pass"}
    closed = Grader(grader.sandbox)
    closed.close()
    assert survey(paper, closed, cache=tmp_path) == report, "an unchanged paper runs nothing"


def test_just_what_is_listed_passes_when_nothing_is_written(root: Path, grader: Grader) -> None:
    paper = load_dataset(root).papers[0]
    passed = [
        one.id
        for one in paper.challenges
        if grader.grade(one, one.masked().placeholder, final=True).passed
    ]
    assert passed == ids(survey(paper, grader))["empty"]


def test_a_paper_that_does_not_work_here_is_told_with_the_reason(
    root: Path, grader: Grader
) -> None:
    report = survey(load_dataset(root).papers[1], grader)
    assert report.unavailable.startswith(
        "paper2code_test.py: ImportError: cannot import name 'mmgen'"
    )
    assert report.ok
    assert report.findings == ()


def test_a_suite_that_compares_nothing_has_no_canary(tmp_path: Path, grader: Grader) -> None:
    report = survey(write(tmp_path, NO_COMPARISON).papers[0], grader)
    assert report.ok
    assert len(ids(report)["no_canary"]) == 4
    assert (report.split, len(report.of_kind("guarded"))) == (0, 4)
    assert "compares no values" in report.of_kind("guarded")[0].where.message


def check(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", "check", "--dataset", str(root), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_findings_and_absent_papers_fail_a_check_only_if_it_is_strict(root: Path) -> None:
    done = check(root, "--no-cache")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"{root}/tiny/model.py:20: tiny/untested still passes when it is left empty" in lines
    assert any(line.startswith("absent: not available here: ") for line in lines)
    assert "1 of 2 papers work here (not absent)" in lines
    assert "1 pass when left empty (2 lines)" in lines
    assert "2 pass when replaced by `pass` (3 lines)" in lines
    assert "4 are graded split, in 1 papers" in lines
    assert check(root, "--strict").returncode == 1
    assert check(root, "absent").returncode == 1, "nothing works"


def test_a_check_for_scripts_is_one_object_a_paper(root: Path) -> None:
    done = check(root, "--json")
    tiny, absent = [json.loads(line) for line in done.stdout.splitlines()]
    assert tiny["ok"]
    assert {finding["kind"] for finding in tiny["findings"]} == {"empty", "pass", "leak"}
    assert absent["unavailable"]


# --- canaries ----------------------------------------------------------------------------------


def test_the_first_fault_moves_what_the_regions_counterpart_returns(root: Path) -> None:
    challenge = load_dataset(root).challenge("tiny/scale")
    first = next(faults(challenge))
    assert first.related
    assert first.place == "model_ref.py:8"
    assert b"return _moved(y + 1)" in first.hidden["model_ref.py"]
    assert first.hidden["paper2code_test.py"] == SUITE.encode()


def test_a_constructors_counterpart_is_looked_for_in_its_class(root: Path) -> None:
    challenge = load_dataset(root).challenge("tiny/keep-the-factor")
    first = next(faults(challenge))
    assert first.related
    assert first.place == "model_ref.py:8"


def test_without_a_reference_the_expected_values_are_moved(tmp_path: Path) -> None:
    write(tmp_path, CONSTANTS)
    (tmp_path / "tiny/model_ref.py").unlink()
    challenge = load_dataset(tmp_path).challenge("tiny/scale")
    first, second = list(faults(challenge))[:2]
    assert b"expected = _moved(torch.tensor([3.0, 5.0]))" in first.hidden["paper2code_test.py"]
    assert b"torch.allclose(got, _moved(expected))" in second.hidden["paper2code_test.py"]


def test_a_fault_is_tried_once_for_all_regions_and_once_per_machine(
    tmp_path: Path, root: Path
) -> None:
    dataset = load_dataset(root)
    paper = dataset.papers[0]
    tried: list[str] = []

    def catches(fault: Fault) -> frozenset[str]:
        tried.append(fault.key)
        return frozenset({"TestScale.test_equivalence"})

    search = Search(paper, "here", tmp_path)
    for challenge in paper.challenges:
        assert search.canaries(challenge, catches)
    assert len(tried) == len(set(tried))
    before = len(tried)
    again = Search(paper, "here", tmp_path)
    with next(tmp_path.glob("*.jsonl")).open("a") as file:
        file.write('{"fault": "torn')
    for challenge in paper.challenges:
        assert again.canaries(challenge, catches) == search.canaries(challenge, catches)
    assert len(tried) == before
    elsewhere = Search(paper, "other packages", tmp_path)
    elsewhere.canaries(paper.challenges[0], catches)
    assert len(tried) > before


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path, root: Path) -> None:
    (tmp_path / "file").write_text("")
    challenge = load_dataset(root).challenge("tiny/scale")
    fleet = Fleet(make(), BoxSettings(), 1)
    try:
        grading = GuardedGrading(fleet, cache=tmp_path / "file" / "canaries")
        assert grading.grade(challenge, challenge.reference, "final").passed
    finally:
        fleet.close()
