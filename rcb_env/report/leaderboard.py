"""The published results of 32 models and the user's runs in one table.

Every number is over the challenges that all rows have planned, so that rows can be compared; how many these are is said. What
a run has not finished counts as not passed, and stands there as bounds.

Guarantees: a run of another data set, or of other code under the same names, is refused. What nobody knows of a model is None.
Not covered: how rates come about (`scoring.py`), ranks (`ranks.py`), whether a model has seen a paper (`contamination.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rcb_env.errors import UsageError, counted, unknown
from rcb_env.report import public_results
from rcb_env.report.comparison import Side
from rcb_env.report.contamination import Exposure, exposures, latest, month_of, safe_papers
from rcb_env.report.kinds import Days, Exposed
from rcb_env.report.model_facts import ModelFacts, facts_of
from rcb_env.report.ranks import By, Rank, ranks
from rcb_env.report.scoring import OPEN_STATES, Planned, Score, score
from rcb_env.runs.store import RunStore

NAME = public_results.NAME
PUBLISHED = "published"
"""Where a row comes from that is no run of the user."""


@dataclass(frozen=True)
class Entry:
    """What a row is made of."""

    name: str
    source: str
    """`PUBLISHED`, or the run's folder."""
    outcomes: tuple[Planned, ...]
    facts: ModelFacts


@dataclass(frozen=True)
class Row:
    """One model, or one run."""

    name: str
    source: str
    score: Score
    rank: Rank
    facts: ModelFacts

    exposure: Exposure
    """What the model cannot have seen of these papers, and its rates there."""

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        found: dict[str, object] = {"model": self.name, "source": self.source}
        for name, rate in (
            ("pass_rate", self.score.pass_rate),
            ("scaled_pass_rate", self.score.scaled_pass_rate),
        ):
            interval = rate.interval if rate else None
            found[name] = rate.value if rate else None
            found[f"{name}_interval"] = [interval.low, interval.high] if interval else None
            found[f"{name}_bounds"] = [rate.low, rate.high] if rate else None
        likely = None if self.rank.low is None else [self.rank.low, self.rank.high]
        return {
            **found,
            "rank": self.rank.place,
            "rank_interval": likely,
            "input_usd_per_mtok": self.facts.input_usd_per_mtok,
            "output_usd_per_mtok": self.facts.output_usd_per_mtok,
            "knowledge_cutoff": self.facts.knowledge_cutoff,
            "challenges": self.score.challenges,
            "papers": len(self.score.papers),
            "coverage": self.score.coverage,
            "unseen": self.exposure.to_dict(),
        }


@dataclass(frozen=True)
class Leaderboard:
    """Rows, the best first, and what must be known to read them."""

    rows: tuple[Row, ...]
    by: By
    challenges: int
    papers: int
    lines: int
    notes: tuple[str, ...]

    @property
    def exposed(self) -> Exposed:
        """What all models may have seen."""
        papers = {paper.paper for row in self.rows for paper in row.score.papers}
        days = {
            name: Days(paper.v1, paper.first_public_code)
            for name, paper in public_results.papers().items()
            if name in papers
        }
        return Exposed(days, [row.exposure for row in self.rows])


def published() -> list[Entry]:
    """The 32 models."""
    return [
        Entry(
            name,
            PUBLISHED,
            public_results.outcomes()[name],
            ModelFacts(model.input_usd_per_mtok, model.output_usd_per_mtok, model.knowledge_cutoff),
        )
        for name, model in public_results.models().items()
    ]


def of_run(name: str, store: RunStore, cutoff: str | None = None) -> Entry:
    """A row of a run.

    Args:
        name: what to call it.
        store: open for reading.
        cutoff: its model's knowledge cutoff, where the user says it.

    Raises:
        UsageError: it is not over the public benchmark.
        StoreError: it cannot be read.
    """
    known = {row.challenge: row for row in next(iter(public_results.outcomes().values()))}
    side = Side(store)
    for row in side.plan:
        here = known.get(row.challenge)
        if here is None:
            raise UsageError(
                f"{store.folder}: {row.challenge} is no challenge of {NAME}, so this run does not compare"
                f" with the published results; run with --dataset {NAME}"
            )
        if here.lines != row.lines:
            raise UsageError(
                f"{store.folder}: {row.challenge} has {counted(row.lines, 'line')}, and {here.lines} in the published"
                " results: it was graded on other code"
            )
    facts = facts_of(store.record.get("config", {}))
    if cutoff is not None:
        facts = replace(facts, knowledge_cutoff=cutoff)
    return Entry(name, str(store.folder), side.outcomes(), facts)


def leaderboard(
    entries: Sequence[Entry],
    *,
    by: By = "scaled",
    papers: Collection[str] = (),
    safe: bool = False,
) -> Leaderboard:
    """Rows on the challenges that all entries have planned, ranked.

    Args:
        entries: one or more.
        by: the rate that ranks.
        papers: only these; empty: all.
        safe: only papers whose code became public after the latest knowledge cutoff of all entries.

    Raises:
        UsageError: no challenge is left, or a paper is unknown.
    """
    every = {row.challenge: row for entry in entries for row in entry.outcomes}
    known = {row.paper for row in every.values()}
    for paper in papers:
        if paper not in known:
            raise unknown("paper", paper, known, where=f"rcb list papers --dataset {NAME}")
    common = set.intersection(*({row.challenge for row in one.outcomes} for one in entries))
    kept = {name for name in common if not papers or every[name].paper in papers}
    notes = list(_notes(entries, common, len(every)))
    days = {name: paper.first_public_code for name, paper in public_results.papers().items()}
    if safe:
        cutoffs = {one.name: one.facts.knowledge_cutoff for one in entries}
        last = latest(cutoffs.values())
        kept = {name for name in kept if every[name].paper in safe_papers(days, last)}
        if last is not None:
            notes.append(f"safe: papers whose code became public after {last}")
        without = [name for name, cutoff in cutoffs.items() if month_of(cutoff) is None]
        if without:
            notes.append(
                f"nobody knows the knowledge cutoff of {', '.join(without)}, so these papers may not be safe for it;"
                " say it with --cutoff NAME=YYYY-MM"
            )
    if not kept:
        raise UsageError(
            "no challenge is left that all rows have planned: name other runs or papers"
        )
    rows = {
        one.name: tuple(row for row in one.outcomes if row.challenge in kept) for one in entries
    }
    placed = ranks(rows, by=by)
    unseen = exposures(rows, {one.name: one.facts.knowledge_cutoff for one in entries}, days)
    found = [
        Row(one.name, one.source, score(rows[one.name], ks=[]), placed[one.name], one.facts, fresh)
        for one, fresh in zip(entries, unseen, strict=True)
    ]
    some = next(iter(rows.values()))
    sizes = {row.challenge: row.lines for row in some}
    return Leaderboard(
        rows=tuple(sorted(found, key=lambda row: (row.rank.place, row.name))),
        by=by,
        challenges=len(sizes),
        papers=len({row.paper for row in some}),
        lines=sum(sizes.values()),
        notes=tuple(notes),
    )


def _notes(entries: Sequence[Entry], common: Collection[str], planned: int) -> Iterator[str]:
    if len(common) < planned:
        yield (
            f"over the {counted(len(common), 'challenge')} that all rows have planned, of {planned}; the published"
            " rates over all of them are those of `rcb leaderboard` without a run"
        )
    for one in entries:
        still_open = sum(row.status in OPEN_STATES for row in one.outcomes)
        if still_open:
            yield (
                f"{one.name}: {counted(still_open, 'episode')} without a verdict count as not passed"
            )
