"""The published table, with runs of one's own in it: which rows compare, what ranks them, and what nobody knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rcb_env.cli.main import rcb
from rcb_env.errors import UsageError
from rcb_env.report import public_results
from rcb_env.report.contamination import contrast, latest, month_of, safe_papers
from rcb_env.report.model_facts import facts_of
from rcb_env.report.ranks import Rank, ranks
from rcb_env.report.scoring import Planned
from rcb_env.runs.store import RunStore
from tests.made_runs import finish, plan_of

ROWS = {row.challenge: row for row in public_results.outcomes()["O3_HIGH"]}


def make(
    folder: Path,
    states: Mapping[str, str],
    *,
    planned: Mapping[str, int] | None = None,
    model: Mapping[str, Any] | str = "home-made",
) -> Path:
    """A run over public challenges that ended in these states."""
    lines = planned or {name: ROWS[name].lines for name in states}
    record = {
        "config": {"agent": "single-shot", "model": model},
        "plan": plan_of(lines),
    }
    with RunStore.create(folder, record) as store:
        for name, status in states.items():
            finish(store, name, status)
    return folder


def board(*words: str | Path) -> Result:
    done = CliRunner().invoke(rcb, ["leaderboard", *map(str, words)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def rows_of(*words: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in board(*words, "--json").stdout.splitlines()]


def test_without_a_run_it_is_the_published_table() -> None:
    rows = rows_of()
    assert len(rows) == 32
    first = rows[0]
    assert first["model"] == "GEMINI_2_5_PRO_PREVIEW_05_06"
    assert first["scaled_pass_rate"] == pytest.approx(37.336093857832985, abs=1e-9)
    assert first["pass_rate"] == pytest.approx(64.15094339622641, abs=1e-9)
    assert first["scaled_pass_rate_interval"][0] < 37.3 < first["scaled_pass_rate_interval"][1]
    assert (first["rank"], first["knowledge_cutoff"]) == (1, "2025-01")
    assert (first["input_usd_per_mtok"], first["output_usd_per_mtok"]) == (1.25, 10)
    assert [row["scaled_pass_rate"] for row in rows] == sorted(
        (row["scaled_pass_rate"] for row in rows), reverse=True
    )
    assert all(row["rank_interval"][0] <= row["rank"] <= row["rank_interval"][1] for row in rows)
    assert rows_of("--by", "plain")[2]["model"] == "GEMINI_2_5_PRO_PREVIEW_03_25"
    assert rows_of() == rows  # the draws are the same ones
    shown = board().stdout
    assert "212 challenges of 20 papers, 1,449 lines" in shown
    assert "1.25/10" in shown


def test_each_model_has_the_rates_of_its_own_safe_papers_and_every_form_says_so(
    tmp_path: Path,
) -> None:
    unseen = {row["model"]: row["unseen"] for row in rows_of()}
    best = unseen["GEMINI_2_5_PRO_PREVIEW_05_06"]
    assert (best["safe_challenges"], best["safe_lines"]) == (143, 1054)
    scaled = best["scaled_pass_rate"]
    assert scaled["safe"] - scaled["all"] == pytest.approx(scaled["difference"])
    assert scaled["interval"][0] < scaled["difference"] < scaled["interval"][1]
    assert best["scaled_pass_rate_over_others"]["interval"] is not None
    told = board("--contamination", "--models", "O3_HIGH,GEMINI_2_5_PRO_PREVIEW_05_06").stdout
    assert "13 (143, 1,054)" in told
    assert "2024-11-13" in told  # the first commit of min-p
    board("--html", tmp_path / "board.html")
    page = (tmp_path / "board.html").read_text()
    for words in ("First commits against knowledge cutoffs", "11 models", "13 (143, 1,054)"):
        assert words in page
    assert board("--markdown").stdout.count("| GPT\\_4O\\_MINI |") == 1


def test_a_run_stands_among_the_models_on_the_challenges_it_planned(tmp_path: Path) -> None:
    """It solves what is published as solved by o3, and one more, of three papers."""
    states = {
        name: row.status for name, row in ROWS.items() if row.paper in ("DyT", "hyla", "minp")
    }
    failed = next(name for name, status in states.items() if status == "failed")
    folder = make(tmp_path / "mine", states | {failed: "passed"})
    rows = {row["model"]: row for row in rows_of(folder)}
    assert len(rows) == 33
    mine, theirs = rows["mine"], rows["O3_HIGH"]
    assert mine["challenges"] == theirs["challenges"] == len(states) == 19
    assert mine["pass_rate"] - theirs["pass_rate"] == pytest.approx(100 / 19)
    assert mine["rank"] < theirs["rank"]
    assert (mine["source"], theirs["source"]) == (str(folder), "published")
    told = board(folder).stdout
    assert "over the 19 challenges that all rows have planned, of 212" in told
    assert mine["knowledge_cutoff"] is None
    assert mine["input_usd_per_mtok"] is None
    assert {row["model"] for row in rows_of(folder, "--models", "O3_HIGH,GPT_4O_MINI")} == {
        "mine",
        "O3_HIGH",
        "GPT_4O_MINI",
    }
    assert rows_of(folder, "--papers", "DyT")[0]["challenges"] == 9


def test_what_a_run_has_not_finished_is_told_and_bounds_its_rate(tmp_path: Path) -> None:
    lines = {name: row.lines for name, row in ROWS.items() if row.paper in ("DyT", "hyla")}
    done = dict.fromkeys(list(lines)[:3], "passed")
    folder = make(tmp_path / "half", done, planned=lines)
    mine = next(row for row in rows_of(folder) if row["model"] == "half")
    assert mine["pass_rate_bounds"] == [pytest.approx(25), pytest.approx(100)]
    assert mine["coverage"] == pytest.approx(25)
    assert "half: 9 episodes without a verdict count as not passed" in board(folder).stdout


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        ({"DyT/of-the-bundled-paper": 4}, "is no challenge of researchcodebench, so this run does"),
        ({"hyla/attention": 77}, ""),
    ],
)
def test_a_run_of_other_challenges_or_other_code_is_refused(
    tmp_path: Path, planned: dict[str, int], words: str
) -> None:
    if not words:
        name = next(name for name in ROWS if name.startswith("hyla/"))
        planned, words = {name: 77}, "it was graded on other code"
    folder = make(tmp_path / "run", {}, planned=planned)
    with pytest.raises(UsageError, match=words):
        board(folder)


def test_the_safe_table_has_the_papers_after_the_latest_cutoff_of_its_rows(tmp_path: Path) -> None:
    assert rows_of("--safe")[0]["challenges"] == 143
    assert rows_of("--safe", "--models", "GPT_4O_MINI")[0]["challenges"] == 212
    states = {name: row.status for name, row in ROWS.items()}
    folder = make(tmp_path / "mine", states)
    told = board(folder, "--safe").stdout
    assert "nobody knows the knowledge cutoff of mine" in told
    said = rows_of(folder, "--safe", "--cutoff", "mine=2025-04")
    assert said[0]["challenges"] == 26  # of the three papers whose code came after 1 April 2025
    assert next(row for row in said if row["model"] == "mine")["knowledge_cutoff"] == "2025-04"
    for wrong in ("mine", "mine=soon", "other=2025-01"):
        with pytest.raises(UsageError):
            board(folder, "--cutoff", wrong)
    with pytest.raises(UsageError, match="no challenge is left"):
        board(folder, "--safe", "--cutoff", "mine=2026-01")


def test_what_is_known_of_a_model_comes_from_the_run_then_from_the_tables(tmp_path: Path) -> None:
    known = facts_of({"model": {"name": "openai/gpt-4o-mini"}})
    assert (known.input_usd_per_mtok, known.knowledge_cutoff) == (0.15, "2023-10")
    priced = facts_of({"model": {"name": "gpt-4o-mini", "input_usd_per_mtok": 0.0}})
    assert (priced.input_usd_per_mtok, priced.output_usd_per_mtok) == (0.0, 0.6)
    assert facts_of({"model": "O3_HIGH"}).knowledge_cutoff == "2023-10"
    nothing = facts_of({"model": {"name": "nobody/knows", "models_file": str(tmp_path / "gone")}})
    assert (nothing.input_usd_per_mtok, nothing.knowledge_cutoff) == (None, None)
    assert facts_of({"agent": "reference"}) == nothing


def _rows(paper: str, *passed: int, lines: int = 1) -> list[Planned]:
    return [
        Planned(f"{paper}/{n}", paper, lines, 0, "passed" if one else "failed")
        for n, one in enumerate(passed)
    ]


def test_ranks_are_certain_only_where_every_paper_says_the_same() -> None:
    best = [*_rows("A", 1, 1), *_rows("B", 1, 1), *_rows("C", 1, 1)]
    worst = [*_rows("A", 0, 0), *_rows("B", 0, 0), *_rows("C", 0, 1)]
    middle = [*_rows("A", 1, 0), *_rows("B", 0, 0), *_rows("C", 0, 1)]
    found = ranks({"worst": worst, "best": best, "middle": middle, "twin": middle})
    assert found["best"] == Rank(1, 1, 1)
    assert found["middle"] == found["twin"]
    assert found["middle"] == Rank(2, 2, 2)
    assert (found["worst"].place, found["worst"].low, found["worst"].high) == (4, 2, 4)
    alone = ranks({"one": _rows("A", 1, 0), "other": _rows("A", 1, 1)})
    assert alone["one"] == Rank(2, None, None)
    with pytest.raises(ValueError, match="same challenges"):
        ranks({"one": _rows("A", 1), "other": _rows("B", 1)})


def test_lines_of_code_weigh_in_one_ranking_and_not_in_the_other() -> None:
    small = [*_rows("A", 1, lines=1), *_rows("B", 0, lines=9)]
    big = [*_rows("A", 0, lines=1), *_rows("B", 1, lines=9)]
    assert ranks({"small": small, "big": big}, by="scaled")["big"].place == 1
    assert ranks({"small": small, "big": big}, by="plain")["small"].place == 1


def test_a_contrast_is_of_all_papers_and_some_of_them_with_an_interval() -> None:
    values = {"A/0": 1.0, "A/1": 0.0, "B/0": 0.0, "B/1": 0.0, "C/0": 1.0, "C/1": 1.0, "D/0": 1.0}
    papers = {name: name[0] for name in values}
    found = contrast(values, papers, dict.fromkeys(values, 1.0), ("C", "A"))
    assert found.every == pytest.approx(100 * 4 / 7)
    assert found.some == pytest.approx(75)
    assert found.difference == pytest.approx(75 - 100 * 4 / 7)
    assert found.interval is not None
    assert found.interval.low < 75 - 100 * 4 / 7 < found.interval.high
    for some in ((), ("A",), ("A", "B", "C", "D")):
        assert contrast(values, papers, dict.fromkeys(values, 1.0), some).interval is None
    assert contrast(values, papers, dict.fromkeys(values, 1.0), ()).some is None


def test_a_cutoff_is_a_month_and_a_paper_of_that_month_is_safe_after_its_first_day() -> None:
    assert [month_of(text) for text in (None, "", "soon", "2024-13", "20241")] == [None] * 5
    first = month_of("2024-11-17")
    assert first == month_of("2024-11") == latest(["2024-11-17", None, "2024-7"])
    assert first is not None
    days = {"that day": first, "later": first.replace(day=2), "unknown": None}
    assert safe_papers(days, first) == ("later",)
    assert safe_papers(days, None) == ()
