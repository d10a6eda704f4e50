"""Variants of a paper: drawn by number, the same everywhere; what a file of knobs cannot mean is told with the knob."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest

from rcb_env.dataset.knobs import read_knobs
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.dataset.selection import Selection
from rcb_env.dataset.variant_names import published, variant_of, with_variant
from rcb_env.dataset.variants import KEPT
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.errors import PaperError, UsageError
from tests.two_files import FILES, VARIANTS


@pytest.fixture
def dataset(tmp_path: Path, write_paper: Callable[..., Path]) -> Dataset:
    files = {**FILES, "paper.md": "Multiply, then add one.\n", "variants.yaml": VARIANTS}
    return load_dataset(write_paper(tmp_path / "tiny", files))


def declare_splits(dataset: Dataset, test: str = "8-9") -> None:
    (dataset.papers[0].root.parent / "splits.yaml").write_text(
        "train: [tiny]\nvalidation: []\ntest: []\n"
        f"variants: {{train: 1-5, validation: 6-7, test: {test}}}\n"
    )


def test_an_id_says_which_variant_it_is_of() -> None:
    ids = ["DyT/forward", "DyT@paper", "DyT", "minp/src/truncation.py@file"]
    for id in ids:
        assert variant_of(id) == 0
        assert published(id) == id == with_variant(id, 0)
        assert variant_of(with_variant(id, 17)) == 17
        assert published(with_variant(id, 17)) == id
        assert with_variant(with_variant(id, 3), 17) == with_variant(id, 17)
    assert with_variant("minp/src/a.py@file", 2) == "minp~2/src/a.py@file"
    assert variant_of("a~b/c") == 0
    assert variant_of("a/b~3x") == 0


def test_a_variant_says_its_choice_in_text_code_and_tests(dataset: Dataset) -> None:
    paper = dataset.papers[0]
    assert paper.variants is not None
    knobs = paper.variants.knobs(paper)
    other = paper.variants.chosen(paper, {"offset": "two", "factor": "by"}, "tiny~x")
    assert other.text == "Multiply, then add two.\n"
    assert [one.id for one in other.challenges] == [
        "tiny~x/scale",
        "tiny~x/shift",
        "tiny~x/remember",
    ]
    assert other.challenges[0].reference == "    return x * by + 2\n"
    assert "self.by = by" in other.challenges[2].reference
    assert b"factor" not in b"".join(other.files.values())
    assert set(knobs.render({})) == set(), "nothing chosen is the paper, byte for byte"


def test_a_file_of_knobs_is_no_part_of_a_paper(
    dataset: Dataset, tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    files = {**FILES, "paper.md": "Multiply, then add one.\n"}
    without = load_dataset(write_paper(tmp_path / "again" / "tiny", files))
    assert without.content_hash == dataset.content_hash
    assert without.papers[0].content_hash == dataset.papers[0].content_hash
    with pytest.raises(UsageError, match="tiny declares no variants; leave out ~4"):
        without.challenge("tiny~4/scale")


def test_the_same_number_gives_the_same_variant_in_every_process(dataset: Dataset) -> None:
    paper = dataset.papers[0]
    assert paper.variants is not None
    knobs = paper.variants.knobs(paper)
    drawn = [knobs.chosen("tiny", number) for number in range(6)]
    assert drawn[0] == {}
    assert all(one.get("offset") for one in drawn[1:]), "something that matters is made otherwise"
    code = (
        "import sys; from rcb_env import load_dataset;"
        "print(*[load_dataset(sys.argv[1]).paper(f'tiny~{n}').content_hash for n in range(6)])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(paper.root)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    ).stdout.split()
    assert told == [dataset.paper(f"tiny~{number}").content_hash for number in range(6)]
    assert len(set(told)) > 2


def test_a_challenge_of_a_variant_is_found_by_its_id_in_every_scope(dataset: Dataset) -> None:
    one = dataset.challenge("tiny~5/scale")
    assert (one.id, one.paper.id) == ("tiny~5/scale", "tiny~5")
    assert one.content_hash != dataset.challenge("tiny/scale").content_hash
    assert dataset.challenge("tiny~0/scale") is dataset.challenge("tiny/scale")
    assert pickle.loads(pickle.dumps(one)).content_hash == one.content_hash
    for scope in ("paper", "library", "file"):
        jointly = load_dataset(f"{dataset.papers[0].root}@{scope}")
        first = jointly.challenges[0].id
        assert jointly.challenge(with_variant(first, 5)).id == with_variant(first, 5)
        assert jointly.challenge(with_variant(first, 5)).paper.text == one.paper.text
    with pytest.raises(UsageError, match=re.escape("tiny~5/scael")):
        dataset.challenge("tiny~5/scael")


def test_few_variants_are_kept(dataset: Dataset) -> None:
    first = dataset.paper("tiny~1")
    assert dataset.paper("tiny~1") is first
    for number in range(2, KEPT + 2):
        dataset.paper(f"tiny~{number}")
    again = dataset.paper("tiny~1")
    assert again is not first
    assert again.content_hash == first.content_hash


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (7, [7]),
        ([7, 3, 7], [7, 3]),
        (range(4), [0, 1, 2, 3]),
        ("7", [7]),
        ("0-3", [0, 1, 2, 3]),
        ("1,5-7", [1, 5, 6, 7]),
        ("test", [8, 9]),
    ],
)
def test_numbers_of_variants_may_be_said_in_several_ways(
    dataset: Dataset, said: object, meant: list[int]
) -> None:
    declare_splits(dataset)
    found = Selection.of({"variants": said, "challenges": "tiny/shift"}).among(dataset)
    assert [variant_of(one.id) for one in found] == meant


@pytest.mark.parametrize("said", [-1, [], "", "a", "3-", True, [True], "3-1", 1.5, ["1"]])
def test_what_is_no_number_of_a_variant_is_refused(said: object) -> None:
    with pytest.raises(UsageError, match=r"variants is .*; it must be a number"):
        Selection.of({"variants": said})


def test_a_split_holds_its_own_numbers_of_variants(dataset: Dataset) -> None:
    declare_splits(dataset)
    train = Selection.of({"split": "train", "variants": range(1000)})
    assert list(train.numbers(dataset) or ()) == [1, 2, 3, 4, 5]
    assert len(train.among(dataset)) == 5 * 3
    with pytest.raises(UsageError, match="no selected variant is of the split train: 1-5"):
        Selection.of({"split": "train", "variants": [8, 9]}).among(dataset)
    declare_splits(dataset, test="5-9")
    with pytest.raises(PaperError, match=r"splits\.yaml:4: two splits have numbers"):
        train.among(dataset)
    declare_splits(dataset, test="9-8")
    with pytest.raises(PaperError, match="'9-8': write numbers from 1 as 1-7999"):
        train.among(dataset)


def test_of_stored_episodes_a_split_holds_its_own_variants_only(dataset: Dataset) -> None:
    declare_splits(dataset)
    ids = ["tiny/scale", "tiny~2/scale", "tiny~8/scale", "tiny~2/shift"]

    def held(**settings: object) -> list[str]:
        return [*filter(Selection.of(settings).holding(dataset), ids)]

    assert held(split="train") == ["tiny/scale", "tiny~2/scale", "tiny~2/shift"]
    assert held(variants="test") == ["tiny~8/scale"]
    assert held(challenges="tiny/scale") == ids[:3]
    assert held(challenges="tiny/scale", variants=[0, 2]) == ids[:2]


def test_a_name_with_a_number_and_numbers_beside_it_are_refused(dataset: Dataset) -> None:
    with pytest.raises(UsageError, match="tiny~2/shift names a variant; leave out variants, or ~2"):
        Selection.of({"challenges": ["tiny/scale", "tiny~2/shift"], "variants": 3})
    chosen = dataset.select(challenges=["tiny~2/shift", "tiny/scale", "tiny~1/shift"])
    assert [one.id for one in chosen] == ["tiny/scale", "tiny~1/shift", "tiny~2/shift"]
    assert dataset.select(papers=["tiny~4"])[0].id == "tiny~4/scale"


def test_an_environment_draws_a_variant_at_each_reset(dataset: Dataset) -> None:
    env = gymnasium.make("rcb/Challenge-v0", dataset=dataset, variants=range(1000))
    ids = [env.reset(seed=seed)[1]["challenge"] for seed in range(20)]
    assert [env.reset(seed=seed)[1]["challenge"] for seed in range(20)] == ids
    assert len({variant_of(id) for id in ids}) > 15
    assert len({published(id) for id in ids}) == 3
    fixed = ResearchCodeEnv("tiny/scale", dataset=dataset, variants=[0, 1, 2, 3])
    states = {}
    for seed in range(20):
        _, info = fixed.reset(seed=seed)
        states[info["challenge"]] = info["state_hash"]
    assert sorted(states) == ["tiny/scale", *(f"tiny~{n}/scale" for n in (1, 2, 3))]
    assert len(set(states.values())) == 4
    _, info = fixed.reset(options={"challenge": "tiny~9/shift"})
    kept = fixed.snapshot()
    fixed.reset(options={"variants": 2, "challenges": "tiny/scale"})
    assert fixed.restore(kept)[1]["state_hash"] == info["state_hash"]


TEXTS = {"paper.md": "one two two\n", "src/a.py": 'x = 1\n# <paper2code name="b">\ny = x\n'}
KNOB = "knobs:\n- {name: k, about: a, choices: {p: [], q: []}, pieces: [PIECES]}\n"


@pytest.mark.parametrize(
    ("pieces", "more", "told"),
    [
        ("{file: paper.md, reads: {p: three, q: 3}}", "", "the knob 'k': paper.md: 'three' stands there 0 times, not 1"),
        ("{file: paper.md, reads: {p: two, q: 2}}", "", "'two' stands there 2 times, not 1; write more of it, or `within` or `times`"),
        ("{file: paper.md, reads: {p: two, q: 2}, times: 3}", "", "'two' stands there 2 times, not 3"),
        ("{file: paper.md, reads: {p: one, q: 2}, within: two}", "", "'two' stands there 2 times, not 1"),
        ("{file: src/b.py, reads: {p: one, q: 2}}", "", "there is no file 'src/b.py' to be rendered: paper.md, src/a.py"),
        ("{file: paper.md, reads: {q: one}}", "", "does not say how it reads for 'p'"),
        ("{file: paper.md, reads: {p: one, r: 2}}", "", "reads for 'r', which is none of its choices"),
        ("{file: paper.md, reads: {p: one t, q: 2}}, {file: paper.md, reads: {p: two two, q: 2}}", "", "paper.md:1: its text overlaps with one of k"),
        ("{file: src/a.py, reads: {p: paper2code, q: 2}}", "", "src/a.py:2: its text holds a tag, which must stay as it is"),
        ("{file: paper.md, reads: {p: one, q: 2}}", "names: {z: [w]}", "z stands in no file as a word"),
        ("{file: paper.md, reads: {p: one, q: 2}}", "names: {x: [y]}", "y stands in a file already"),
        ("{file: paper.md, reads: {p: one, q: 2}}", "names: {x: [for]}", "'for' cannot be a name in Python"),
        ("{file: paper.md, reads: {p: one, q: w}}", "names: {x: [w]}", "w stands in a piece: write its published name"),
        ("{file: paper.md, reads: {p: one, q: 2}}", "names: {x: [w], y: [w]}", "two names have an alternative in common"),
        ("{file: paper.md, reads: {p: one, q: 2}}", "names: {k: [w]}", "the knob 'k': is the name of something else here"),
    ],
)  # fmt: skip
def test_what_a_file_of_knobs_cannot_mean_is_told_in_a_line(
    tmp_path: Path, pieces: str, more: str, told: str
) -> None:
    path = tmp_path / "variants.yaml"
    path.write_text(KNOB.replace("PIECES", pieces) + more)
    with pytest.raises(PaperError) as error:
        read_knobs(path, TEXTS)
    message = str(error.value)
    assert told in message
    assert message.startswith(f"{path}:")
    assert "\n" not in message


def test_names_are_whole_words_and_tags_stay(tmp_path: Path) -> None:
    path = tmp_path / "variants.yaml"
    path.write_text("knobs:\n- {name: k, about: a, choices: {p: [], q: []}, pieces: [{file: t.md, reads: {p: one, q: x}}]}\nnames: {x: [w]}\n")  # fmt: skip
    knobs = read_knobs(path, {"t.md": "one x\n", "a.py": "x = xx.x_x\n# </paper2code x>\nx"})
    made = knobs.render({"k": "q", "x": "w"})
    assert made == {"t.md": "w w\n", "a.py": "w = xx.x_x\n# </paper2code x>\nw"}
