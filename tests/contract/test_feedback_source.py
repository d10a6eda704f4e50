"""Feedback and source code: a traceback shows no line of a file that the agent is not shown.

Without context the agent sees one file. Errors that pass through another one, the warnings raised there and the
tracebacks of threads carried its lines into what `run_tests` tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env import ResearchCodeEnv
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.grading.grader import Grader

PAPER = """
id: two
title: Two files
authors: [Nobody]
domain: none
license: MIT
dates: {v1: 2025-01-01}
annotated: [src/seen.py]
context: [src/helper.py]
image: cpu
limits: {time_s: 10, memory_mb: 512}
"""
SEEN = """from helper import apply, warn


def double(x: float) -> float:
    # <paper2code name="double">
    return apply(lambda y: 2 * y, x)
    # </paper2code name="double">
"""
HELPER = """import warnings


def apply(function, x):
    return function(x)  # the secret of apply


def warn():
    warnings.warn("a warning to keep")  # the secret of warn
"""
CASES = """
from rcb_env.cases import case

@case(seeds=1)
def doubles(tree, rng):
    return tree.load("seen").double(float(rng.torch.normal(1)[0]))
"""
FAILING = """\
    import threading

    def fail(y):
        raise ValueError("an error to keep")

    thread = threading.Thread(target=apply, args=(fail, x))
    thread.start()
    thread.join()
    warn()
    return apply(fail, x)
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("papers") / "two"
    for path, text in {
        "paper.yaml": PAPER,
        "paper.md": "Double it.\n",
        "src/seen.py": SEEN,
        "src/helper.py": HELPER,
        "tests/cases.py": CASES,
        "tests/checks.py": "",
    }.items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return load_dataset(folder)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


def told(dataset: Dataset, grader: Grader, *, with_context: bool) -> str:
    """What is told of the failing code, as text and as data."""
    env = ResearchCodeEnv(
        "two/double", dataset=dataset, grader=grader, with_context=with_context, feedback="full"
    )
    env.reset()
    env.step({"tool": "write_region", "arguments": {"code": FAILING}})
    observation, _, _, _, info = env.step({"tool": "run_tests", "arguments": {}})
    return f"{observation['text']}\n{info['tests']}"


def test_without_context_errors_warnings_and_threads_show_no_line_of_other_files(
    dataset: Dataset, grader: Grader
) -> None:
    text = told(dataset, grader, with_context=False)
    assert "the secret of" not in text
    for kept in ("an error to keep", "a warning to keep", "src/helper.py:5 in apply"):
        assert kept in text
    assert 'raise ValueError("an error to keep")' in text  # its own line


def test_with_context_they_do(dataset: Dataset, grader: Grader) -> None:
    text = told(dataset, grader, with_context=True)
    assert text.count("the secret of apply") >= 4  # the case's error and the thread's, twice each
    assert "the secret of warn" in text
