"""What the cases of a challenge are worth: the rule alone, and the answers that know nothing."""

from __future__ import annotations

import ast
import itertools
from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rcb_env.dataset.loading import load_dataset
from rcb_env.env.rewards import outcome, reward_spec
from rcb_env.errors import UsageError
from rcb_env.grading.nulls import is_python, null_answers
from rcb_env.grading.verdict import CaseResult, Outcome, Status, Verdict
from rcb_env.grading.worth import Outline, Worth, faults_by_case, free_cases

NAMES = ("one", "two", "three", "four")


def verdict(*passed: bool, status: Status = "failed") -> Verdict:
    """Of two seeds a case."""
    keys = itertools.product(NAMES, range(2))
    results = [
        CaseResult(name, seed, "passed" if fine else "failed")
        for (name, seed), fine in zip(keys, passed, strict=True)
    ]
    return Verdict(status, cases=tuple(results))


RESULTS = st.lists(st.booleans(), min_size=8, max_size=8)
WORTHS = st.builds(
    Worth,
    st.sets(st.sampled_from(NAMES)).map(tuple),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 50)),
)


@given(RESULTS, RESULTS, WORTHS, st.booleans())
def test_who_fails_more_never_earns_more(
    one: list[bool], two: list[bool], worth: Worth, weighted: bool
) -> None:
    assume(not all(one))  # then it did not fail for its cases
    both = [a and b for a, b in zip(one, two, strict=True)]
    less, more = (
        worth.share(Outline.of(verdict(*results)), weighted=weighted) for results in (both, one)
    )
    assert 0 <= less <= more
    assert more < 1
    passed = Outline.of(verdict(*one, status="passed"))
    assert worth.share(passed, weighted=weighted) == 1


@given(st.lists(RESULTS, min_size=1, max_size=5), st.booleans())
def test_answers_that_make_cases_free_earn_nothing(nulls: list[list[bool]], weighted: bool) -> None:
    outlines = [Outline.of(verdict(*results)) for results in nulls]
    worth = Worth(free_cases(outlines), faults_by_case(outlines))
    assert [worth.share(one, weighted=weighted) for one in outlines] == [0.0] * len(nulls)


def test_free_cases_pay_nothing_and_cost_when_they_fail() -> None:
    worth = Worth(free=("one",))
    earned = worth.share(Outline.of(verdict(*[True] * 7, False)))
    assert earned == 5 / 6
    assert worth.share(Outline.of(verdict(False, *[True] * 7))) == 6 / 7
    assert worth.share(Outline.of(verdict(False, False, *[True] * 6))) == 6 / 8


def test_who_failed_with_every_case_passed_earns_nothing() -> None:
    assert Worth().share(Outline.of(verdict(*[True] * 8))) == 0.0


def test_a_case_that_every_fault_passes_pays_little() -> None:
    worth = Worth(faults={"one": 0, "two": 9, "three": 9, "four": 9})
    only = {name: [here == name for here in NAMES for _ in range(2)] for name in ("one", "two")}
    easy, hard = (worth.share(Outline.of(verdict(*only[n])), weighted=True) for n in only)
    assert (easy, hard) == (1 / 31, 10 / 31)


@pytest.mark.parametrize("status", [one for one in get_args(Status) if one != "passed"])
@pytest.mark.parametrize("last", get_args(Outcome))
def test_who_does_not_let_every_case_run_earns_nothing(status: Status, last: Outcome) -> None:
    cases = (CaseResult("one", 0, "passed"), CaseResult("two", 0, last))
    spec = reward_spec("cases")
    stopped = Verdict(status, cases=cases)
    whole = status == "failed" and last != "not_run"
    assert spec.needs_worth(stopped) is whole
    if not whole:
        assert outcome(spec, stopped) == 0.0
    else:
        assert outcome(spec, stopped, Worth()) == (0.5 if last != "passed" else 0.0)
        with pytest.raises(UsageError, match="which cases are free"):
            outcome(spec, stopped)


def test_outlines_are_read_back_equal() -> None:
    outline = Outline.of(verdict(*[True, False] * 4))
    assert Outline.of_text(outline.to_text()) == outline


@pytest.mark.parametrize("scope", ["region", "file", "paper", "library"])
def test_answers_that_know_nothing_are_python_and_tell_no_answer(scope: str) -> None:
    name = "bundled" if scope == "region" else f"bundled@{scope}"
    for challenge in load_dataset(name).challenges[:: 40 if scope == "region" else 9]:
        answers = null_answers(challenge)
        assert next(iter(answers)) == "pass"
        assert len(set(answers.values())) == len(answers) > 3
        for code in answers.values():
            tree = challenge.tree(code)
            assert tree != challenge.tree()
            assert all(is_python(tree[file].decode()) for file in challenge.files)
    assert null_answers(load_dataset("bundled@open").challenges[0]) == {}


def test_arguments_are_those_of_the_innermost_function() -> None:
    challenge = load_dataset("bundled").challenge("DyT/forward")
    answers = null_answers(challenge)
    returned = ast.parse(answers["return argument 1"].strip()).body[0]
    assert isinstance(returned, ast.Return)
    assert isinstance(returned.value, ast.Name)
    assert returned.value.id != "self"
