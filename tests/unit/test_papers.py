"""Data sets of both layouts load into papers and challenges; every flaw is named with its line."""

from __future__ import annotations

import csv
import datetime
import os
import pickle
from pathlib import Path

import pytest

from rcb_env.dataset import markers
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.errors import UsageError

PUBLISHED = Path(__file__).parents[2] / "rcb_env/report/data/public_results.csv"


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def tagged(name: str, code: str = "    return x * 2\n", indent: str = "    ") -> str:
    return f'{indent}# <paper2code name="{name}">\n{code}{indent}# </paper2code name="{name}">\n'


def native(**changes: str) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {
        "papers.yaml": "name: tiny\ntitle: Tiny papers\npapers: [Alpha]\n",
        "Alpha/paper.yaml": (
            "id: Alpha\n"
            "title: A first paper\n"
            "authors: [A. Author, B. Author]\n"
            'arxiv: "2503.10622"\n'
            "venue: CVPR2025\n"
            "dates: {v1: 2025-03-13, first_public_code: '2025-03-14'}\n"
            "domain: vision\n"
            "license: MIT\n"
            "annotated: [src/double.py]\n"
            "context: src/model.py\n"
            "image: cpu\n"
            "limits: {time_s: 20, memory_mb: 1024}\n"
        ),
        "Alpha/paper.md": "# Doubling\r\nTwice x.\n",
        "Alpha/src/double.py": "def f(x):\n" + tagged("double it"),
        "Alpha/src/model.py": "from double import f\n",
        "Alpha/src/deep/extra.py": "N = 1\n",
        "Alpha/src/__pycache__/double.pyc": b"\0",
        "Alpha/tests/cases.py": "from rcb_env.cases import case\n",
        "Alpha/tests/checks.py": "",
    }
    return files | changes


ENTRY = "- id: {id}\n  title: T\n  annotated_file_paths: model.py\n"


def public(index: str, *folders: str) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {"papers.yaml": index}
    for folder in folders:
        files |= {
            f"{folder}/model.py": "import math\ndef f(x):\n" + tagged("body"),
            f"{folder}/paper2code_test.py": "import model\nimport model_ref\n",
            f"{folder}/model_ref.py": "def f(x):\n    return x * 2\n",
            f"{folder}/paper2code_paper.tex": "tex",
        }
    return files


def failure(root: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load_dataset(root)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{root}/", "")


# --- native -----------------------------------------------------------------------------------


def test_a_native_paper_has_everything_its_folder_says(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, native()))
    (paper,) = dataset.papers
    assert (dataset.name, paper.id, paper.layout, paper.arxiv) == (
        "tiny",
        "Alpha",
        "native",
        "2503.10622",
    )
    assert paper.authors == ("A. Author", "B. Author")
    assert paper.dates == {
        "v1": datetime.date(2025, 3, 13),
        "first_public_code": datetime.date(2025, 3, 14),
    }
    assert paper.text == "# Doubling\nTwice x.\n"
    assert (paper.annotated, paper.context) == (("src/double.py",), ("src/model.py",))
    assert set(paper.files) == {"src/double.py", "src/model.py", "src/deep/extra.py"}
    assert set(paper.tests) == {"tests/cases.py", "tests/checks.py"}
    assert (paper.time_limit_s, paper.memory_limit_mb) == (20.0, 1024)


def test_a_challenge_masks_fills_and_splices(tmp_path: Path) -> None:
    (challenge,) = load_dataset(write(tmp_path, native())).challenges
    assert (challenge.id, challenge.hint, challenge.lines) == ("Alpha/double-it", "double it", 1)
    assert challenge.reference == "    return x * 2\n"
    assert challenge.workspace()["src/double.py"] == (
        b'def f(x):\n    # TODO: Implement block "double it"\n'
        b"    # Approximately 1 line(s) of code.\n"
    )
    assert challenge.tree()["src/double.py"] == b"def f(x):\n    return x * 2\n"
    assert challenge.tree("    return 0")["src/double.py"] == b"def f(x):\n    return 0\n"
    assert challenge.tree()["src/model.py"] == b"from double import f\n"
    assert challenge.splice("    return 0").count("paper2code") == 2


def test_a_lone_surrogate_in_an_answer_is_the_candidates_trouble(tmp_path: Path) -> None:
    (challenge,) = load_dataset(write(tmp_path, native())).challenges
    assert b"\xed\xa0\x80" in challenge.tree("    return '\ud800'\n")["src/double.py"]


def test_one_native_paper_folder_is_a_data_set_too(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, native()) / "Alpha")
    assert [challenge.id for challenge in dataset.challenges] == ["Alpha/double-it"]


def test_equal_hints_of_one_paper_get_different_ids(tmp_path: Path) -> None:
    """Case C073: work was matched by its hint, so the second of two was never done."""
    files = native()
    files["Alpha/src/double.py"] = (
        "def f(x):\n"
        + tagged("double it")
        + "def g(x):\n"
        + tagged("Double it 2")
        + "def h(x):\n"
        + tagged("Double, it?")
        + "def k(x):\n"
        + tagged("∇")
    )
    files["Alpha/src/model.py"] = "def m(x):\n" + tagged("double it")
    files["Alpha/paper.yaml"] = (
        str(files["Alpha/paper.yaml"])
        .replace("[src/double.py]", "[src/double.py, src/model.py]")
        .replace("context: src/model.py\n", "")
    )
    challenges = load_dataset(write(tmp_path, files)).challenges
    assert [challenge.id.removeprefix("Alpha/") for challenge in challenges] == [
        "double-it",
        "double-it-2",
        "double-it-3",
        "region",
        "double-it-4",
    ]
    assert len({challenge.content_hash for challenge in challenges}) == 5


def test_the_content_hash_follows_what_prompt_and_grade_depend_on(tmp_path: Path) -> None:
    def hash_with(**changes: str) -> str:
        return load_dataset(write(tmp_path, native(**changes))).challenges[0].content_hash

    before = hash_with()
    assert hash_with() == before
    for name in ("src/double.py", "src/model.py", "tests/cases.py", "tests/checks.py", "paper.md"):
        text = native()[f"Alpha/{name}"]
        assert isinstance(text, str)
        assert hash_with(**{f"Alpha/{name}": text + "# more\n"}) != before
    assert hash_with(**{"Alpha/notes.txt": "not part of the paper"}) == before


def test_a_data_set_survives_pickling(tmp_path: Path) -> None:
    challenge = load_dataset(write(tmp_path, native())).challenges[0]
    again = pickle.loads(pickle.dumps(challenge))
    assert again == challenge
    assert again.workspace() == challenge.workspace()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "title: A",
            "titel: A",
            "Alpha/paper.yaml:1: the key 'title' is missing; add it (and 1 more in this file)",
        ),
        (
            "title: A first paper\nauthors: [A. Author, B. Author]",
            "titel: A",
            "Alpha/paper.yaml:1: the keys 'title', 'authors' are missing; add them (and 1 more in this file)",
        ),
        (
            "image: cpu",
            "image: gpu",
            "Alpha/paper.yaml:11: there is no image 'gpu'; write one of cpu, public",
        ),
        (
            "image: cpu",
            "image: cpu\nimages: x",
            "Alpha/paper.yaml:12: unknown key 'images'; did you mean 'image'?",
        ),
        (
            "time_s: 20",
            "time_s: soon",
            "Alpha/paper.yaml:12: limits.time_s: Input should be a valid number",
        ),
        (
            "time_s: 20",
            "time_s: 0",
            "Alpha/paper.yaml:12: limits.time_s: Input should be greater than 0",
        ),
        (
            "v1: 2025-03-13",
            "v1: 13.3.2025",
            "Alpha/paper.yaml:6: dates.v1: write a day as 2025-03-13",
        ),
        (
            "v1: 2025-03-13",
            "v1: 2025-02-30",
            "Alpha/paper.yaml:6: dates.v1: 2025-02-30 is not a date",
        ),
        ("v1: 2025-03-13", "v1: 2025", "Alpha/paper.yaml:6: dates.v1: write a day"),
        (
            "[src/double.py]",
            "[src/dubble.py]",
            "Alpha/paper.yaml:9: annotated: there is no file 'src/dubble.py'",
        ),
        (
            "[src/double.py]",
            "[../x.py]",
            "Alpha/paper.yaml:9: annotated.0: '../x.py' is not a path inside",
        ),
        ("[src/double.py]", "[]", "Alpha/paper.yaml:9: annotated: "),
        ("[src/double.py]", "paper.md", "Alpha/paper.yaml:9: 'paper.md' must lie in src/"),
        (
            "src/model.py",
            "src/double.py",
            "Alpha/paper.yaml:10: context: 'src/double.py' is listed twice",
        ),
        (
            "id: Alpha",
            "id: Beta",
            "Alpha/paper.yaml:1: the id is 'Beta' but the folder is called 'Alpha'",
        ),
        ("id: Alpha", "id: Alpha\nid: Alpha", "Alpha/paper.yaml:2: the key 'id' stands here twice"),
        (
            "domain: vision",
            "\tdomain: vision",
            "Alpha/paper.yaml:7: indented with a tab; use blanks",
        ),
        ("domain: vision", "domain: [vision", "Alpha/paper.yaml:8: is not valid YAML"),
        (
            "domain: vision",
            "domain: null",
            "Alpha/paper.yaml:7: domain: Input should be a valid string",
        ),
    ],
)
def test_every_flaw_of_paper_yaml_is_one_line_with_file_and_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    files = native()
    text = str(files["Alpha/paper.yaml"])
    assert old in text
    files["Alpha/paper.yaml"] = text.replace(old, new)
    assert failure(write(tmp_path, files)).startswith(message)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        (
            "Alpha/src/double.py",
            "def f(x):\n    return 1\n",
            "Alpha/src/double.py: is listed as annotated",
        ),
        (
            "Alpha/src/double.py",
            tagged("a", "# only\n", ""),
            'Alpha/src/double.py:1: the region "a" holds no code',
        ),
        (
            "Alpha/src/double.py",
            "x = 1\n" + tagged("a")[:30],
            'Alpha/src/double.py:2: the region "a" is never',
        ),
        ("Alpha/paper.yaml", b"id: \xff\n", "Alpha/paper.yaml:1: is not UTF-8 text"),
        ("Alpha/paper.yaml", "", "Alpha/paper.yaml: is empty"),
        ("Alpha/paper.yaml", "- a\n", "Alpha/paper.yaml:1: expected `key: value` lines here"),
        ("Alpha/paper.yaml", "id: \0\n", "Alpha/paper.yaml: is not valid YAML"),
        ("papers.yaml", "name: tiny\npapers: []\n", "papers.yaml:2: papers: "),
        (
            "papers.yaml",
            "name: tiny\npapers: [Alpha, Alpha]\n",
            "papers.yaml:2: the id 'Alpha' is already used on line 2",
        ),
        (
            "papers.yaml",
            "name: tiny\npapers:\n- Alpha\n- Beta\n",
            "papers.yaml:4: the paper 'Beta' has no folder",
        ),
        ("Gamma/paper.md", "", "papers.yaml:1: the folder 'Gamma' has no entry here"),
    ],
)
def test_every_flaw_of_a_folder_is_one_line_with_file_and_line(
    tmp_path: Path, path: str, content: str | bytes, message: str
) -> None:
    assert failure(write(tmp_path, native() | {path: content})).startswith(message)


@pytest.mark.parametrize("missing", ["paper.yaml", "paper.md", "tests/cases.py", "tests/checks.py"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    write(tmp_path, native())
    (tmp_path / "Alpha" / missing).unlink()
    assert failure(tmp_path).startswith(f"Alpha/{missing}: ")


def test_a_symbolic_link_in_a_paper_is_refused(tmp_path: Path) -> None:
    write(tmp_path, native())
    (tmp_path / "Alpha/src/link.py").symlink_to("/etc/hostname")
    assert failure(tmp_path).startswith("Alpha/src/link.py: is a symbolic link")


def test_a_folder_that_is_no_data_set_is_a_user_error(tmp_path: Path) -> None:
    assert "no papers.yaml" in failure(tmp_path)
    assert "no data set" in failure(tmp_path / "nowhere")


# --- selection --------------------------------------------------------------------------------


@pytest.fixture
def two_papers(tmp_path: Path) -> Dataset:
    index = ENTRY.format(id="Zeta") + ENTRY.format(id="Alpha")
    return load_dataset(write(tmp_path, public(index, "Alpha", "Zeta")))


def test_selection_keeps_the_order_of_the_data_set(two_papers: Dataset) -> None:
    ids = [challenge.id for challenge in two_papers.challenges]
    assert ids == ["Zeta/body", "Alpha/body"]
    assert two_papers.select() == two_papers.challenges
    assert two_papers.select(challenges=reversed(ids)) == two_papers.challenges
    assert [c.id for c in two_papers.select(papers="Alpha")] == ["Alpha/body"]
    assert two_papers.select(papers=[], challenges=()) == two_papers.challenges


def test_a_data_set_is_a_sequence_of_its_challenges(two_papers: Dataset) -> None:
    assert tuple(two_papers) == two_papers.challenges
    assert len(two_papers) == len(two_papers.challenges) > 1


def test_unknown_names_are_answered_with_near_ones(two_papers: Dataset) -> None:
    with pytest.raises(UsageError, match=r"unknown paper 'zeta'. Did you mean Zeta\?"):
        two_papers.select(papers=["zeta"])
    with pytest.raises(UsageError, match=r"unknown challenge 'Alpha/bdy'. Did you mean Alpha/body"):
        two_papers.select(challenges=["Alpha/bdy"])
    with pytest.raises(UsageError, match="none of the challenges"):
        two_papers.select(papers=["Zeta"], challenges=["Alpha/body"])


# --- paper2code -------------------------------------------------------------------------------


def test_a_public_folder_is_split_into_what_is_shown_and_what_is_hidden(tmp_path: Path) -> None:
    files = public(
        ENTRY.format(id="P") + "  context_file_paths: [train.py]\n  github_url: https://x.example\n"
        "  arxiv_abs: https://arxiv.org/abs/2410.05258v2\n  first_commit_date: 2024-12-01\n"
        "  more: ok\n",
        "P",
    )
    files |= {
        "P/train.py": "from lib.sub import thing\nimport timm.layers\n",
        "P/lib/__init__.py": "from .far import near\n",
        "P/lib/sub.py": "",
        "P/lib/far.py": "",
        "P/lib/unused.py": "",
        "P/paper2code_test.py": "import unittest\nimport scipy.stats as st\nimport model\n"
        "import model_ref\n"
        "from torch.nn import functional\ndef late():\n    import jax\n",
        "P/data/table.parquet": b"\0",
        "P/configs/loss.yaml": "a: 1\n",
        "P/paper2code.yaml": "stray",
        "P/requirements.txt": "numpy",
        "P/picture.png": b"\0",
        "P/README.md": "",
        "P/LICENSE": "",
        "P/.git/objects/aa": b"\0",
        "P/__pycache__/model.pyc": b"\0",
    }
    (paper,) = load_dataset(write(tmp_path, files)).papers
    assert list(paper.files) == [
        "model.py",
        "train.py",
        "lib/__init__.py",
        "lib/far.py",
        "lib/sub.py",
    ]
    assert list(paper.tests) == [
        "configs/loss.yaml",
        "data/table.parquet",
        "lib/unused.py",
        "model_ref.py",
        "paper2code_test.py",
    ]
    assert paper.image == "public"
    assert paper.text == "tex"
    assert paper.dates == {"first_public_code": datetime.date(2024, 12, 1)}
    assert (paper.layout, paper.arxiv, paper.code_url) == (
        "paper2code",
        "2410.05258v2",
        "https://x.example",
    )


def test_the_text_is_markdown_where_there_is_no_tex(tmp_path: Path) -> None:
    write(tmp_path, public(ENTRY.format(id="P"), "P") | {"P/paper2code_paper.md": "md"})
    (tmp_path / "P/paper2code_paper.tex").unlink()
    assert load_dataset(tmp_path).papers[0].text == "md"
    (tmp_path / "P/paper2code_paper.md").unlink()
    assert "has neither paper2code_paper.tex nor" in failure(tmp_path)


@pytest.mark.parametrize(
    "id", ["2410.10", "007", "on", "12e3", "null", "1_000", "0x1F", "2024-01-02", "no"]
)
def test_an_id_is_exactly_the_text_that_was_written(tmp_path: Path, id: str) -> None:
    """Case C080: YAML made 2410.1 of an unquoted 2410.10, 7 of 007, and True of on."""
    assert load_dataset(write(tmp_path, public(ENTRY.format(id=id), id))).papers[0].id == id


def test_native_ids_are_exactly_the_text_that_was_written(tmp_path: Path) -> None:
    """Case C080: the same in the other layout, where the index is a list of bare ids."""
    files = {name.replace("Alpha", "2410.10"): content for name, content in native().items()}
    files["papers.yaml"] = "name: tiny\npapers: [2410.10]\n"
    files["2410.10/paper.yaml"] = str(files["2410.10/paper.yaml"]).replace(
        "id: Alpha", "id: 2410.10"
    )
    (challenge,) = load_dataset(write(tmp_path, files)).challenges
    assert challenge.id == "2410.10/double-it"


@pytest.mark.parametrize("id", ["a/b", "..", "''", "-x", "a b", ""])
def test_an_id_that_cannot_name_a_folder_is_refused(tmp_path: Path, id: str) -> None:
    assert failure(write(tmp_path, public(ENTRY.format(id=id)))).startswith("papers.yaml:1: id: ")


def test_quoted_and_unquoted_dates_are_days(tmp_path: Path) -> None:
    """Case C080: an unquoted date became a date, a quoted one a string; they do not compare."""
    index = ENTRY.format(id="P") + "  arxiv_date: 2025-03-13\n  arxiv_v1_date: '2025-03-12'\n"
    dates = load_dataset(write(tmp_path, public(index, "P"))).papers[0].dates
    assert dates["v1"] < dates["arxiv"]
    assert dates["arxiv"].isoformat() == "2025-03-13"


@pytest.mark.parametrize("written", ["model.py", "[model.py]", "\n  - model.py", "'model.py'"])
def test_file_lists_may_be_one_path_or_a_list(tmp_path: Path, written: str) -> None:
    index = f"- id: P\n  title: T\n  annotated_file_paths: {written}\n"
    assert load_dataset(write(tmp_path, public(index, "P"))).papers[0].annotated == ("model.py",)


@pytest.mark.parametrize(
    "written",
    ["", "  context_file_paths:\n", "  context_file_paths: null\n", "  context_file_paths: []\n"],
)
def test_a_missing_or_empty_context_list_is_empty(tmp_path: Path, written: str) -> None:
    index = ENTRY.format(id="P") + written
    assert load_dataset(write(tmp_path, public(index, "P"))).papers[0].context == ()


@pytest.mark.parametrize(
    ("index", "folders", "message"),
    [
        (ENTRY.format(id="P") * 2, ["P"], "papers.yaml:4: the id 'P' is already used on line 1"),
        (
            ENTRY.format(id="P") + ENTRY.format(id="Q"),
            ["P"],
            "papers.yaml:4: the paper 'Q' has no folder",
        ),
        (ENTRY.format(id="P"), ["P", "Q"], "papers.yaml:1: the folder 'Q' has no entry here"),
        ("- id: P\n\ttitle: T\n", ["P"], "papers.yaml:2: indented with a tab"),
        (
            "- id: P\n  title: T\n",
            ["P"],
            "papers.yaml:1: the key '0.annotated_file_paths' is missing",
        ),
        (
            "- id: P\n  title: T\n  annotated_file_paths:\n",
            ["P"],
            "papers.yaml:3: annotated_file_paths: ",
        ),
        (
            ENTRY.format(id="P") + "  arxiv_date: today\n",
            ["P"],
            "papers.yaml:4: arxiv_date: write a day",
        ),
        (
            ENTRY.format(id="P") + "  context_file_paths: a.py\n",
            ["P"],
            "papers.yaml:4: context_file_paths: there is",
        ),
        ("- P\n", ["P"], "papers.yaml:1: expected `key: value` lines here"),
        ("[]\n", [], "papers.yaml:1: lists no papers"),
        ("P\n", ["P"], "papers.yaml:1: expected `key: value` lines here"),
    ],
)
def test_every_flaw_of_a_public_index_is_named_with_file_and_line(
    tmp_path: Path, index: str, folders: list[str], message: str
) -> None:
    """Case C080: duplicates, missing folders and tab-indented files ended in a traceback."""
    message = message.replace("'0.", "'")
    assert failure(write(tmp_path, public(index, *folders))).startswith(message)


def _public_benchmark() -> Dataset:
    """The whole public data set, where it is on this machine: named by a variable, or in the user's cache."""
    try:
        return load_dataset(os.environ.get("RCB_PUBLIC_DATASET") or "researchcodebench")
    except UsageError as error:
        pytest.skip(f"{error}; or set RCB_PUBLIC_DATASET to a clone of it")


def test_every_challenge_of_the_public_benchmark_is_parsed_masked_and_restored() -> None:
    dataset = _public_benchmark()
    assert len(dataset.papers) == 20
    assert len(dataset.challenges) == 212
    assert sum(challenge.lines for challenge in dataset.challenges) == 1449
    for challenge in dataset.challenges:
        text = challenge.paper.files[challenge.file].decode()
        raw = markers.raw_body(text, challenge.region)
        assert challenge.splice(raw) == text, challenge.id  # tags of inner regions included
        masked = challenge.masked()
        visible = challenge.paper.visible[challenge.file].decode()
        assert masked.fill(challenge.reference) == visible
        assert challenge.tree() == challenge.paper.visible
        assert masked.text.count(f'# TODO: Implement block "{challenge.hint}"') == 1
        assert "<paper2code" not in masked.text
    published = {
        (row["paper"], row["file"], int(row["start_tag_line"])): (
            row["challenge"],
            int(row["lines"]),
        )
        for row in csv.DictReader(PUBLISHED.read_text().splitlines())
    }
    ours = {(c.paper.id, c.file, c.region.start + 1): (c.id, c.lines) for c in dataset.challenges}
    assert ours == published
