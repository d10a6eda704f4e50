"""What kind of challenge each of a run is, and what its model may have seen: read from run.json, without the data set.

A run records the length of each hint, and the domain and days of each paper. Runs of before that are about the twenty papers
of the public benchmark, of which the package knows domain and days (`public_results.py`), and of its challenges the hints.
What neither says is not there.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_env.report import public_results
from rcb_env.report.contamination import Exposure, exposures
from rcb_env.report.model_facts import facts_of
from rcb_env.report.scoring import Planned


@dataclass(frozen=True)
class Days:
    """When something of a paper became public; None: nobody says."""

    v1: datetime.date | None
    """The paper's first version."""
    code: datetime.date | None
    """The first commit of its code."""


@dataclass(frozen=True)
class Kinds:
    """Of the challenges and papers of a run."""

    hint_words: Mapping[str, int] = field(default_factory=dict)
    """By challenge."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """By paper."""
    days: Mapping[str, Days] = field(default_factory=dict)
    """By paper."""
    cutoff: str | None = None
    """Of the run's model."""

    @property
    def code_days(self) -> dict[str, datetime.date | None]:
        """When the code of each paper became public."""
        return {paper: days.code for paper, days in self.days.items()}


def kinds_of(record: Mapping[str, Any], cutoff: str | None = None) -> Kinds:
    """The kinds of a run.

    Args:
        record: run.json, sound.
        cutoff: of its model; None: what is known of it.
    """
    told = record.get("papers") or {}
    known = public_results.papers()
    hints = public_results.hint_words()
    words, domains, days = {}, {}, {}
    for entry in record.get("plan", ()):
        paper = entry["paper"]
        count = entry.get("hint_words", hints.get(entry["challenge"]))
        if count is not None:
            words[entry["challenge"]] = int(count)
        own, fallback = told.get(paper) or {}, known.get(paper)
        domain = own.get("domain") or (fallback.domain if fallback else "")
        if domain:
            domains[paper] = str(domain)
        v1, code = (
            _day((own.get("dates") or {}).get(name)) for name in ("v1", "first_public_code")
        )
        if fallback:
            v1, code = v1 or fallback.v1, code or fallback.first_public_code
        days[paper] = Days(v1, code)
    known_cutoff = cutoff or facts_of(record.get("config", {})).knowledge_cutoff
    return Kinds(words, domains, days, known_cutoff)


@dataclass(frozen=True)
class Exposed:
    """What the models of some runs may have seen."""

    days: Mapping[str, Days]
    """By paper, of all runs."""
    exposures: Sequence[Exposure]
    """Of each run."""

    @property
    def known(self) -> bool:
        """Whether anything can be said: the cutoff of a model, and the day of a paper."""
        cutoffs = any(one.cutoff for one in self.exposures)
        return cutoffs and any(days.code or days.v1 for days in self.days.values())


def exposed(outcomes: Mapping[str, Sequence[Planned]], kinds: Mapping[str, Kinds]) -> Exposed:
    """What the models of some runs may have seen, and what they did on the rest.

    Args:
        outcomes: every planned episode, by run.
        kinds: of each run.
    """
    days: dict[str, Days] = {}
    for one in kinds.values():
        days |= one.days
    code = {paper: each.code for paper, each in days.items()}
    cutoffs = {name: kinds[name].cutoff for name in outcomes}
    return Exposed(days, exposures(outcomes, cutoffs, code))


def _day(value: object) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(str(value)) if value else None
    except ValueError:
        return None
