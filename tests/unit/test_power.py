"""What gap two runs can show: against the formula by hand, and against simulated pairs of runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.cli.main import rcb
from rcb_env.report.power import GAPS, Power, of_pair
from tests.unit.test_comparison import make


def power_of(*papers: list[float], gaps: tuple[float, ...] = GAPS) -> Power:
    found = of_pair([np.array(paper) for paper in papers], gaps=gaps)
    assert found is not None
    return found


def test_the_smallest_gap_is_so_many_errors_as_students_t_asks_for() -> None:
    # Ten papers of four challenges that differ by 0.25, but one by 0.5: the error over papers is 2.5 points. What challenges
    # differ within papers makes it larger: 10 * 0.75 + 0.25 over 30 degrees of freedom and 40 challenges: 8.04 points.
    found = power_of(*[[1.0, 0.0, 0.0, 0.0]] * 9, [1.0, 1.0, 0.0, 0.0])
    error = 100 * math.sqrt((10 * 0.75 + 0.25) / 30 / 40)
    assert found.smallest_gap == pytest.approx((2.26216 + 0.88340) * error, rel=1e-4)
    assert found.least_gap == 0.0
    assert (found.papers, found.challenges) == (10, 40)


def test_what_papers_differ_in_cannot_be_made_smaller_by_more_challenges() -> None:
    found = power_of(*[[0.0] * 8] * 9, [1.0] * 8, gaps=(5.0, 60.0))
    # The error is 10 points; all of it between papers.
    assert found.least_gap == pytest.approx(found.smallest_gap)
    assert found.smallest_gap == pytest.approx((2.26216 + 0.88340) * 10, rel=1e-4)
    small, seen, large = found.needed
    assert (small.gap, small.in_these_papers) == (5.0, None)
    assert seen.found
    assert seen.gap == pytest.approx(10.0)
    assert (large.gap, large.in_these_papers) == (60.0, 80)
    # (1.96 + 0.84)² times the variance of one paper, 0.1, over 0.05²; a little more for Student's t.
    assert small.papers == pytest.approx(7.849 * 0.1 / 0.0025, abs=3)
    assert small.challenges == 8 * small.papers


def test_half_the_gap_takes_four_times_the_papers() -> None:
    found = power_of(*[[1.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, -1.0, 0.0]] * 12, gaps=(1.0, 2.0))
    assert found.needed[0].papers == pytest.approx(4 * found.needed[1].papers, rel=0.01)
    assert found.needed[0].in_these_papers == pytest.approx(
        4 * (found.needed[1].in_these_papers or 0), rel=0.01
    )


def test_where_nothing_differs_nothing_is_known() -> None:
    assert of_pair([np.zeros(5), np.zeros(3)]) is None
    assert of_pair([np.ones(5), np.ones(3)]) is None
    assert of_pair([np.array([1.0, 0.0])]) is None
    assert of_pair([]) is None


def test_papers_of_one_challenge_do_not_tell_the_parts_apart() -> None:
    found = power_of([1.0], [0.0], [0.0], [0.0])
    assert found.least_gap is None
    assert {one.in_these_papers for one in found.needed} == {None}


@given(
    st.lists(
        st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1.0]), min_size=1, max_size=6),
        min_size=2,
        max_size=8,
    )
)
def test_a_larger_gap_never_takes_more(papers: list[list[float]]) -> None:
    found = of_pair([np.array(paper) for paper in papers])
    if found is None:
        return
    assert found.smallest_gap > 0
    assert found.least_gap is None or 0 <= found.least_gap <= found.smallest_gap
    for smaller, larger in zip(found.needed, found.needed[1:], strict=False):
        assert smaller.gap <= larger.gap
        assert smaller.papers >= larger.papers >= 2
        if smaller.in_these_papers is not None:
            assert larger.in_these_papers is not None
            assert smaller.in_these_papers >= larger.in_these_papers >= len(papers)
    for one in found.needed:  # the papers at hand show what they are said to show
        if one.gap >= found.smallest_gap * (1 + 1e-9):
            assert one.papers <= len(papers)


@pytest.mark.parametrize("pair", [(0.15, 0.4, 0.2), (0.1, 0.2, 0.0)])
def test_a_gap_is_seen_about_as_often_as_was_said(pair: tuple[float, float, float]) -> None:
    """`benchmarks/power.py` measures more kinds of pairs."""
    from benchmarks.power import papers_asked_for, seen

    rng = np.random.default_rng(3)
    papers = papers_asked_for(rng, 2000, pair)
    assert 0.72 <= seen(rng, papers, pair, times=250) <= 0.92
    # As many as a third of them show it far less often.
    assert seen(rng, papers // 3, pair, times=250) < 0.6


def test_compare_says_what_gap_would_be_seen_and_what_it_would_take(tmp_path: Path) -> None:
    plan = {f"{paper}/{n}": 1 for paper in "ABCDEFGHIJKL" for n in range(5)}
    a = {name: "passed" if int(name[-1]) < 2 else "failed" for name in plan}
    b = {**a, **{f"{paper}/3": "passed" for paper in "ABCDEF"}, "G/0": "failed"}
    runs = [
        str(make(tmp_path / name, states, plan=plan).folder)
        for name, states in (("a", a), ("b", b))
    ]

    def rcb_compare(*words: str) -> str:
        done = CliRunner().invoke(rcb, ["compare", *runs, *words], standalone_mode=False)
        assert done.exception is None
        return done.stdout

    found = json.loads(rcb_compare("--json"))["comparison"]["power"]
    assert [one["gap"] for one in found["needed"]] == pytest.approx([2, 5, 100 / 12, 10, 20])
    brief = rcb_compare("--brief")
    told = f"these 12 papers show a true gap of {found['smallest_gap']:.1f} points in 8 of 10 cases"
    assert told in brief
    assert "papers like these" not in brief
    table = rcb_compare("--power", "--brief")
    assert "or challenges in these 12 papers" in table
    assert "8.3 (found)" in table
    asked = rcb_compare("--gap", "3", "--gap", "30", "--brief")
    assert "3.0" in asked
    assert "30.0" in asked
    assert "20.0" not in asked
    assert "What it takes to see a gap" in rcb_compare("--markdown", "--gap", "3")


def test_compare_says_when_nothing_can_be_said_of_gaps(tmp_path: Path) -> None:
    states = {"A/one": "passed", "A/two": "failed", "B/three": "passed", "B/four": "passed"}
    runs = [str(make(tmp_path / name, states).folder) for name in "ab"]
    done = CliRunner().invoke(rcb, ["compare", *runs, "--power"], standalone_mode=False)
    assert "what gap would be seen cannot be said" in done.stdout
