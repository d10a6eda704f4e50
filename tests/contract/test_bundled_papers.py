"""Every bundled paper is certified: its tests hold, its references pass, no answer is in sight.

What the full check found is on record in papers/CERTIFICATE.json. A paper that is still what the record is about gets a
light check here, any other the quick one; and a record that does not fit the papers is a failure of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.certify import CertificateFile, Depth, certify
from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import SandboxUnavailable
from rcb_env.grading.grader import Grader

WORKERS = 2
BUNDLED = load_dataset("bundled")
RECORD = CertificateFile(Path(__file__).parents[2] / "papers" / "CERTIFICATE.json")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    # The papers are looked at here, not the sandboxes: the faster one will do.
    try:
        made = Grader("bubblewrap", workers=WORKERS)
    except SandboxUnavailable:
        made = Grader(workers=WORKERS)
    with made:
        yield made


def test_the_certificate_is_about_the_papers_as_they_are() -> None:
    assert RECORD.stale(BUNDLED.papers) == [], (
        "write it anew: rcb check --full --certificate papers/CERTIFICATE.json PAPER..."
    )


@pytest.mark.parametrize("paper", [paper.id for paper in BUNDLED.papers])
def test_a_bundled_paper_is_certified(paper: str, grader: Grader) -> None:
    (found,) = [one for one in BUNDLED.papers if one.id == paper]
    depth: Depth = "light" if RECORD.standing(found) == "current" else "quick"
    certificate = certify(found, grader, depth=depth, workers=WORKERS)
    assert [str(problem) for problem in certificate.problems] == []
