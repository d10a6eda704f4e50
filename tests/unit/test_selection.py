"""Which challenges are meant: splits, difficulty, and a sampler that follows success."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rcb_env
from rcb_env.dataset.difficulty import difficulties
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.splits import SPLITS, papers_of
from rcb_env.env.curriculum import Curriculum, challenges_of
from rcb_env.errors import PaperError, UsageError

SOURCE = """\
def scale(x):
    # <paper2code name="scale">
    return 2 * x
    # </paper2code name="scale">
"""


@pytest.fixture
def folder(tmp_path: Path, write_paper: Callable[..., Path]) -> Path:
    for name in ("one", "two"):
        write_paper(tmp_path / name, {"src/small.py": SOURCE})
    (tmp_path / "papers.yaml").write_text("name: tiny\npapers: [one, two]\n")
    return tmp_path


def test_every_bundled_paper_is_in_one_split_and_every_split_has_every_scope() -> None:
    papers = [paper.id for paper in load_dataset("bundled").papers]
    found = [papers_of(load_dataset("bundled"), split) for split in SPLITS]
    assert sorted(name for names in found for name in names) == sorted(papers)
    for scope in ("file", "paper", "library", "open"):
        assert all(papers_of(load_dataset(f"bundled@{scope}"), split) for split in SPLITS)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (None, UsageError, "has no splits.yaml"),
        ("train: [one]\nvalidation: []\ntest: []\n", PaperError, "two is in no split"),
        ("train: [one, two]\nvalidation: []\ntest: [one]\n", PaperError, "one is in several"),
        ("train: [one, two]\nvalidation: []\ntest: []\n", UsageError, "no paper of the split test"),
        ("train: [one, two]\nvalidation: []\n", PaperError, "test"),
    ],
)
def test_splits_that_cannot_be_are_told(
    folder: Path, text: str | None, error: type[Exception], says: str
) -> None:
    if text is not None:
        (folder / "splits.yaml").write_text(text)
    with pytest.raises(error, match=says):
        papers_of(load_dataset(folder), "test")
    with pytest.raises(error, match=says):
        rcb_env.ResearchCodeEnv(dataset=folder, split="test")


def test_difficulty_by_lines_is_the_share_of_challenges_with_fewer() -> None:
    dataset = load_dataset("bundled")
    known = difficulties(dataset)
    ranked = sorted(dataset.challenges, key=lambda one: known[one.id])
    assert [one.lines for one in ranked] == sorted(one.lines for one in dataset.challenges)
    assert known[ranked[0].id] == 0 <= known[ranked[-1].id] <= 1
    middle = challenges_of(difficulty=(0.2, 0.8))
    assert 0.5 < len(middle) / len(known) < 0.7
    assert all(0.2 <= known[id] <= 0.8 for id in middle)


def test_difficulty_can_be_measured_and_what_was_not_is_not_chosen(folder: Path) -> None:
    table = folder / "items.csv"
    table.write_text("challenge,lines,solved\none/scale,1,75.0\n")
    chosen = {"dataset": str(folder), "difficulty_by": str(table)}
    assert challenges_of(**chosen, difficulty=(0, 1)) == ("one/scale",)
    assert challenges_of(**chosen, difficulty=[0.25, 0.25]) == ("one/scale",)
    with pytest.raises(
        UsageError, match=r"no selected challenge has a difficulty from 0\.5 to 1\.0"
    ):
        challenges_of(**chosen, difficulty=(0.5, 1))
    table.write_text("nothing\n1\n")
    with pytest.raises(UsageError, match="rcb items"):
        challenges_of(**chosen, difficulty=(0, 1))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"split": "training"}, "Did you mean train"),
        ({"split": 1}, "train, validation or test"),
        ({"difficulty": 0.5}, "two numbers from 0 to 1"),
        ({"difficulty": (0.8, 0.2)}, "the smaller first"),
        ({"difficulty_by": "lines"}, "give difficulty as well"),
        ({"split": "train", "papers": ["LEN"]}, "of the split train"),
        ({"challenge": "DyT/forward", "split": "train"}, "leave out split"),
        ({"splits": "train"}, "Did you mean split"),
    ],
)
def test_selections_that_cannot_be_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        rcb_env.ResearchCodeEnv(**settings)


def test_make_and_vectors_draw_from_a_split_by_difficulty() -> None:
    settings: dict[str, Any] = {"split": "validation", "difficulty": (0.5, 1.0)}
    allowed = challenges_of(**settings)
    env = gymnasium.make(rcb_env.ENV_ID, **settings)
    assert env.spec is not None
    twin = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    drawn = {env.reset(seed=seed)[1]["challenge"] for seed in range(12)}
    assert drawn == {twin.reset(seed=seed)[1]["challenge"] for seed in range(12)}
    assert len(drawn) > 3
    assert drawn <= {*allowed}
    envs = gymnasium.make_vec(rcb_env.ENV_ID, num_envs=4, **settings)
    assert {*envs.reset(seed=0)[1]["challenge"]} <= {*allowed}
    assert envs.reset(seed=0, options={"split": "test"})[1]["challenge"][0] in challenges_of(
        split="test", difficulty=(0.5, 1.0)
    )
    envs.close()


def test_a_curriculum_follows_what_the_policy_solves_now_and_then() -> None:
    skill = {f"paper/{number}": number / 10 for number in range(11)}
    curriculum = Curriculum([*skill], seed=1)
    luck = np.random.default_rng(0)
    drawn: list[str] = []
    for _ in range(1500):
        one = curriculum.draw()
        curriculum.tell(one, luck.random() < skill[one])
        drawn.append(one)
    late = drawn[300:]
    within = [one for one in late if 0.2 <= skill[one] <= 0.8]
    assert len(within) > 0.8 * len(late)
    assert {*late} == {*skill}  # what was too hard or too easy comes back
    assert curriculum.rate("paper/0") == 0.0
    assert Curriculum(["a"]).rate("a") is None


def test_a_curriculum_goes_on_from_what_was_saved() -> None:
    first = Curriculum(["a", "b", "c"], least=1, seed=3)
    for number in range(20):
        first.tell(first.draw(), number % 2)
    second = Curriculum(["a", "b", "c", "new"], least=1, seed=4)
    third = Curriculum(["a", "b", "c"], least=1, seed=5)
    saved = json.loads(json.dumps(first.state()))
    second.load(saved)
    third.load(saved)
    assert [first.draw() for _ in range(20)] == [third.draw() for _ in range(20)]
    assert second.rate("new") is None
    assert second.rate("a") == first.rate("a")


def test_where_nothing_is_in_the_range_the_nearest_is_played() -> None:
    curriculum = Curriculum(["easy", "hard"], least=1, explore=0.0)
    curriculum.tell("easy", 1.0)
    curriculum.tell("hard", 0.1)
    assert {curriculum.draw() for _ in range(10)} == {"hard"}
    with pytest.raises(UsageError, match="none of the curriculum's"):
        curriculum.tell("other", 1)
    with pytest.raises(UsageError, match="each of them once"):
        Curriculum(["a", "a"])
    with pytest.raises(UsageError, match="from 0 to 1"):
        Curriculum(["a"], keep=(0.8, 0.2))
