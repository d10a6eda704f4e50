"""The hierarchical estimate: against its closed form where there is one, and in reports and comparisons."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rcb_env.cli.main import rcb
from rcb_env.errors import UsageError
from rcb_env.report.hierarchical import Hierarchical, estimate
from rcb_env.report.intervals import Floats, student
from rcb_env.report.pairing import holm
from tests.unit.test_comparison import make


def fitted(rows: Floats, least: float) -> Hierarchical:
    return estimate({str(n): row for n, row in enumerate(rows)}, least=least)


@pytest.mark.parametrize("seed", range(12))
def test_with_papers_of_one_size_it_is_the_analysis_of_variance(seed: int) -> None:
    """The default optimisers stop short here where papers hardly differ, by up to a third of the interval."""
    rng = np.random.default_rng(seed)
    papers, size = int(rng.integers(4, 25)), int(rng.integers(3, 15))
    a, b = ((0.3, 0.7), (2.0, 3.0), (20.0, 40.0))[seed % 3]
    chances = rng.beta(a, b, size=papers)
    rows = (rng.random((papers, size)) < chances[:, None]).astype(float)
    inside = rows.var(axis=1, ddof=1).mean()
    outside = size * rows.mean(axis=1).var(ddof=1)
    # Papers cannot differ by less than nothing; if they seem to, all challenges are one sample.
    alike = outside <= inside
    error = math.sqrt((rows.var(ddof=1) if alike else outside) / rows.size)
    found = fitted(rows, least=-9.0)
    assert found.estimate == pytest.approx(100 * rows.mean())
    assert found.between == pytest.approx(
        0.0 if alike else 100 * math.sqrt((outside - inside) / size), abs=0.3
    )
    assert found.interval is not None
    low = 100 * (rows.mean() - student(0.95, papers - 1) * error)
    assert found.interval.low == pytest.approx(low, abs=0.1)


def test_small_papers_are_drawn_towards_the_mean_and_large_ones_hardly() -> None:
    papers = {f"half-{n}": np.array([1.0, 0.0] * 10) for n in range(4)}
    papers |= {"low": np.array([0.0] * 19 + [1.0]), "high": np.array([1.0] * 19 + [0.0])}
    found = estimate(papers | {"tiny": np.array([1.0])}, least=0.0)
    assert found.estimate is not None
    assert found.estimate == pytest.approx(50, abs=6)
    assert found.estimate < found.papers["tiny"] < 75
    assert found.papers["high"] == pytest.approx(95, abs=8)
    assert 0 < (found.alike or 0) < 1


def test_what_cannot_be_fitted_has_no_estimate() -> None:
    for papers in (
        {},
        {"A": np.array([1.0, 0.0])},
        {"A": np.ones(4), "B": np.ones(3)},
        {"A": np.ones(4), "B": np.zeros(3)},  # no spread within a paper
        {"A": np.ones(1), "B": np.zeros(1), "C": np.zeros(1)},
    ):
        found = estimate(papers, least=0.0)
        assert (found.estimate, found.interval, found.alike) == (None, None, None)


def test_an_interval_stays_within_what_a_rate_can_be() -> None:
    found = estimate({"A": np.array([1.0, 0, 0, 0]), "B": np.zeros(4), "C": np.zeros(5)}, least=0.0)
    assert found.interval is not None
    assert found.interval.low == 0.0


def test_it_holds_the_truth_about_as_often_as_it_says() -> None:
    from benchmarks.intervals import coverage_of_model

    held, _width = coverage_of_model(20, 0.5, 0.3, times=60, seed=1)
    assert held >= 0.87


def test_holms_correction_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(0)
    for _ in range(20):
        values = (rng.random(int(rng.integers(1, 9))) ** 3).tolist()
        assert holm(values) == pytest.approx(multipletests(values, method="holm")[1])


STATES = {
    f"{paper}/{n}": "passed" if n < solved else "failed"
    for paper, solved in (("A", 1), ("B", 3), ("C", 5), ("D", 2))
    for n in range(6)
}


def rcb_prints(*words: str) -> str:
    done = CliRunner().invoke(rcb, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_report_and_compare_show_it_where_asked(tmp_path: Path) -> None:
    plan = dict.fromkeys(STATES, 1)
    a = str(make(tmp_path / "a", STATES, plan=plan).folder)
    better = {**STATES, "A/5": "passed", "B/5": "passed", "C/0": "failed", "D/4": "passed"}
    b = str(make(tmp_path / "b", better, plan=plan).folder)
    one = json.loads(rcb_prints("report", a, "--hierarchical", "--json"))["hierarchical"]
    assert one["estimate"] == pytest.approx(100 * 11 / 24)
    assert set(one["papers"]) == set("ABCD")
    assert one["papers"]["C"] < 100 * 5 / 6  # drawn towards the mean
    text = rcb_prints("report", a, "--hierarchical", "--brief")
    assert "Hierarchical estimate" in text
    assert f"{one['interval']['low']:.1f} to {one['interval']['high']:.1f}" in text
    assert "Hierarchical estimate" in rcb_prints("report", a, b, "--hierarchical", "--markdown")
    assert "Hierarchical" not in rcb_prints("report", a)
    assert "hierarchical" not in json.loads(rcb_prints("report", a, "--json"))

    pair = json.loads(rcb_prints("compare", a, b, "--hierarchical", "--json"))["comparison"]
    assert pair["hierarchical"]["estimate"] == pytest.approx(100 * 2 / 24)
    assert "Hierarchical estimate" in rcb_prints("compare", a, b, "--hierarchical", "--brief")
    assert "Hierarchical estimate" in rcb_prints("compare", a, b, "--hierarchical", "--latex")
    assert json.loads(rcb_prints("compare", a, b, "--json"))["comparison"]["hierarchical"] is None


def test_without_statsmodels_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(make(tmp_path / "a", STATES, plan=dict.fromkeys(STATES, 1)).folder)
    monkeypatch.setitem(sys.modules, "statsmodels.regression.mixed_linear_model", None)
    with pytest.raises(UsageError, match=r"install rcb-env\[statistics\]"):
        rcb_prints("report", run, "--hierarchical")
    rcb_prints("report", run)
