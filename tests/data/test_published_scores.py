"""The published scores of ResearchCodeBench come out of its published results, for all 32 models.

The outcomes are those that come with the package. Beside this file lie the published means of each paper and model. The rates
on papers that are safe from contamination are counted here from the rows of the table, in whole numbers.
"""

from __future__ import annotations

import csv
import datetime
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import resources
from pathlib import Path

import pytest

from rcb_env.report import public_results
from rcb_env.report.contamination import exposures, latest, safe_papers
from rcb_env.report.item_sources import of_published
from rcb_env.report.items import BELOW_ZERO, EVERYBODY, NEGATIVE, NOBODY, WEAKER_ONLY
from rcb_env.report.leaderboard import leaderboard, published
from rcb_env.report.scoring import Planned, score

OUTCOMES = public_results.outcomes()
DAYS = {name: paper.first_public_code for name, paper in public_results.papers().items()}


def _table(name: str) -> list[dict[str, str]]:
    text = (resources.files("rcb_env.report") / "data" / name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_all_published_rates_are_reproduced() -> None:
    assert len(OUTCOMES) == len(public_results.models()) == 32
    for name, model in public_results.models().items():
        result = score(OUTCOMES[name])
        assert result.planned == 212, name
        assert result.pass_rate.value == pytest.approx(model.pass_rate, abs=1e-9)
        assert result.scaled_pass_rate is not None
        assert result.scaled_pass_rate.value == pytest.approx(model.scaled_pass_rate, abs=1e-9)


def test_all_published_means_of_papers_are_reproduced() -> None:
    with Path(__file__).with_name("published_paper_scores.csv").open(newline="") as lines:
        means = {row.pop("paper"): row for row in csv.DictReader(lines)}
    compared = 0
    for model, rows in OUTCOMES.items():
        for paper in score(rows, ks=[]).papers:
            assert paper.scaled_pass_rate is not None
            assert paper.scaled_pass_rate.value == pytest.approx(
                float(means[paper.paper][model]), abs=1e-9
            )
            compared += 1
    assert compared == 640


def test_rates_on_safe_papers_are_those_of_the_rows_counted_one_by_one() -> None:
    last = latest(model.knowledge_cutoff for model in public_results.models().values())
    safe = safe_papers(DAYS, last)
    rows = [row for row in _table("public_results.csv") if row["paper"] in safe]
    lines = sum(int(row["lines"]) for row in rows)
    assert (last, len(safe), len(rows), lines) == (datetime.date(2025, 1, 1), 13, 143, 1054)
    board = leaderboard(published(), safe=True)
    assert (board.papers, board.challenges, board.lines) == (13, 143, 1054)
    for found in board.rows:
        passed = [int(row["lines"]) for row in rows if row[found.name] == "1"]
        assert found.score.pass_rate.value == pytest.approx(
            float(Fraction(100 * len(passed), 143)), abs=1e-9
        )
        assert found.score.scaled_pass_rate is not None
        assert found.score.scaled_pass_rate.value == pytest.approx(
            float(Fraction(100 * sum(passed), 1054)), abs=1e-9
        )


def test_each_model_has_safe_papers_of_its_own() -> None:
    cutoffs = {name: model.knowledge_cutoff for name, model in public_results.models().items()}
    found = {one.name: one for one in exposures(OUTCOMES, cutoffs, DAYS)}
    sizes = {
        name: (len(one.safe), one.challenges, one.lines)
        for name, one in found.items()
        if name in ("GEMINI_2_5_PRO_PREVIEW_05_06", "GPT_4O_MINI", "CLAUDE_3_5_SONNET_2024_10_22")
    }
    assert sizes == {
        "GEMINI_2_5_PRO_PREVIEW_05_06": (13, 143, 1054),
        "GPT_4O_MINI": (20, 212, 1449),
        "CLAUDE_3_5_SONNET_2024_10_22": (18, 189, 1316),
    }
    best = found["GEMINI_2_5_PRO_PREVIEW_05_06"]
    assert best.scaled.every == pytest.approx(37.336093857832985, abs=1e-9)
    assert best.scaled.interval is not None
    assert best.scaled_over_others is not None
    assert found["GPT_4O_MINI"].scaled.difference == pytest.approx(0)
    assert found["GPT_4O_MINI"].scaled.interval is None  # all its papers are safe


def test_papers_have_the_published_sizes() -> None:
    rows = next(iter(OUTCOMES.values()))
    assert sum(row.lines for row in rows) == 1449
    assert sum(row.own_lines or 0 for row in rows) == 822
    assert len({row.paper for row in rows}) == len(public_results.papers()) == 20


def test_the_clustered_interval_holds_the_rate_of_every_model() -> None:
    for rows in OUTCOMES.values():
        rate = score(rows).scaled_pass_rate
        assert rate is not None
        assert rate.interval is not None
        assert rate.value is not None
        assert rate.interval.low < rate.value < rate.interval.high


def test_items_of_the_published_results_divide_the_32_models() -> None:
    found = of_published()
    assert found.agents == pytest.approx(
        {name: model.pass_rate for name, model in public_results.models().items()}
    )
    assert found.common == len(found.items) == 212
    counts = Counter(item.finding for item in found.items)
    # Hard for all of them, and consistent: nothing that strong models fail more often for certain.
    assert (counts[NOBODY], counts[EVERYBODY], counts[NEGATIVE]) == (44, 0, 0)
    tags = {
        row["challenge"]: f"{row['paper']}/{row['file']}:{row['start_tag_line']}"
        for row in _table("public_results.csv")
    }
    assert {
        tags[item.challenge] for item in found.items if item.finding in (WEAKER_ONLY, BELOW_ZERO)
    } == {
        "SISS/losses.py:87",
        "Diff-Transformer/model.py:43",
        "llm-sci-use/src/MLE.py:175",
        "eomt/eomt.py:24",
    }
    assert found.reliability == pytest.approx(0.98, abs=0.005)


def test_what_comes_with_the_package_is_what_was_published() -> None:
    """The data set itself is no part of this repository: it is looked for beside it, or where RCB_SHARED_DATA says."""
    default = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("RCB_SHARED_DATA") or default)
    if not (folder / "official_results.csv").is_file():
        pytest.skip(f"no official_results.csv in {folder}: set RCB_SHARED_DATA to its folder")
    published: dict[str, dict[str, str]] = defaultdict(dict)
    for row in _read(folder / "official_results.csv"):
        place = f"{row['paper']}/{row['file']}:{row['start_tag_line']}={row['lines']}"
        published[place][row["model"]] = {"0": "1", "1": "0", "124": "t"}[row["exit_code"]]
    ours = {
        f"{row['paper']}/{row['file']}:{row['start_tag_line']}={row['lines']}": {
            model: row[model] for model in OUTCOMES
        }
        for row in _table("public_results.csv")
    }
    assert ours == published
    for row in _read(folder / "official_models.csv"):
        model = public_results.models()[row["model"]]
        assert (model.api_name, model.pass_rate) == (row["api_name"], float(row["pass_rate"]))
        assert model.input_usd_per_mtok == float(row["input_usd_per_mtok"])
    days = {row["id"]: row["first_commit_date"] for row in _read(folder / "official_papers.csv")}
    changed = {name: (day, str(DAYS[name])) for name, day in days.items() if day != str(DAYS[name])}
    # The data set corrected this one a day after the results were stored with the other.
    assert changed in ({}, {"minp": ("2025-03-15", "2024-11-13")})


def _read(path: Path) -> Sequence[Mapping[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_a_planned_challenge_has_a_state_of_ours() -> None:
    counts = Counter(row.status for rows in OUTCOMES.values() for row in rows)
    assert counts == {"passed": 2451, "failed": 4272, "timeout": 61}
    assert all(isinstance(row, Planned) for row in OUTCOMES["GPT_4O_MINI"])
