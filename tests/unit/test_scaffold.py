"""`rcb new` adds a paper that loads, changes nothing else, and refuses in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.author.scaffold import create
from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import UsageError


def refused(paper: str, dataset: Path) -> str:
    before = sorted(dataset.rglob("*")) if dataset.is_dir() else []
    with pytest.raises(UsageError) as caught:
        create(paper, dataset)
    assert (sorted(dataset.rglob("*")) if dataset.is_dir() else []) == before
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{dataset}", "DATASET")


def test_the_first_paper_makes_its_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "my papers"
    written = create("Mine-2.0", folder)
    assert {path.relative_to(folder).as_posix() for path in written} == {
        "papers.yaml",
        *(
            f"Mine-2.0/{name}"
            for name in (
                "paper.yaml",
                "paper.md",
                "src/example.py",
                "tests/cases.py",
                "tests/checks.py",
            )
        ),
    }
    dataset = load_dataset(folder)
    assert dataset.name == "my-papers"
    assert [one.id for one in dataset.challenges] == [
        "Mine-2.0/running-averages-without-the-bias-of-their-start",
        "Mine-2.0/average-update",
    ]


@pytest.mark.parametrize("id", ["2410.10", "on", "null", "1e3", "x"])
def test_an_id_stays_the_text_that_was_written(tmp_path: Path, id: str) -> None:
    create("first", tmp_path / "papers")
    create(id, tmp_path / "papers")
    assert [paper.id for paper in load_dataset(tmp_path / "papers").papers] == ["first", id]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: a\npapers:\n- one\n", 'name: a\npapers:\n- one\n- "two"\n'),
        (
            "papers:\n    - one  # the first\nname: a\n",
            'papers:\n    - one  # the first\n    - "two"\nname: a\n',
        ),
        ("name: a\npapers:\n  - one", 'name: a\npapers:\n  - one\n  - "two"'),
        ("name: a\npapers: [one]  # flow\n", 'name: a\npapers: [one, "two"]  # flow\n'),
        ("name: a\npapers: [\n  one,\n]\n", 'name: a\npapers: [\n  one, "two",\n]\n'),
        (
            "\ufeffname: a\r\npapers:\r\n  - one\r\n",
            '\ufeffname: a\r\npapers:\r\n  - one\r\n  - "two"\r\n',
        ),
    ],
)
def test_the_index_keeps_its_form(tmp_path: Path, before: str, after: str) -> None:
    create("one", tmp_path)
    (tmp_path / "papers.yaml").write_bytes(before.encode())
    create("two", tmp_path)
    assert (tmp_path / "papers.yaml").read_bytes().decode() == after
    assert [paper.id for paper in load_dataset(tmp_path).papers] == ["one", "two"]


@pytest.mark.parametrize(
    "id", ["", ".", "..", "../x", "a/b", "-x", ".x", "a b", "é", "papers.yaml"]
)
def test_a_bad_id_is_refused(tmp_path: Path, id: str) -> None:
    assert "cannot be a paper's id: use letters" in refused(id, tmp_path / "papers")


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    create("mine", folder)
    assert refused("mine", folder).startswith(
        "DATASET/papers.yaml:3: the id 'mine' is listed already"
    )
    assert refused("MINE", folder).startswith("DATASET/mine: is there already")
    (folder / "other").mkdir()
    assert refused("other", folder).startswith("DATASET/other: is there already")


def test_a_folder_that_is_no_native_data_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds files but no papers.yaml" in refused("x", tmp_path)
    assert "is not a folder" in refused("x", tmp_path / "notes.txt")
    (tmp_path / "papers.yaml").write_text("- id: a\n  title: A\n")
    assert "public data set" in refused("x", tmp_path)
    (tmp_path / "papers.yaml").write_text("name: a\npapers: []\n")
    assert "lists no papers" in refused("x", tmp_path)
