"""The published results of ResearchCodeBench (arXiv 2506.02314): what each of 32 models solved, and what is known of them.

They come with the package, in ``data/``: facts and figures only, no code and no text of the benchmark. `public_results.csv`
has a row for each of the 212 challenges (under the id it has here) and a column for each model: 1 passed, 0 failed, t timed
out. `public_models.csv` has prices, knowledge cutoffs and the two published rates, `public_papers.csv` the days on which a
paper and its code became public. They are of the benchmark's repository at commit db3d16d, its greedy run of May 2025. The day
of min-p's first commit is that of the data set, which corrected the one stored with the results a day after them.

Guarantees: the published rates and the means of each paper come out of these outcomes to 1e-9 (`tests/data`).
Not covered: a table of them (`rcb_env.report.leaderboard`).
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rcb_env.report.scoring import Planned

NAME = "researchcodebench"
"""Of the data set that they are of."""
_STATES = {"1": "passed", "0": "failed", "t": "timeout"}


@dataclass(frozen=True)
class PublicModel:
    """One model of the published results; None: nobody says."""

    name: str
    """As the published results call it."""
    api_name: str
    """As its server calls it."""
    input_usd_per_mtok: float | None
    """Of a million prompt tokens, in 2025."""
    output_usd_per_mtok: float | None
    knowledge_cutoff: str | None
    """YYYY-MM or YYYY-MM-DD."""
    pass_rate: float
    """As published, in percent."""
    scaled_pass_rate: float


@dataclass(frozen=True)
class PublicPaper:
    """One of the twenty papers, which the bundled papers are about too."""

    domain: str
    v1: datetime.date | None
    """When its first version was."""
    first_public_code: datetime.date | None
    """When the first commit of its code was."""


@cache
def models() -> Mapping[str, PublicModel]:
    """The models, in the order of the published results."""
    return {
        row["model"]: PublicModel(
            name=row["model"],
            api_name=row["api_name"],
            input_usd_per_mtok=_number(row["input_usd_per_mtok"]),
            output_usd_per_mtok=_number(row["output_usd_per_mtok"]),
            knowledge_cutoff=row["knowledge_cutoff"] or None,
            pass_rate=float(row["pass_rate"]),
            scaled_pass_rate=float(row["scaled_pass_rate"]),
        )
        for row in _rows("public_models.csv")
    }


@cache
def papers() -> Mapping[str, PublicPaper]:
    """The papers by their ids."""
    return {
        row["paper"]: PublicPaper(row["domain"], _day(row["v1"]), _day(row["first_public_code"]))
        for row in _rows("public_papers.csv")
    }


@cache
def outcomes() -> Mapping[str, tuple[Planned, ...]]:
    """What each model solved: the state of every challenge, by model."""
    return {
        model: tuple(
            Planned(
                challenge=row["challenge"],
                paper=row["paper"],
                lines=int(row["lines"]),
                own_lines=int(row["own_lines"]),
                sample=0,
                status=_STATES[row[model]],
            )
            for row in _rows("public_results.csv")
        )
        for model in models()
    }


@cache
def hint_words() -> Mapping[str, int]:
    """How many words the hint of each challenge has."""
    return {row["challenge"]: int(row["hint_words"]) for row in _rows("public_results.csv")}


@cache
def _rows(name: str) -> tuple[Mapping[str, str], ...]:
    text = (resources.files("rcb_env.report") / "data" / name).read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def _number(text: str) -> float | None:
    return float(text) if text else None


def _day(text: str) -> datetime.date | None:
    return datetime.date.fromisoformat(text) if text else None
