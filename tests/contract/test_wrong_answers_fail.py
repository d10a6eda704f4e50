"""Answers that break a sentence of their paper's text fail: nearly all of them passed once.

`wrong_answers.yaml` holds them as changes of the reference, by challenge. A change whose text is no longer in the region is a failure
too: the answer is then to be worded anew, and not to be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import SandboxUnavailable
from rcb_env.grading.grader import Grader

WORKERS = 2
BUNDLED = load_dataset("bundled")
WRONG: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("wrong_answers.yaml").read_text()
)
BY_PAPER = {
    paper: list(entries)
    for paper, entries in groupby(WRONG, lambda entry: str(entry["challenge"]).partition("/")[0])
}


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    # The papers' tests are looked at here, not the sandboxes: the faster one will do.
    try:
        made = Grader("bubblewrap", workers=WORKERS)
    except SandboxUnavailable:
        made = Grader(workers=WORKERS)
    with made:
        yield made


def answer(entry: dict[str, Any]) -> str:
    """The region's code with the change made."""
    code = BUNDLED.challenge(entry["challenge"]).reference
    for old, new in entry["change"].items():
        assert old in code, f"{entry['challenge']} no longer holds {old!r}; word the change anew"
        code = code.replace(old, new)
    return code


@pytest.mark.parametrize("paper", BY_PAPER)
def test_answers_that_break_the_text_fail(paper: str, grader: Grader) -> None:
    def outcome(entry: dict[str, Any]) -> str:
        challenge = BUNDLED.challenge(entry["challenge"])
        verdict = grader.grade(challenge, answer(entry), final=True)
        return "" if verdict.status == "failed" else f"{entry['wrong']}: {verdict.status}"

    with ThreadPoolExecutor(WORKERS) as threads:
        accepted = [found for found in threads.map(outcome, BY_PAPER[paper]) if found]
    assert accepted == []
