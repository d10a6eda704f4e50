"""Which sections of a paper an agent opened, and whether that helped.

An agent opens sections by the tool `read_paper`; what is counted of it is every episode that saw a line of a section. Beside the pass
rate of these episodes stands that of the paper's other ones, and, where a run without the paper is among those that are read,
that of the same challenges and samples without it.
Guarantees: pure but for reading; sections are those of the text that the agent could read.
Not covered: agents that get the paper in their prompt; causes: an agent may open more where it is already at a loss. Only the run
without the paper tells what the paper did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.sections import Sections, split_sections
from rcb_env.errors import PaperError, UsageError
from rcb_env.report.paper_impact import other_settings, shown
from rcb_env.report.sheet import Sheet
from rcb_env.report.turns import Step, read_turns
from rcb_env.runs.store import RunStore

BEST = "the section that says most about the missing part"
_SHOWN = 20  # sections in a table


@dataclass
class Passes:
    """Episodes, and how many of them passed."""

    episodes: int = 0
    passed: int = 0
    alike: int = 0
    """Of those, how many were played without the paper as well,"""
    passed_with: int = 0
    """how many of these passed with it,"""
    passed_without: int = 0
    """and how many without it."""

    def add(self, passed: bool, without: bool | None) -> None:
        """Add an episode, and how the same one ended without the paper, if it was played."""
        self.episodes += 1
        self.passed += passed
        if without is not None:
            self.alike += 1
            self.passed_with += passed
            self.passed_without += without

    @property
    def rate(self) -> str:
        """Percent that passed."""
        return f"{100 * self.passed / self.episodes:.1f}" if self.episodes else "n/a"

    @property
    def gain(self) -> str:
        """Points that the paper added to these episodes."""
        points = 100 * (self.passed_with - self.passed_without)
        return f"{points / self.alike:+.1f}" if self.alike else "n/a"


@dataclass
class RunUse:
    """Of one run."""

    opened: dict[str, Passes] = field(default_factory=dict)
    """Episodes by how much they opened."""
    sections: dict[tuple[str, str], Passes] = field(default_factory=dict)
    """Episodes that opened a section, by paper and title."""
    papers: dict[str, Passes] = field(default_factory=dict)
    """All episodes of a paper."""
    left_out: int = 0
    """Episodes of challenges that are not in the data set any more, or are other ones."""


@dataclass(frozen=True)
class PaperUse:
    """Of some runs, by the names they are given."""

    runs: Mapping[str, RunUse]

    def sheets(self) -> list[Sheet]:
        """As tables."""
        return [sheet for name, run in self.runs.items() for sheet in _sheets(name, run)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            name: {
                "opened": {what: vars(passes) for what, passes in run.opened.items()},
                "sections": [
                    {"paper": paper, "section": title, **vars(passes)}
                    for (paper, title), passes in run.sections.items()
                ],
                "left_out": run.left_out,
            }
            for name, run in self.runs.items()
        }


def read(stores: Mapping[str, RunStore]) -> PaperUse:
    """Read some runs, by the names they are given.

    Raises:
        UsageError: no episode of any run opened the paper, or a data set is not there.
        StoreError: a run cannot be read.
    """
    without = {
        _key(store): {
            (line["episode"]["challenge"], line["episode"]["sample"]): line["episode"]["status"]
            == "passed"
            for line in store.latest()
        }
        for store in stores.values()
        if shown(store) == "none"
    }
    found = {
        name: _of(store, without.get(_key(store), {}))
        for name, store in stores.items()
        if shown(store) != "none"
    }
    if not any(run.sections for run in found.values()):
        raise UsageError(
            "no episode of these runs opened the paper: only agents with tools do; for the others see --by paper"
        )
    return PaperUse(found)


def _of(store: RunStore, without: Mapping[tuple[str, int], bool]) -> RunUse:
    dataset = _dataset(store)
    hashes = {entry["challenge"]: entry.get("content_hash") for entry in store.record["plan"]}
    config = store.record["config"]
    found = RunUse()
    for line in store.latest():
        episode = line["episode"]
        name = str(episode["challenge"])
        challenge = _found(dataset, name)
        if challenge is None or challenge.content_hash != hashes.get(name):
            found.left_out += 1
            continue
        _, steps = read_turns(store.trajectory_of(line))
        _add(
            found,
            challenge,
            _Text(challenge, shown(store), with_hint=config.get("with_hint", True)).opened(steps),
            passed=episode["status"] == "passed",
            without=without.get((name, episode["sample"])),
        )
    return found


def _found(dataset: Dataset, name: str) -> Challenge | None:
    try:
        return dataset.challenge(name)
    except UsageError:
        return None


def _add(
    found: RunUse,
    challenge: Challenge,
    opened: tuple[tuple[str, ...], bool, bool],
    *,
    passed: bool,
    without: bool | None,
) -> None:
    titles, everything, best = opened
    paper = challenge.paper.published_id
    how_much = "nothing" if not titles else "the whole paper" if everything else "some sections"
    for what in (how_much, f"{'not ' if not best else ''}{BEST}"):
        found.opened.setdefault(what, Passes()).add(passed, without)
    for title in titles:
        found.sections.setdefault((paper, title), Passes()).add(passed, without)
    found.papers.setdefault(paper, Passes()).add(passed, without)


class _Text:
    """A paper's text as an agent could read it, in sections."""

    def __init__(self, challenge: Challenge, part: str, *, with_hint: bool) -> None:
        ranked = Sections(challenge.paper.text, *challenge.topic(with_hint=with_hint))
        text = challenge.paper.text if part == "full" else ranked.joined(ranked.best())
        self._parts = split_sections(text)
        # Behind the opening, which always leads.
        first = next(iter(ranked.ranked[1:2]), 0)
        self._best = ranked.parts[first].strip() if ranked.parts else ""

    def opened(self, steps: Iterable[Step]) -> tuple[tuple[str, ...], bool, bool]:
        """Titles of the sections of which a line was read; whether all were; whether the one that says most was."""
        spans = [span for step in steps if (span := _lines_read(step)) is not None]
        titles, best, line = [], False, 1
        for part in self._parts:
            last = line + part.count("\n") - part.endswith("\n")
            if any(first <= last and line <= end for first, end in spans):
                titles.append(part.strip().split("\n", 1)[0][:80])
                best = best or part.strip() == self._best
            line = last + 1
        return tuple(dict.fromkeys(titles)), bool(titles) and len(titles) == len(self._parts), best


def _lines_read(step: Step) -> tuple[int, int] | None:
    """The first and the last line of the paper that a step read."""
    called = step.called
    if step.error or called is None or called["tool"] != "read_paper":
        return None
    arguments = called.get("arguments") or {}
    first, last = arguments.get("start") or 1, arguments.get("end") or 1 << 30
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def _sheets(name: str, run: RunUse) -> Iterable[Sheet]:
    rows = [
        (what, str(passes.episodes), passes.rate, passes.gain)
        for what, passes in sorted(run.opened.items())
    ]
    note = "Percent that passed. The last column: points over the same episodes without the paper."
    if run.left_out:
        note += (
            f" {run.left_out} episodes are left out: the data set no longer has their challenges."
        )
    columns = ("opened", "episodes", "pass rate", "over no paper")
    yield Sheet(f"What of the paper was opened: {name}", columns, tuple(rows), note)
    sections = [
        (paper, title, str(passes.episodes), passes.rate, _others(run, paper, passes), passes.gain)
        for (paper, title), passes in _most_opened(run.sections)
    ]
    if sections:
        about = ("paper", "section", "opened in", "pass rate", "other episodes", "over no paper")
        yield Sheet(f"Sections opened: {name}", about, tuple(sections), f"The first {_SHOWN}.")


def _most_opened(
    sections: Mapping[tuple[str, str], Passes],
) -> Sequence[tuple[tuple[str, str], Passes]]:
    return sorted(sections.items(), key=lambda item: (-item[1].episodes, item[0]))[:_SHOWN]


def _others(run: RunUse, paper: str, opened: Passes) -> str:
    whole = run.papers[paper]
    return Passes(whole.episodes - opened.episodes, whole.passed - opened.passed).rate


def _dataset(store: RunStore) -> Dataset:
    source = str(store.record.get("dataset", {}).get("source", "bundled"))
    try:
        return load_dataset(source)
    except PaperError as error:
        raise UsageError(f"{store.folder}: its data set cannot be read: {error}") from error


def _key(store: RunStore) -> str:
    """What two runs share that differ in the paper only."""
    return repr(sorted(other_settings(store).items()))
