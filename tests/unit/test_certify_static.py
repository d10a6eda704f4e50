"""What `rcb check` sees without running code: long regions, answers in sight, stale reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.certify import Problem, leaks, static_problems
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Paper
from rcb_env.errors import PaperError
from rcb_env.mutation import mutants

PAPER_YAML = """\
id: small
title: Small
authors: [Nobody]
domain: none
license: MIT
dates: {v1: 2025-01-01}
annotated: [src/small.py]
image: cpu
limits: {time_s: 5, memory_mb: 512}
"""
TWO_LINES = """\
def f(x):
    # <paper2code name="double">
    y = x * 2  # twice

    return y
    # </paper2code name="double">
"""
ONE_LINE = """\
def f(x):
    # <paper2code name="double">
    return x * 2
    # </paper2code name="double">
"""


def paper(
    root: Path, source: str, *, text: str = "# Doubling\n", other: str = "", survivors: str = ""
) -> Paper:
    """A native paper with one annotated file, written to disk and loaded."""
    files = {
        "paper.yaml": PAPER_YAML,
        "paper.md": text,
        "src/small.py": source,
        "src/other.py": other,
        "tests/cases.py": "",
        "tests/checks.py": "",
    }
    if survivors:
        files["tests/survivors.yaml"] = survivors
    for name, content in files.items():
        path = root / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return load_dataset(root / "small").papers[0]


def messages(found: Paper) -> list[str]:
    return [str(problem).replace(f"{found.root}/", "") for problem in static_problems(found)]


def test_a_sound_paper_has_no_problems(tmp_path: Path) -> None:
    assert messages(paper(tmp_path, TWO_LINES)) == []


@pytest.mark.parametrize(
    ("text", "other", "place"),
    [
        ("We return\n\n    y=x*2\n    return y\n", "", "paper.md, line 3"),
        (
            "",
            "def g(x):\n        y = x * 2\n        # so:\n\n        return y\n",
            "src/other.py, line 2",
        ),
        ("", "# y = x * 2\n#   return y\n", "src/other.py, line 1"),
    ],
)
def test_an_answer_elsewhere_in_sight_is_a_leak(
    tmp_path: Path, text: str, other: str, place: str
) -> None:
    (message,) = messages(paper(tmp_path, TWO_LINES, text=text, other=other))
    assert message.startswith("src/small.py:2: small/double its code stands also in " + place)


def test_part_of_an_answer_elsewhere_is_no_leak(tmp_path: Path) -> None:
    assert messages(paper(tmp_path, TWO_LINES, other="y = x * 2\nz = 1\nreturn y\n")) == []


def test_a_region_of_one_line_must_be_the_only_such_line(tmp_path: Path) -> None:
    found = paper(tmp_path, ONE_LINE + "\ndef g(x):\n    return x*2 # same\n")
    (message,) = messages(found)
    assert message.endswith("stands also in src/small.py, line 6 of what the agent sees")


def test_an_inner_region_may_not_be_readable_in_its_outer_one(tmp_path: Path) -> None:
    source = """\
def f(x):
    # <paper2code name="all">
    # <paper2code name="first">
    x = g(x)
    # </paper2code name="first">
    x = g(x)
    return x
    # </paper2code name="all">
"""
    outer, inner = paper(tmp_path, source).challenges
    assert leaks(outer) == ()
    assert [problem.line for problem in leaks(inner)] == [3]


def test_a_region_that_is_too_long_is_named(tmp_path: Path) -> None:
    source = '# <paper2code name="long">\n' + "".join(f"x{n} = {n}\n" for n in range(61))
    (message,) = messages(paper(tmp_path, source + '# </paper2code name="long">\n'))
    assert message.startswith("src/small.py:1: small/long has 61 lines of code; at most 60")


def test_regions_in_a_file_that_is_not_listed_are_no_challenges_and_said_to_be_none(
    tmp_path: Path,
) -> None:
    other = ONE_LINE.replace("x * 2", "x * 3").replace("double", "treble")
    (message,) = messages(paper(tmp_path, TWO_LINES, other="\n" + other))
    assert message == (
        "src/other.py:3: has 1 region that nobody is asked for: add src/other.py to annotated in paper.yaml"
    )
    (message,) = messages(paper(tmp_path, TWO_LINES, other=other.rpartition("    #")[0]))
    assert message.startswith('src/other.py:2: the region "treble" is never closed')


def test_reasons_name_mutants_by_hash_or_by_description(tmp_path: Path) -> None:
    first, second = mutants("    return x * 2\n")[:2]
    survivors = (
        f"- {{challenge: small/double, hash: {first.hash}, reason: it is the same}}\n"
        f"- challenge: small/double\n  description: '{second.description}'\n  reason: so is this\n"
    )
    assert messages(paper(tmp_path, ONE_LINE, survivors=survivors)) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{challenge: small/x, hash: abc, reason: r}", "1: there is no challenge 'small/x'"),
        ("{challenge: small/double, hash: abc, reason: r}", "1: small/double has no mutant 'abc'"),
        ("{challenge: small/double, hash: abc}", "1: the key 'reason' is missing"),
        ("{challenge: small/double, reason: r}", "1: give either"),
        ("{challenge: small/double, hash: abc, reason: }", "1: reason: "),
    ],
)
def test_reasons_that_fit_nothing_are_named_with_their_line(
    tmp_path: Path, entry: str, message: str
) -> None:
    (found,) = messages(paper(tmp_path, ONE_LINE, survivors=f"- {entry}\n"))
    assert found.startswith(f"tests/survivors.yaml:{message}")


def test_a_paper_that_does_not_load_is_one_problem() -> None:
    error = PaperError("is empty", path="a/paper.yaml", line=3)
    assert str(Problem.of(error)) == "a/paper.yaml:3: is empty"
