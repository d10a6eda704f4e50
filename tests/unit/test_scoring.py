"""Scores: pass@k, headline rates over everything planned, bounds, intervals, paired comparison.

Cases C069 and C071 of the scoring kind, and properties that hold for every run.
"""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcb_env.report.pairing import compare, holm, mcnemar_exact
from rcb_env.report.scoring import (
    OPEN_STATES,
    STATES,
    Planned,
    fill_missing,
    pass_at_k,
    score,
)


def run(
    *statuses: str, lines: tuple[int, ...] | None = None, papers: tuple[str, ...] | None = None
) -> list[Planned]:
    """One outcome per status, each its own challenge of paper "p" unless said otherwise."""
    return [
        Planned(
            challenge=f"c{i}",
            paper=papers[i] if papers else "p",
            lines=lines[i] if lines else 1,
            sample=0,
            status=status,
        )
        for i, status in enumerate(statuses)
    ]


outcome_lists = st.lists(
    st.tuples(
        st.sampled_from("ABC"),
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(1, 40),
        st.sampled_from(STATES),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[:3],
).map(
    lambda rows: [
        # Lines belong to the challenge, so they are a function of its name.
        Planned(f"{paper}/{number}", paper, 1 + 7 * number, sample, status)
        for paper, number, sample, _, status in rows
    ]
)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (2, 0, 5, None),
        (2, 1, 5, None),
        (1, 1, 1, 1.0),
        (10, 3, 1, 0.3),
        (10, 3, 10, 1.0),
        (0, 0, 1, None),
    ],
)
def test_pass_at_k_is_not_available_with_fewer_than_k_samples(
    n: int, c: int, k: int, expected: float | None
) -> None:
    """Case C069: a short-cut for n - c < k said 1.0 for two failed samples at k = 5."""
    got = pass_at_k(n, c, k)
    assert got is None if expected is None else got == pytest.approx(expected, abs=1e-12)


def test_a_greedy_run_of_many_problems_reports_pass_at_1_only() -> None:
    """Case C069: problem counts taken for sample counts gave a greedy run a pass@10 of 97 %."""
    greedy = run(*["passed"] * 50, *["failed"] * 114)
    assert [entry.k for entry in score(greedy).pass_at] == [1]
    at_1, at_10 = score(greedy, ks=[1, 10]).pass_at
    assert at_1.rate == pytest.approx(100 * 50 / 164)
    assert at_10.rate is None
    assert at_10.scaled is None
    assert len(at_10.short) == 164


def test_unequal_sample_counts_are_shown_and_not_averaged_away() -> None:
    """Case C069: a challenge with fewer samples than its neighbours must not drop out at k = 3."""
    outcomes = [Planned("a", "p", 1, i, "passed") for i in range(2)]
    outcomes += [Planned("b", "p", 1, i, "failed") for i in range(3)]
    result = score(outcomes, ks=[2, 3])
    assert result.samples == {2: 1, 3: 1}
    assert [entry.rate for entry in result.pass_at] == [50.0, None]
    assert result.pass_at[1].short == ("a",)
    assert result.pass_rate_spread is None


@given(
    st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    subsets = list(itertools.combinations(range(n), k))
    expected = sum(any(i < c for i in subset) for subset in subsets) / len(subsets)
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_weighs_challenges_by_their_lines_when_scaled() -> None:
    outcomes = [Planned("a", "p", 9, i, "passed" if i == 0 else "failed") for i in range(4)]
    outcomes += [Planned("b", "p", 1, i, "failed") for i in range(4)]
    at_2 = score(outcomes, ks=[2]).pass_at[0]
    assert at_2.rate == pytest.approx(25.0)
    assert at_2.scaled == pytest.approx(45.0)


@pytest.mark.parametrize(("n", "c", "k"), [(2, 3, 1), (2, -1, 1), (2, 1, 0)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="0 <= c <= n"):
        pass_at_k(n, c, k)


def test_an_infrastructure_failure_is_not_a_model_failure() -> None:
    """Case C071: a full disk for 3 of 8 challenges was written as three zeros: a worse model.

    The states say what happened, the coverage what is missing, and the bounds what it can change.
    """
    result = score(run("passed", "passed", "failed", "timeout", "passed", *["infra_error"] * 3))
    assert result.states["infra_error"] == 3
    assert result.states["failed"] == 1
    assert result.states["timeout"] == 1
    assert result.coverage == pytest.approx(62.5)
    assert result.pass_rate.value == pytest.approx(37.5)
    assert result.pass_rate.low == pytest.approx(37.5)
    assert result.pass_rate.high == pytest.approx(75.0)
    assert not result.pass_rate.exact


def test_comparing_runs_warns_when_either_has_open_episodes() -> None:
    """Case C071: a difference that may be made of infrastructure failures must say so."""
    good, broken = run("passed", "passed", "failed"), run("passed", "infra_error", "missing")
    for a, b, name in ((good, broken, "run B"), (broken, good, "run A")):
        (warning,) = compare(a, b).warnings
        assert warning.startswith(f"{name} has 1 infra_error and 1 missing")
    assert compare(good, good).warnings == ()
    difference = compare(good, broken).difference
    assert difference.value == pytest.approx(-100 / 3)
    assert (difference.low, difference.high) == pytest.approx((-100 / 3, 100 / 3))


def test_missing_episodes_of_the_plan_stay_in_the_denominator() -> None:
    plan = [Planned(f"c{i}", "p", 10 * (i + 1), 0) for i in range(4)]
    result = score(fill_missing(plan, {("c3", 0): "passed", ("c0", 0): "failed"}))
    assert result.planned == 4
    assert result.states["missing"] == 2
    assert result.pass_rate.value == pytest.approx(25.0)
    assert result.scaled_pass_rate is not None
    assert result.scaled_pass_rate.value == pytest.approx(40.0)
    assert result.scaled_pass_rate.high == pytest.approx(90.0)


def test_an_episode_outside_the_plan_is_refused() -> None:
    with pytest.raises(ValueError, match="c9 sample 0"):
        fill_missing(run("missing"), {("c9", 0): "passed"})


def test_a_pair_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="c0 sample 0 is there 2 times"):
        score([*run("passed"), *run("failed")])


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="'ok' is not a state"):
        Planned("c", "p", 1, 0, "ok")


def test_an_empty_plan_has_no_score() -> None:
    with pytest.raises(ValueError, match="nothing is planned"):
        score([])


def test_each_source_line_counts_once_in_the_nested_corrected_rate() -> None:
    outer = Planned("outer", "p", 10, 0, "failed", own_lines=4)
    inner = Planned("inner", "p", 6, 0, "passed", own_lines=6)
    result = score([outer, inner])
    assert result.scaled_pass_rate is not None
    assert result.scaled_pass_rate.value == pytest.approx(37.5)
    assert result.nested_corrected is not None
    assert result.nested_corrected.value == pytest.approx(60.0)
    assert score(run("passed")).nested_corrected is None


def test_spread_is_the_population_standard_deviation_over_completions() -> None:
    outcomes = [
        Planned(f"c{c}", "p", 1 + 2 * c, sample, "passed" if passed else "failed")
        for c, row in enumerate([(1, 0), (1, 1)])
        for sample, passed in enumerate(row)
    ]
    result = score(outcomes)
    assert result.pass_rate_spread is not None
    assert result.pass_rate_spread.rates == pytest.approx((100.0, 50.0))
    assert result.pass_rate_spread.std == pytest.approx(25.0)
    assert result.scaled_spread is not None
    assert result.scaled_spread.mean == pytest.approx(87.5)


def test_one_paper_has_no_clustered_interval() -> None:
    assert score(run("passed", "failed")).pass_rate.interval is None


def test_the_interval_treats_the_challenges_of_a_paper_as_one_draw() -> None:
    """One paper all right, one all wrong: nothing is known of a third, however long they are."""
    outcomes = run(*["passed"] * 50, *["failed"] * 50, papers=("A",) * 50 + ("B",) * 50)
    interval = score(outcomes).pass_rate.interval
    assert interval is not None
    assert interval.low < 1
    assert interval.high > 99


def test_the_clustered_interval_agrees_with_the_normal_approximation_for_many_papers() -> None:
    """200 papers of two equal challenges: the error is that of 200 draws, not of 400."""
    papers = tuple(f"p{i // 2}" for i in range(400))
    outcomes = run(*(["passed"] * 200 + ["failed"] * 200), papers=papers)
    interval = score(outcomes).pass_rate.interval
    assert interval is not None
    half_width = 100 * 1.96 * math.sqrt(0.25 / 200)
    assert interval.high - 50 == pytest.approx(half_width, rel=0.1)
    assert 50 - interval.low == pytest.approx(half_width, rel=0.1)


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [(0, 0, 1.0), (5, 0, 0.0625), (3, 3, 1.0), (1, 8, 0.0390625), (10, 2, 0.03857421875)],
)
def test_mcnemar_exact_is_the_two_sided_binomial_tail(b: int, c: int, p: float) -> None:
    assert mcnemar_exact(b, c) == pytest.approx(p, abs=1e-12)
    assert mcnemar_exact(c, b) == pytest.approx(p, abs=1e-12)


def test_holms_correction_is_the_one_of_other_programs() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.4, 0.9]) == pytest.approx((0.8, 0.9))
    assert holm([0.02]) == (0.02,)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_correction_keeps_the_order_and_rejects_no_less_than_bonferroni(
    values: list[float],
) -> None:
    found = holm(values)
    for p, corrected in zip(values, found, strict=True):
        assert p <= corrected <= min(1.0, len(values) * p) + 1e-12
    ordered = [corrected for _, corrected in sorted(zip(values, found, strict=True))]
    assert ordered == sorted(ordered)


def test_mcnemar_exact_survives_large_counts() -> None:
    assert 0 <= mcnemar_exact(40_000, 30_000) < 1e-200
    assert mcnemar_exact(40_000, 40_001) == pytest.approx(1.0, abs=1e-2)


def test_comparison_names_the_discordant_challenges() -> None:
    papers = ("A", "A", "B", "B")
    a = run("passed", "failed", "failed", "failed", papers=papers, lines=(10, 1, 1, 1))
    b = run("failed", "passed", "passed", "failed", papers=papers, lines=(10, 1, 1, 1))
    result = compare(a, b)
    assert result.only_a_better == ("c0",)
    assert result.only_b_better == ("c1", "c2")
    assert result.difference.value == pytest.approx(25.0)
    assert result.scaled_difference is not None
    assert result.scaled_difference.value == pytest.approx(100 * (2 - 10) / 13)
    assert result.p_value == 1.0
    assert result.difference.interval is not None
    assert (result.difference.interval.low, result.difference.interval.high) == (-100.0, 100.0)


def test_pairing_removes_what_two_runs_share() -> None:
    """Papers differ much, and run B is better by about one challenge in each."""
    papers = tuple(f"p{i // 4}" for i in range(40))
    a = run(*["passed" if i % 4 < (i // 4) % 3 else "failed" for i in range(40)], papers=papers)
    more = [2 if paper == 3 else 1 for paper in range(10)]
    b = run(
        *["passed" if i % 4 < (i // 4) % 3 + more[i // 4] else "failed" for i in range(40)],
        papers=papers,
    )
    interval = compare(a, b).difference.interval
    alone = score(a).pass_rate.interval
    assert interval is not None
    assert alone is not None
    # 11 of 40, with one paper of 0.5 among nine of 0.25: the standard error is 2.5, t(9) is 2.262.
    assert interval.low == pytest.approx(27.5 - 2.262 * 2.5, abs=0.01)
    assert interval.high == pytest.approx(27.5 + 2.262 * 2.5, abs=0.01)
    assert interval.high - interval.low < (alone.high - alone.low) / 2


def test_comparison_says_which_challenges_only_one_run_planned() -> None:
    result = compare(run("passed"), run("passed", "failed"))
    assert result.challenges == 1
    assert "only in run B" in result.warnings[0]


def test_runs_over_different_code_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different code"):
        compare(run("passed", lines=(3,)), run("passed", lines=(4,)))
    with pytest.raises(ValueError, match="no challenge in common"):
        compare(run("passed"), [Planned("other", "p", 1, 0, "passed")])


@pytest.mark.parametrize("status", ["failed", "passed"])
def test_all_alike_still_has_an_interval_that_says_something(status: str) -> None:
    """An interval of "0.0 to 0.0" said that no model could ever pass, after twenty papers."""
    papers = tuple(f"p{i // 3}" for i in range(60))
    rate = score(run(*[status] * 60, papers=papers)).pass_rate
    exact = 100 * (1 - 0.025 ** (1 / 20))  # Clopper and Pearson, for 20 of 20 papers
    expected = (0.0, exact) if status == "failed" else (100 - exact, 100.0)
    assert rate.interval is not None
    assert (rate.interval.low, rate.interval.high) == pytest.approx(expected)


def test_two_runs_without_a_difference_still_have_an_interval_of_it() -> None:
    papers = tuple(f"p{i // 3}" for i in range(60))
    failed, passed = (run(*[status] * 60, papers=papers) for status in ("failed", "passed"))
    exact = 100 * (1 - 0.025 ** (1 / 20))
    for b, value, low, high in (
        (failed, 0.0, -exact, exact),
        (passed, 100.0, 100 - math.hypot(exact, exact), 100.0),
    ):
        difference = compare(failed, b).difference
        assert difference.value == value
        assert difference.interval is not None
        assert (difference.interval.low, difference.interval.high) == pytest.approx((low, high))


def test_a_rate_of_which_nothing_has_finished_is_not_zero() -> None:
    papers = ("A", "A", "B")
    nothing = run("missing", "infra_error", "missing", papers=papers)
    something = run("passed", "missing", "failed", papers=papers)
    result = score(nothing)
    for rate in (result.pass_rate, result.scaled_pass_rate, result.papers[0].pass_rate):
        assert rate is not None
        assert (rate.value, rate.interval, rate.low, rate.high) == (None, None, 0.0, 100.0)
    assert result.pass_rate_spread is None
    assert [at.rate for at in result.pass_at] == [None]
    for a, b in ((nothing, something), (something, nothing)):
        compared = compare(a, b)
        assert sorted([compared.a is None, compared.b is None]) == [False, True]
        assert compared.difference.value is None
        assert compared.difference.low < compared.difference.high
        assert compared.difference.interval is None


@settings(max_examples=60, deadline=None)
@given(outcome_lists)
def test_every_planned_pair_counts_once_and_only_once(outcomes: list[Planned]) -> None:
    result = score(outcomes)
    assert sum(result.states.values()) == result.planned == len(outcomes)
    passed = sum(o.status == "passed" for o in outcomes)
    still_open = sum(o.status in OPEN_STATES for o in outcomes)
    finished = still_open < len(outcomes)
    assert result.pass_rate.low == pytest.approx(100 * passed / len(outcomes))
    assert result.pass_rate.high == pytest.approx(100 * (passed + still_open) / len(outcomes))
    assert sum(paper.planned for paper in result.papers) == result.planned
    for rate in (result.pass_rate, result.scaled_pass_rate):
        assert rate is not None
        assert 0 <= rate.low <= rate.high <= 100
        assert rate.value == (rate.low if finished else None)
        if rate.interval is not None:
            assert rate.value is not None
            assert 0 <= rate.interval.low <= rate.value <= rate.interval.high <= 100
            assert rate.interval.low < rate.interval.high
    at_1 = result.pass_at[0]
    assert at_1.k == 1
    if len(result.samples) == 1 and finished:
        assert at_1.rate == pytest.approx(result.pass_rate.value)


@settings(max_examples=60, deadline=None)
@given(outcome_lists, st.randoms(use_true_random=False))
def test_the_order_of_outcomes_changes_no_rate(outcomes: list[Planned], random: object) -> None:
    shuffled = list(outcomes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = score(outcomes), score(shuffled)
    assert first.pass_rate.low == pytest.approx(second.pass_rate.low)
    assert first.scaled_pass_rate is not None
    assert second.scaled_pass_rate is not None
    assert first.scaled_pass_rate.low == pytest.approx(second.scaled_pass_rate.low)
    assert first.states == second.states


@settings(max_examples=60, deadline=None)
@given(outcome_lists, st.data())
def test_swapping_two_runs_turns_the_difference_round(
    outcomes: list[Planned], data: st.DataObject
) -> None:
    other = [
        Planned(o.challenge, o.paper, o.lines, o.sample, data.draw(st.sampled_from(STATES)))
        for o in outcomes
    ]
    there, back = compare(outcomes, other), compare(other, outcomes)
    if there.difference.value is not None:
        assert back.difference.value is not None
        assert there.difference.value == pytest.approx(-back.difference.value)
    assert there.difference.low == pytest.approx(-back.difference.high)
    assert there.p_value == back.p_value
    assert there.only_a_better == back.only_b_better
    assert compare(outcomes, outcomes).difference.value in (0, None)
