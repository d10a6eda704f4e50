"""What `rcb check` sees without running code: long regions, answers in sight, stale reasons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rcb_env.certify import Problem, leaks, static_problems
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Paper
from rcb_env.errors import PaperError
from rcb_env.mutation import mutants

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


@pytest.fixture
def paper(tmp_path: Path, write_paper: Callable[..., Path]) -> Callable[..., Paper]:
    """Makes a paper with one annotated file."""

    def make(
        source: str, *, text: str = "# Doubling\n", other: str = "", survivors: str = ""
    ) -> Paper:
        files = {"paper.md": text, "src/small.py": source, "src/other.py": other}
        if survivors:
            files["tests/survivors.yaml"] = survivors
        folder = write_paper(tmp_path / "small", files, annotated=["src/small.py"])
        return load_dataset(folder).papers[0]

    return make


def messages(found: Paper) -> list[str]:
    return [str(problem).replace(f"{found.root}/", "") for problem in static_problems(found)]


def test_a_sound_paper_has_no_problems(paper: Callable[..., Paper]) -> None:
    assert messages(paper(TWO_LINES)) == []


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
    paper: Callable[..., Paper], text: str, other: str, place: str
) -> None:
    (message,) = messages(paper(TWO_LINES, text=text, other=other))
    assert message.startswith("src/small.py:2: small/double its code stands also in " + place)


def test_part_of_an_answer_elsewhere_is_no_leak(paper: Callable[..., Paper]) -> None:
    assert messages(paper(TWO_LINES, other="y = x * 2\nz = 1\nreturn y\n")) == []


NUCLEUS = """\
def top(probs, p):
    # <paper2code name="nucleus">
    if not 0 < p <= 1:
        raise ValueError(p)
    ranked = probs.sort(descending=True).values
    ahead = ranked.cumsum(dim=-1) - ranked
    nucleus = (ahead < p).sum(dim=-1, keepdim=True)
    return ranked.gather(-1, nucleus - 1)
    # </paper2code name="nucleus">
"""


@pytest.mark.parametrize(
    ("other", "found"),
    [
        # The mass before each rank, and how many ranks have enough: the same two statements by other names.
        (
            "before = mass.cumsum(dim=-1) - mass\ncount = (before < q).sum(dim=-1, keepdim=True)\n",
            True,
        ),
        (
            "if q:\n    before = mass.cumsum(dim=-1) - mass\n    n = (before < q).sum(dim=-1, keepdim=True)\n",
            True,
        ),
        # Another variable is subtracted: names do not stand for one another.
        (
            "before = mass.cumsum(dim=-1) - rest\ncount = (before < q).sum(dim=-1, keepdim=True)\n",
            False,
        ),
        # Other methods, another number.
        (
            "before = mass.cumprod(dim=-1) - mass\ncount = (before < q).sum(dim=0, keepdim=True)\n",
            False,
        ),
        # Too short to be more than an accident, and a check of arguments.
        ("before = mass.cumsum(dim=-1) - mass\n", False),
        (
            "if not 0 < q <= 1:\n    raise ValueError(q)\nif not 0 < r <= 1:\n    raise ValueError(r)\n",
            False,
        ),
        (
            "before = mass.cumsum(dim=-1) - mass\ncount = (before < q).sum(dim=-1, keepdim=True\n",
            False,
        ),
    ],
)
def test_a_good_part_of_an_answer_with_other_names_is_a_leak(
    paper: Callable[..., Paper], other: str, found: bool
) -> None:
    """A sibling of the function that is asked for, two lines of which are its own but for the names."""
    text = "def f(mass, q):\n" + "".join(f"    {line}\n" for line in other.splitlines())
    told = [one for one in messages(paper(NUCLEUS, other=text)) if "with other names" in one]
    assert bool(told) == found
    if found:
        assert told[0].endswith(
            "of what the agent sees, with other names; write one of the two differently"
        )
        assert "src/other.py, line" in told[0]


def test_a_region_of_one_line_must_be_the_only_such_line(paper: Callable[..., Paper]) -> None:
    found = paper(ONE_LINE + "\ndef g(x):\n    return x*2 # same\n")
    (message,) = messages(found)
    assert message.endswith("stands also in src/small.py, line 6 of what the agent sees")


def test_an_inner_region_may_not_be_readable_in_its_outer_one(paper: Callable[..., Paper]) -> None:
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
    outer, inner = paper(source).challenges
    assert leaks(outer) == ()
    assert [problem.line for problem in leaks(inner)] == [3]


def test_a_region_that_is_too_long_is_named(paper: Callable[..., Paper]) -> None:
    source = '# <paper2code name="long">\n' + "".join(f"x{n} = {n}\n" for n in range(61))
    (message,) = messages(paper(source + '# </paper2code name="long">\n'))
    assert message.startswith("src/small.py:1: small/long has 61 lines of code; at most 60")


def test_regions_in_a_file_that_is_not_listed_are_no_challenges_and_said_to_be_none(
    paper: Callable[..., Paper],
) -> None:
    other = ONE_LINE.replace("x * 2", "x * 3").replace("double", "treble")
    (message,) = messages(paper(TWO_LINES, other="\n" + other))
    assert message == (
        "src/other.py:3: has 1 region that nobody is asked for: add src/other.py to annotated in paper.yaml"
    )
    (message,) = messages(paper(TWO_LINES, other=other.rpartition("    #")[0]))
    assert message.startswith('src/other.py:2: the region "treble" is never closed')


def test_reasons_name_mutants_by_hash_or_by_description(paper: Callable[..., Paper]) -> None:
    first, second = mutants("    return x * 2\n")[:2]
    survivors = (
        f"- {{challenge: small/double, hash: {first.hash}, reason: it is the same}}\n"
        f"- challenge: small/double\n  description: '{second.description}'\n  reason: so is this\n"
    )
    assert messages(paper(ONE_LINE, survivors=survivors)) == []


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
    paper: Callable[..., Paper], entry: str, message: str
) -> None:
    (found,) = messages(paper(ONE_LINE, survivors=f"- {entry}\n"))
    assert found.startswith(f"tests/survivors.yaml:{message}")


def test_a_paper_that_does_not_load_is_one_problem() -> None:
    error = PaperError("is empty", path="a/paper.yaml", line=3)
    assert str(Problem.of(error)) == "a/paper.yaml:3: is empty"
