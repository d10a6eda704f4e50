"""Every bundled paper is certified: its tests hold, its references pass, no answer is in sight.

What the full check found is on record in papers/CERTIFICATE.json. A paper that is still what the record is about gets a
light check here, any other the quick one; and a record that does not fit the papers is a failure of its own. So it is with
each scope of a paper, and with open challenges, whose record is papers/CERTIFICATE_OPEN.json. Variants, whose record is
papers/CERTIFICATE_VARIANTS.json, get a light check here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.certify import CertificateFile, Depth, certify
from rcb_env.certify.joint import certify_joint
from rcb_env.certify.open import certify_open
from rcb_env.certify.variants import certify_variants
from rcb_env.dataset.certified import record_of
from rcb_env.dataset.joint import in_all_scopes
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Paper
from rcb_env.errors import SandboxUnavailable
from rcb_env.grading.grader import Grader

WORKERS = 2
BUNDLED = load_dataset("bundled")
OPEN = load_dataset("bundled@open")
PAPERS = Path(__file__).parents[2] / "papers"
RECORD = CertificateFile(PAPERS / "CERTIFICATE.json")
VARIED = [paper for paper in BUNDLED.papers if paper.variants is not None]
VARIANTS_RECORD = CertificateFile(PAPERS / "CERTIFICATE_VARIANTS.json", kind="variants")
OPEN_RECORD = CertificateFile(PAPERS / "CERTIFICATE_OPEN.json", kind="open challenges")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    # The papers are looked at here, not the sandboxes: the faster one will do.
    try:
        made = Grader("bubblewrap", workers=WORKERS)
    except SandboxUnavailable:
        made = Grader(workers=WORKERS)
    with made:
        yield made


def depth_for(paper: Paper) -> Depth:
    return "light" if RECORD.standing(paper) == "current" else "quick"


def test_the_certificate_is_about_the_papers_as_they_are() -> None:
    assert RECORD.stale(BUNDLED.papers) == [], (
        "write it anew: rcb check --full --certificate papers/CERTIFICATE.json PAPER..."
    )


def test_one_code_graded_for_all_records() -> None:
    """Records are made anew together, so that their numbers compare."""
    records = json.loads((PAPERS / "CERTIFICATE.json").read_text(encoding="utf-8"))["papers"]
    assert len({record["made_by"]["grading"] for record in records.values()}) == 1


def test_partial_credit_is_not_to_be_had_for_nothing() -> None:
    """The certificate says of every challenge which cases are free, and of regions what copies of others earn."""
    gained = {}
    for whole in BUNDLED.papers:
        for paper in (whole, *in_all_scopes(whole).values()):
            for challenge in paper.challenges:
                told = record_of(challenge)
                assert told is not None, challenge.id
                counting = {*told["faults"]} - {*told["free"]}
                assert counting or "@" not in challenge.id, f"all cases of {challenge.id} are free"
                if not counting or "for_nothing" in told:
                    gained[challenge.id] = told.get("for_nothing")
    assert len(gained) <= 0.02 * len(BUNDLED.challenges), gained


@pytest.mark.parametrize("paper", [paper.id for paper in BUNDLED.papers])
def test_a_bundled_paper_is_certified(paper: str, grader: Grader) -> None:
    (found,) = [one for one in BUNDLED.papers if one.id == paper]
    certificates = [certify(found, grader, depth=depth_for(found), workers=WORKERS)]
    certificates += [
        certify_joint(one, grader, depth=depth_for(one), workers=WORKERS)
        for one in in_all_scopes(found).values()
    ]
    assert [one.paper for one in certificates] == [
        paper,
        *(f"{paper}@{scope}" for scope in ("file", "paper", "library")),
    ]
    assert [str(problem) for one in certificates for problem in one.problems] == []


def test_the_certificate_is_about_the_open_challenges_as_they_are() -> None:
    assert OPEN_RECORD.stale(OPEN.papers) == [], (
        "write it anew: rcb check --scope open --full --certificate papers/CERTIFICATE_OPEN.json PAPER..."
    )


@pytest.mark.parametrize("paper", [paper.id for paper in OPEN.papers])
def test_a_bundled_open_challenge_is_certified(paper: str, grader: Grader) -> None:
    (found,) = [one for one in OPEN.papers if one.id == paper]
    light = OPEN_RECORD.standing(found) == "current"
    report = certify_open(found, grader, light=light, workers=WORKERS)
    assert [str(problem) for problem in report.problems] == []


def test_no_record_is_about_variants_as_they_were() -> None:
    changed = [one.id for one in VARIED if VARIANTS_RECORD.standing(one) == "changed"]
    assert changed == [], (
        "write it anew: rcb check --variants --full --certificate papers/CERTIFICATE_VARIANTS.json PAPER..."
    )


@pytest.mark.parametrize("paper", [paper.id for paper in VARIED])
def test_variants_of_a_bundled_paper_are_certified(paper: str, grader: Grader) -> None:
    report = certify_variants(BUNDLED.paper(paper), grader, depth="light", workers=WORKERS)
    assert [str(problem) for problem in report.problems] == []
    assert report.passed == report.references > 0
    assert report.refused == report.crossed > 0
