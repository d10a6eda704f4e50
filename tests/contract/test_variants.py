"""Variants in real boxes: a variant is graded as what it says, and `rcb check --variants` names each flaw of its knobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from rcb_env.certify.variants import VariantReport, certify_variants
from rcb_env.cli.compare import compare
from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import UsageError
from rcb_env.grading.grader import Grader
from rcb_env.report.recall import recall_gap
from rcb_env.runs.regrading import grade_completions
from rcb_env.runs.store import RunStore
from tests.two_files import FILES, VARIANTS

MORE = """
- name: sign
  about: where to
  choices: {down: [x - 1], up: [x + 1]}
  pieces:
  - {file: src/scaling.py, reads: {down: return x - 1, up: return x + 1}}
- name: unseen
  about: what no case sees
  choices: {plain: ["self.factor = factor"], negative: ["self.factor = abs(factor) or factor"]}
  pieces:
  - {file: src/twice.py, within: self.factor = factor, reads: {plain: = factor, negative: = abs(factor) or factor}}
"""
UNSEEN = FILES["tests/cases.py"].replace("Twice(float(rng.numpy.normal()))", "Twice(2.5)")
FORGOTTEN = {"paper.md": "Multiply, then add one. To add one is all.\n"}


@pytest.fixture
def looked_at(
    tmp_path: Path, write_paper: Callable[..., Path], small_grader: Grader
) -> Callable[..., VariantReport]:
    def look(files: dict[str, str], knobs: str) -> VariantReport:
        text = {"paper.md": "Multiply, then add one.\n"}
        made = write_paper(tmp_path / "tiny", {**FILES, **text, **files, "variants.yaml": knobs})
        return certify_variants(
            load_dataset(made).papers[0], small_grader, depth="quick", workers=2
        )

    return look


def test_a_check_of_variants_names_each_flaw_with_its_knob(
    looked_at: Callable[..., VariantReport],
) -> None:
    first, rest = VARIANTS.split("names:")
    report = looked_at({**FORGOTTEN, "tests/cases.py": UNSEEN}, f"{first}{MORE}names:{rest}")
    told = [f"{one.line}: {one.message}" for one in report.problems]
    assert [one for one in told if "passes with the fault" not in one] == [
        "None: there are 4 knobs, 3 of them semantic; at least 5 and 3 are needed",
        "3: offset=two: 'add one' is still in sight, which tells of offset=one",
        "16: unseen=negative: remember passes with the published answer",
        "16: unseen=negative: remember passes as published with the answer for this choice",
    ]
    assert (report.regions, report.touched, report.semantic, report.choices) == (3, 3, 3, 6)
    assert report.passed == report.references == 2 * 4, "two files, three choices and the names"
    assert (report.crossed, report.refused) == (6, 4)
    assert report.answers > 8


def test_a_variant_whose_reference_fails_is_told(looked_at: Callable[..., VariantReport]) -> None:
    checks = 'from rcb_env.cases import check\n\n@check("shifts")\ndef is_small(out, ref):\n    assert out < 0.5 * 9\n'
    knobs = VARIANTS.replace("one: + 1, two: + 2", "one: + 1, two: + undefined")
    report = looked_at({"tests/checks.py": checks}, knobs)
    told = [one.message for one in report.problems]
    assert any(
        one.startswith("offset=two: the reference of src/scaling.py does not pass:")
        and "undefined" in one
        for one in told
    )
    assert report.passed < report.references


def test_an_answer_is_graded_in_its_variant_and_counted_with_its_paper(
    tmp_path: Path, write_paper: Callable[..., Path], small_grader: Grader
) -> None:
    text = {"paper.md": "Multiply, then add one.\n", "variants.yaml": VARIANTS}
    paper = write_paper(tmp_path / "tiny", {**FILES, **text})
    one, two = "    return x * factor + 1\n", "    return x * factor + 2\n"
    renamed = next(
        number
        for number in range(1, 20)
        if "factor" not in load_dataset(paper).challenge(f"tiny~{number}/scale").reference
    )
    plain = next(
        number
        for number in range(1, 20)
        if load_dataset(paper).challenge(f"tiny~{number}/scale").reference == two
    )
    rows = [
        {"challenge": f"tiny~{plain}/scale", "code": one},
        {"challenge": f"tiny~{plain}/scale", "code": two, "sample": 1},
        {"challenge": f"tiny~{renamed}/scale", "code": two},
        {"challenge": "tiny/scale", "code": one},
    ]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def graded(folder: str, variant: int | None) -> RunStore:
        store = grade_completions(
            file, tmp_path / folder, dataset=str(paper), variant=variant, grader=small_grader
        )
        assert {line["episode"]["paper"] for line in store.latest()} == {"tiny"}
        assert {entry["paper"] for entry in store.record["plan"]} == {"tiny"}
        return store

    store = graded("as-named", None)
    episodes = [line["episode"] for line in store.latest()]
    assert {(each["challenge"], each["sample"]): each["status"] for each in episodes} == {
        ("tiny/scale", 0): "passed",
        (f"tiny~{plain}/scale", 0): "failed",
        (f"tiny~{plain}/scale", 1): "passed",
        (f"tiny~{renamed}/scale", 0): "failed",
    }
    gap = recall_gap(store, "as-named")
    assert (gap.challenges, gap.papers, gap.variants) == (1, 1, 2)
    assert gap.published == 100
    assert gap.gap.value == pytest.approx(200 / 3)
    assert gap.gap.interval is None, "one paper says nothing of others"
    told = CliRunner().invoke(compare, ["--variants", "--json", str(store.folder)])
    assert json.loads(told.output)["gap"]["value"] == pytest.approx(200 / 3)
    elsewhere = plain + 20
    alone = graded("all-elsewhere", elsewhere)
    assert f"tiny~{elsewhere}/scale" in {entry["challenge"] for entry in alone.record["plan"]}
    with pytest.raises(UsageError, match="has no challenge both as published and in a variant"):
        recall_gap(alone, "all-elsewhere")
