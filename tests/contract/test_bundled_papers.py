"""Every bundled paper is certified: its tests hold, its references pass, no answer is in sight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rcb_env.certify import certify
from rcb_env.grading import Grader
from rcb_env.papers import load_dataset

WORKERS = 2
BUNDLED = load_dataset("bundled")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=WORKERS) as made:
        yield made


@pytest.mark.parametrize("paper", [paper.id for paper in BUNDLED.papers])
def test_a_bundled_paper_is_certified(paper: str, grader: Grader) -> None:
    (found,) = [one for one in BUNDLED.papers if one.id == paper]
    certificate = certify(found, grader, depth="quick", workers=WORKERS)
    assert [str(problem) for problem in certificate.problems] == []


def test_there_are_at_least_24_challenges() -> None:
    assert len(BUNDLED.challenges) >= 24
