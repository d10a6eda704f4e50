"""`rcb check` on papers of a few lines, in real boxes: good ones pass, each flaw is named."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_env.author.scaffold import create
from rcb_env.certify import Certificate, CertificateFile, Problem, certify
from rcb_env.certify.joint import certify_joint
from rcb_env.dataset.certified import record_of
from rcb_env.dataset.joint import in_all_scopes
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Paper
from rcb_env.grading.grader import Grader

SOURCE = """\
def shift(x, by):
    # <paper2code name="shift">
    # <paper2code name="product">
    y = x * by
    # </paper2code name="product">
    return y + 1
    # </paper2code name="shift">
"""
STRONG = """
from rcb_env.cases import case

@case(seeds=2)
def shifts(tree, rng):
    return tree.load("small").shift(rng.numpy.normal(size=4), 2.5)
"""
WEAK = """
from rcb_env.cases import case

@case(seeds=1)
def runs(tree, rng):
    tree.load("small").shift(1.0, 2.0)
    return True
"""
FLAKY = """
import os
from rcb_env.cases import case

@case(seeds=1)
def is_random(tree, rng):
    tree.load("small").shift(1.0, 2.0)
    return os.urandom(1)[0] < 128
"""


@pytest.fixture
def paper(tmp_path: Path, write_paper: Callable[..., Path]) -> Callable[..., Paper]:
    """Makes the paper with these cases."""

    def make(cases: str, *, checks: str = "", survivors: str = "", answers: str = "") -> Paper:
        files = {
            "paper.md": "# Shifting\n",
            "src/small.py": SOURCE,
            "tests/cases.py": cases,
            "tests/checks.py": checks,
        }
        if survivors:
            files["tests/survivors.yaml"] = survivors
        if answers:
            files["tests/answers.yaml"] = answers
        limits = {"time_s": 5, "memory_mb": 512}
        return load_dataset(write_paper(tmp_path / "small", files, limits=limits)).papers[0]

    return make


def messages(certificate: Certificate, root: Path) -> list[str]:
    return [str(problem).replace(f"{root}/small/", "") for problem in certificate.problems]


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader("bubblewrap", judge_all=True) as made:
        yield made


def test_a_well_tested_paper_is_certified_and_remembered(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    told: list[tuple[str, int, int]] = []
    small = paper(STRONG)
    first = certify(
        small,
        grader,
        depth="full",
        cache=tmp_path / "cache",
        progress=lambda *step: told.append(step),
    )
    assert messages(first, tmp_path) == []
    assert first.ok
    assert first.killed == first.mutants >= 10
    untried = len(first.notes)  # a sandbox may not offer other numbers of threads
    assert first.reference_runs == 2 * (20 + 5 * (2 - untried))
    assert all("not tried with two threads" in note for note in first.notes)
    assert {what for what, _, _ in told} == {
        "reference",
        "reference with two threads",
        "reference with another hash seed",
        "seeds",
        "empty regions",
        "answers that know nothing",
        "mutants",
        "other answers",
        "exits and copies",
    }
    assert all(done <= planned for _, done, planned in told)
    closed = Grader("bubblewrap")
    closed.close()
    again = certify(small, closed, depth="full", cache=tmp_path / "cache")
    assert again == first, "an unchanged paper is certified without running anything"


def test_weak_tests_are_told_with_the_faults_they_miss(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    certificate = certify(paper(WEAK), grader, depth="quick")
    found = messages(certificate, tmp_path)
    assert "src/small.py:2: small/shift still passes when it is replaced by `pass`;" in found[0]
    assert any(
        text.startswith("src/small.py:6: small/shift passes with the fault 2:14 `+` became `-`")
        for text in found
    )
    assert any("src/small.py:2: small/shift is tested too weakly" in text for text in found)
    assert certificate.survivors
    assert certificate.killed < certificate.mutants


SEED_FREE = """
from rcb_env.cases import case

@case(seeds=2)
def shifts_the_same_numbers(tree, rng):
    return [tree.load("small").shift(x, 2.5) for x in (0.5, 1.5, -2.0)]

@case(seeds=2)
def draws_and_does_nothing(tree, rng):
    return rng.numpy.normal(size=4)
"""


def test_a_region_whose_answers_could_be_written_down_is_named(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    """Final seeds differ from those of feedback, which is no use where no case draws anything."""
    found = messages(certify(paper(SEED_FREE), grader, depth="quick"), tmp_path)
    assert [text.partition(": ")[2].partition(" gives")[0] for text in found] == [
        f"small/{name} can be hard-coded: every case that needs it (shifts_the_same_numbers)"
        for name in ("shift", "product")
    ]


def test_a_written_reason_excuses_a_survivor_in_every_region_that_holds_it(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    before = certify(paper(WEAK), grader, depth="quick", cache=tmp_path / "cache")
    survivors = "".join(
        f"- {{challenge: {survivor.challenge}, hash: {survivor.hash}, reason: only runs}}\n"
        for survivor in before.survivors
        if survivor.challenge == "small/product" or survivor.line == 6
    )
    assert survivors.count("\n") < len(before.survivors)
    small = paper(WEAK, survivors=survivors)
    after = certify(small, grader, depth="quick", cache=tmp_path / "cache")
    assert all(survivor.reason for survivor in after.survivors)
    found = messages(after, tmp_path)
    told = ("when it is emptied", "when it is replaced by", "can be hard-coded")
    assert all(any(words in text for words in told) for text in found)


def test_a_reason_for_a_fault_that_is_found_is_needless(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    survivors = "- challenge: small/product\n  description: 1:11 `*` became `/`\n  reason: none\n"
    certificate = certify(paper(STRONG, survivors=survivors), grader, depth="quick")
    (message,) = messages(certificate, tmp_path)
    assert message.startswith("tests/survivors.yaml:1: the mutant 1:11 `*` became `/`")


def test_a_reference_that_passes_only_sometimes_is_flaky(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    certificate = certify(paper(FLAKY), grader, depth="quick", cache=tmp_path / "cache")
    if certificate.reference_failures == certificate.reference_runs:
        pytest.skip("the coin fell on one side ten times")
    (message,) = messages(certificate, tmp_path)
    assert message.startswith("tests/cases.py: the reference of src/small.py is flaky: ")
    assert certificate.mutants == 0, "nothing is learned from mutants of a broken reference"
    assert not list((tmp_path / "cache").glob("*")), "a failure is not kept"


def test_a_check_that_says_yes_only_sometimes_is_flaky(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    checks = """
import os
from rcb_env.cases import check

@check("shifts")
def falls(got, want):
    assert os.urandom(1)[0] < 128
"""
    flaky = paper(STRONG.replace("seeds=2", "seeds=1"), checks=checks)
    certificate = certify(flaky, grader, depth="quick")
    if certificate.reference_failures in (0, certificate.reference_runs):
        pytest.skip("the coin fell on one side ten times")
    (message,) = messages(certificate, tmp_path)
    assert message.startswith("tests/cases.py: the reference of src/small.py is flaky: ")


def test_a_reference_that_fails_is_told_with_its_reason(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    broken = STRONG.replace(", 2.5)", ", missing)")
    certificate = certify(paper(broken), grader, depth="quick")
    (message,) = messages(certificate, tmp_path)
    assert "the reference of src/small.py never passes; with final seeds: " in message
    assert "missing" in message


def test_a_full_check_is_kept_and_read_back(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    small = paper(STRONG)
    full = certify(small, grader, depth="full")
    path = tmp_path / "CERTIFICATE.json"
    record = CertificateFile(path)
    names = ("small", "small@file", "small@paper", "small@library")
    assert record.stale([small]) == [f"{name}: is not on record" for name in names]
    joint = in_all_scopes(small)
    scopes = {
        scope: (one, certify_joint(one, grader, depth="full")) for scope, one in joint.items()
    }
    assert record.put(small, full, ["small"], scopes)
    written = path.read_bytes()
    known = json.loads(written)["papers"]["small"]
    assert {name: (one["mutants"], one["killed"]) for name, one in known["regions"].items()} == {
        region.challenge: (region.mutants, region.killed) for region in full.regions
    }
    assert known["mutants"] == full.mutants
    assert known["reference"] == {"runs": full.reference_runs, "failures": 0}
    assert list(known["scopes"]) == ["file", "paper", "library"]
    assert all(one["reference"] == {"runs": 4, "failures": 0} for one in known["scopes"].values())
    for one in (small, *joint.values()):
        for challenge in one.challenges:
            told = record_of(challenge)
            assert told is not None
            assert (told["free"], [*told["faults"]]) == ([], ["shifts"])

    again = CertificateFile(path)
    assert again.stale([small]) == []
    slower = dataclasses.replace(full, warm_test_s=99.0)
    assert again.put(small, slower, ["small"], scopes)
    assert path.read_bytes() == written, "another machine's times alone change nothing"
    assert again.stale([]) == ["small: is no longer a paper of the data set"]

    light = certify(small, grader, depth="light")
    assert light.ok
    assert [region.mutants for region in light.regions] == [2, 2]
    assert light.reference_runs == 2
    for one in joint.values():
        light = certify_joint(one, grader, depth="light")
        assert light.ok
        assert light.reference_runs == 2

    for changed in ("src/small.py", "tests/survivors.yaml", "tests/answers.yaml", "paper.md"):
        file = tmp_path / "small" / changed
        before = file.read_bytes() if file.exists() else None
        file.write_bytes((before or b"[]") + b"\n")
        (other,) = load_dataset(tmp_path / "small").papers
        for one in (other, *in_all_scopes(other).values()):
            assert again.standing(one) == "changed", changed
        file.unlink() if before is None else file.write_bytes(before)

    broken = dataclasses.replace(full, problems=(Problem("a", 1, "is wrong"),))
    for found, others in ((broken, scopes), (full, {"paper": (joint["paper"], broken)})):
        assert again.put(small, full, ["small"], scopes)
        assert not again.put(small, found, ["small"], others)
        assert CertificateFile(path).standing(small) == "missing", "what fails is not on record"


def test_answers_other_than_the_reference_are_graded_and_counted(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    answers = """\
- challenge: small/shift
  right: in one line
  code: |
    return 1 + by * x
- challenge: small/shift
  wrong: adds two
  change: {return y + 1: return y + 2}
- challenge: small/product
  wrong: rounded
  change: {x * by: (x * by).round()}
"""
    small = paper(STRONG, answers=answers)
    certificate = certify(small, grader, depth="light")
    assert messages(certificate, tmp_path) == []
    assert [(one.challenge, one.accepted, one.refused) for one in certificate.regions] == [
        ("small/shift", 1, 1),
        ("small/product", 0, 1),
    ]
    told = certificate.lasting()["regions"]["small/shift"]["answers"]
    assert told == {"accepted": 1, "refused": 1}
    held = [*small.tests, *(path for one in small.challenges for path in one.tree())]
    assert "tests/cases.py" in held
    assert "tests/answers.yaml" not in held


def test_answers_that_are_misjudged_or_out_of_date_are_named(
    tmp_path: Path, paper: Callable[..., Paper], grader: Grader
) -> None:
    answers = """\
- {challenge: small/product, wrong: the other way round, change: {x * by: by * x}}
- {challenge: small/product, wrong: breaks down, change: {x * by: x.missing}}
- {challenge: small/product, right: a sum, change: {x * by: x + by}}
"""
    certificate = certify(paper(STRONG, answers=answers), grader, depth="light")
    assert messages(certificate, tmp_path) == [
        "tests/answers.yaml:1: the wrong answer 'the other way round' to small/product passes; add a case that refuses it",
        "tests/answers.yaml:2: the wrong answer 'breaks down' to small/product ends as: failed attribute",
        "tests/answers.yaml:3: the right answer 'a sum' to small/product ends as: failed value",
    ]
    answers = "- {challenge: small/product, wrong: a sum, change: {x * gone: x}}\n"
    (found,) = messages(certify(paper(STRONG, answers=answers), grader, depth="light"), tmp_path)
    assert (
        found
        == "tests/answers.yaml:1: small/product no longer holds 'x * gone'; word the change anew"
    )


def test_a_new_paper_lacks_nothing_but_words(tmp_path: Path, grader: Grader) -> None:
    """The example of `rcb new` is certified as it is; what is told is what its author has to write."""
    create("mine", tmp_path / "papers")
    (mine,) = load_dataset(tmp_path / "papers").papers
    found = certify(mine, grader, depth="full")
    assert found.killed == found.mutants >= 20
    assert all(": still to be written: " in str(problem) for problem in found.problems)
    method = next(one for one in found.problems if "the equations" in one.message)
    assert method.message.endswith(" with decay ..."), "the sentence goes on"
    assert {Path(problem.path).name for problem in found.problems} == {
        "paper.yaml",
        "paper.md",
        "example.py",
        "cases.py",
        "checks.py",
    }
