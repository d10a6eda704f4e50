"""Traces of memory in answers: what nothing shown held, what stands in the prompt, what is solved blind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rcb_env.cli.main import rcb
from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import UsageError
from rcb_env.grading.verdict import Verdict
from rcb_env.play.record import Episode
from rcb_env.report.probes import Probe, Probes, read, stands_elsewhere
from rcb_env.runs.plan import jobs, run_record
from rcb_env.runs.store import RunStore

MODEL = '''"""A mean in two ways."""


def mean(values):
    # <paper2code name="mean">
    total = 0.0  # what the sum is kept in, see appendix
    for position, value in enumerate(values):
        total = total + value - total * position / max(1, len(values))
    return total / max(1, len(values))
    # </paper2code name="mean">


def clipped(values):
    # <paper2code name="clip">
    values = [min(max(value, 0.0), 1.0) for value in values]
    # </paper2code name="clip">
    return mean(values)
'''
HELPER = """def clip(values):
    values = [min(max(value, 0.0), 1.0) for value in values]
    return values
"""
OWN = """    count = len(values) or 1
    return sum(values) / count
"""
INDEX = (
    "- id: tiny\n  title: T\n  annotated_file_paths: model.py\n  context_file_paths: helper.py\n"
)
RECALLED = "tiny/mean"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "pset"
    for path, text in {
        "papers.yaml": INDEX,
        "tiny/model.py": MODEL,
        "tiny/helper.py": HELPER,
        "tiny/paper2code_paper.md": "The mean of clipped values.\n",
        "tiny/paper2code_test.py": "import model\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def made(
    folder: Path, dataset: Path, answers: Mapping[str, tuple[str, str]], **config: Any
) -> RunStore:
    """A run with these answers: challenge -> state and code."""
    loaded = load_dataset(dataset)
    pairs = [(challenge, 0) for challenge in loaded.challenges]
    whole = {"agent": "a", "model": {"name": "m"}, **config}
    with RunStore.create(folder, run_record(whole, pairs, loaded, str(dataset))) as store:
        for job in jobs(pairs, whole):
            status, code = answers[job.challenge.id]
            episode = Episode.of(
                job.challenge,
                Verdict(status),  # type: ignore[arg-type]
                end_reason="submitted",
                code=code,
                sample=0,
                seed=job.seed,
                agent="a",
                started_at="2026-01-01T00:00:00+00:00",
                wall_s=1.0,
            )
            store.fill([(job.key, episode.to_dict(), [("graded", {})])])
    return RunStore.open(folder)


def probe(found: Probes, name: str, challenge: str = RECALLED) -> Probe:
    return next(one for one in found.runs[name] if one.challenge == challenge)


def test_what_nothing_shown_held_tells_a_recalled_answer_from_one_of_its_own(
    tmp_path: Path, dataset: Path
) -> None:
    known = {challenge.id: challenge.reference for challenge in load_dataset(dataset).challenges}
    clip = known["tiny/clip"]
    by_heart = {RECALLED: ("passed", known[RECALLED]), "tiny/clip": ("passed", clip)}
    own = {RECALLED: ("passed", OWN), "tiny/clip": ("failed", "    pass\n")}
    found = read(
        {
            "by heart": made(tmp_path / "by heart", dataset, by_heart),
            "own": made(tmp_path / "own", dataset, own),
        }
    )
    assert probe(found, "by heart").recalled == 100
    assert probe(found, "own").recalled == 0
    assert probe(found, "own").unseen >= 20
    copied = probe(found, "own", "tiny/clip")
    assert (copied.in_prompt, copied.unseen, copied.recalled) == (True, 0, None)
    assert not probe(found, "own").in_prompt
    assert probe(found, "own").blind is None
    totals = found.sheets()[0]
    assert [row[totals.columns.index("recalled by 50 % or more")] for row in totals.rows] == [
        "1 of 1",
        "0 of 1",
    ]
    assert "1 (1 solved)" in totals.rows[0]
    assert "1 (0 solved)" in totals.rows[1]


def test_a_blind_run_tells_of_the_others_and_what_it_was_not_shown_is_unseen(
    tmp_path: Path, dataset: Path
) -> None:
    known = {challenge.id: challenge.reference for challenge in load_dataset(dataset).challenges}
    answers = {name: ("passed", code) for name, code in known.items()}
    half = {RECALLED: ("passed", known[RECALLED]), "tiny/clip": ("failed", "    pass\n")}
    blind_config: dict[str, Any] = {"paper": "none", "with_context": False}
    stores = {
        "full": made(tmp_path / "full", dataset, answers),
        "blind": made(tmp_path / "blind", dataset, half, **blind_config),
    }
    found = read(stores)
    assert (list(found.runs), found.blind) == (["full"], ("blind",))
    assert {one.challenge: one.blind for one in found.runs["full"]} == {
        RECALLED: 100.0,
        "tiny/clip": 0.0,
    }
    with pytest.raises(UsageError, match="without paper and context"):
        read({"blind": stores["blind"]})
    words = ["report", str(tmp_path / "full"), str(tmp_path / "blind"), "--by", "memory", "--json"]
    done = CliRunner().invoke(rcb, words)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["memory"]
    assert {one["challenge"]: one["blind"] for one in told}[RECALLED] == 100


def test_a_challenge_that_is_another_one_by_now_is_left_out_and_counted(
    tmp_path: Path, dataset: Path
) -> None:
    store = made(tmp_path / "run", dataset, dict.fromkeys((RECALLED, "tiny/clip"), ("passed", OWN)))
    (dataset / "tiny/model.py").write_text(MODEL.replace("A mean", "The mean"))
    found = read({"run": store})
    assert (found.runs["run"], found.changed) == ((), {"run": 2})
    assert "Left out, as the data set has other ones by now" in found.sheets()[0].note


def test_in_the_public_benchmark_the_lines_of_15_answers_stand_elsewhere_in_the_prompt() -> None:
    try:
        challenges = load_dataset("researchcodebench").challenges
    except UsageError as error:
        pytest.skip(str(error))
    assert sum(map(stands_elsewhere, challenges)) == 15
