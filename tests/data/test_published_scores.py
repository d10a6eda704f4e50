"""The published scores of ResearchCodeBench come out of its published results, for all 32 models.

The data set (results per challenge and model, and the published rates) is not part of this
repository: it is looked for in ``../shared/data`` beside the repository, or where the environment
variable RCB_SHARED_DATA says.
"""

from __future__ import annotations

import csv
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from rcb_env.report.item_sources import of_table
from rcb_env.report.items import BELOW_ZERO, EVERYBODY, NEGATIVE, NOBODY, WEAKER_ONLY
from rcb_env.report.scoring import Planned, score

FILES = ("official_results.csv", "official_models.csv", "official_papers.csv")


def _folder() -> Path:
    default = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ.get("RCB_SHARED_DATA") or default)


def _rows(name: str) -> list[dict[str, str]]:
    folder = _folder()
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not in {folder}: set RCB_SHARED_DATA to the folder that holds it")
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Planned]]:
    by_model: dict[str, list[Planned]] = defaultdict(list)
    for row in _rows("official_results.csv"):
        by_model[row["model"]].append(
            Planned(
                # Hints are not unique, so the position of the start tag is what tells two regions
                # apart.
                challenge=f"{row['paper']}/{row['file']}:{row['start_tag_line']}",
                paper=row["paper"],
                lines=int(row["lines"]),
                sample=0,
                status="passed" if row["passed"] == "1" else "failed",
            )
        )
    return by_model


def test_all_published_rates_are_reproduced(outcomes: dict[str, list[Planned]]) -> None:
    published = _rows("official_models.csv")
    assert len(published) == len(outcomes) == 32
    for row in published:
        result = score(outcomes[row["model"]])
        assert result.planned == 212, row["model"]
        assert result.pass_rate.value == pytest.approx(float(row["pass_rate"]), abs=1e-9)
        assert result.scaled_pass_rate is not None
        assert result.scaled_pass_rate.value == pytest.approx(
            float(row["scaled_pass_rate"]), abs=1e-9
        )


def test_papers_have_the_published_sizes(outcomes: dict[str, list[Planned]]) -> None:
    result = score(next(iter(outcomes.values())))
    lines: dict[str, int] = defaultdict(int)
    for outcome in next(iter(outcomes.values())):
        lines[outcome.paper] += outcome.lines
    sizes = {paper.paper: (paper.challenges, lines[paper.paper]) for paper in result.papers}
    assert sizes == {
        row["id"]: (int(row["challenges"]), int(row["lines"]))
        for row in _rows("official_papers.csv")
    }
    assert sum(lines.values()) == 1449


def test_the_clustered_interval_holds_the_rate_of_every_model(
    outcomes: dict[str, list[Planned]],
) -> None:
    for rows in outcomes.values():
        rate = score(rows).scaled_pass_rate
        assert rate is not None
        assert rate.interval is not None
        assert rate.value is not None
        assert rate.interval.low < rate.value < rate.interval.high


def test_items_of_the_published_results_divide_the_32_models() -> None:
    published = {row["model"]: float(row["pass_rate"]) for row in _rows("official_models.csv")}
    found = of_table(_folder() / "official_results.csv")
    assert found.agents == pytest.approx(published)
    assert found.common == len(found.items) == 212
    counts = Counter(item.finding for item in found.items)
    # Hard for all of them, and consistent: nothing that strong models fail more often for certain.
    assert (counts[NOBODY], counts[EVERYBODY], counts[NEGATIVE]) == (44, 0, 0)
    assert {
        item.challenge for item in found.items if item.finding in (WEAKER_ONLY, BELOW_ZERO)
    } == {
        "SISS/losses.py:87",
        "Diff-Transformer/model.py:43",
        "llm-sci-use/src/MLE.py:175",
        "eomt/eomt.py:24",
    }
    assert found.reliability == pytest.approx(0.98, abs=0.005)
    mean = sum(item.solved for item in found.items) / 212
    assert mean == pytest.approx(sum(published.values()) / 32)
