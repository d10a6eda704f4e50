"""What the paper is worth: runs that differ in nothing but whether the agent could read it, pair by pair.

`rcb run --arms AGENT,AGENT@paper=none` makes such runs. Each pair is compared on the challenges that both planned: in all, by paper
and by challenge, with the paper minus without it.
Guarantees: pure but for reading; intervals are those of `rcb_env.report.pairing`: over papers for a whole run, over the challenges
of a paper, and over the samples of a challenge.
Not covered: why it helped; which sections were read (`paper_use.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rcb_env.errors import UsageError
from rcb_env.report.comparison import Side
from rcb_env.report.pairing import Comparison, compare
from rcb_env.report.scoring import Planned, Rate, grouped
from rcb_env.report.sheet import Sheet
from rcb_env.report.tables import interval_text, number_text, rate_text
from rcb_env.runs.store import RunStore


@dataclass(frozen=True)
class Part:
    """A paper, or a challenge."""

    name: str
    challenges: int
    without: float | None
    """Percent that passed without the paper; None: nothing has finished."""
    with_paper: float | None
    difference: Rate
    """With the paper minus without it, in points."""


@dataclass(frozen=True)
class Impact:
    """What the paper is worth to one agent and model."""

    name: str
    """Agent and model; and how much of the paper was shown, where that is not all of it."""
    whole: Comparison
    """The run with the paper (B) against the one without (A)."""
    papers: tuple[Part, ...]
    challenges: tuple[Part, ...]
    """Those that do not end alike."""


@dataclass(frozen=True)
class PaperImpact:
    """Of all pairs among some runs."""

    impacts: tuple[Impact, ...]

    def sheets(self) -> list[Sheet]:
        """As tables."""
        return [self._in_all(), *self._parts()]

    def _in_all(self) -> Sheet:
        rows = []
        for one in self.impacts:
            whole = one.whole
            rows.append(
                (
                    one.name,
                    str(whole.challenges),
                    number_text(whole.a),
                    number_text(whole.b),
                    rate_text(whole.difference),
                    interval_text(whole.difference),
                    rate_text(whole.scaled_difference),
                    interval_text(whole.scaled_difference),
                    f"{whole.p_value:.3g}",
                )
            )
        columns = (
            *("agent", "challenges", "without", "with", "difference", "95 %"),
            *("scaled", "95 %", "McNemar p"),
        )
        note = "Percent that passed, and points that the paper adds. Intervals are over papers."
        return Sheet("What the paper is worth", columns, tuple(rows), note)

    def _parts(self) -> Iterable[Sheet]:
        for one in self.impacts:
            for what, parts, over in (
                ("paper", one.papers, "challenges"),
                ("challenge", one.challenges, "samples"),
            ):
                rows = tuple(
                    (
                        part.name,
                        *([str(part.challenges)] if what == "paper" else []),
                        number_text(part.without),
                        number_text(part.with_paper),
                        rate_text(part.difference),
                        interval_text(part.difference),
                    )
                    for part in parts
                )
                if rows:
                    counts = ("challenges",) if what == "paper" else ()
                    columns = (what, *counts, "without", "with", "difference", "95 %")
                    title = f"What the paper is worth, by {what}: {one.name}"
                    left_out = (
                        " Challenges that end alike are left out." if what == "challenge" else ""
                    )
                    yield Sheet(title, columns, rows, f"Intervals are over {over}.{left_out}")

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it, by agent and model."""
        return {
            one.name: {
                "challenges": one.whole.challenges,
                "without": one.whole.a,
                "with": one.whole.b,
                "difference": _told(one.whole.difference),
                "scaled_difference": _told(one.whole.scaled_difference),
                "p_value": one.whole.p_value,
                "papers": [_part(part) for part in one.papers],
                "challenges_that_differ": [_part(part) for part in one.challenges],
            }
            for one in self.impacts
        }


def read(stores: Mapping[str, RunStore]) -> PaperImpact:
    """Find the pairs among some runs, and compare them.

    Raises:
        UsageError: there is no such pair.
        StoreError: a run cannot be read.
    """
    found = []
    for without in stores.values():
        if shown(without) != "none":
            continue
        for store in stores.values():
            if shown(store) != "none" and other_settings(store) == other_settings(without):
                found.append(_impact(store, without))
    if not found:
        raise UsageError(
            "no two of these runs differ in nothing but the paper: make them with"
            " `rcb run --arms AGENT,AGENT@paper=none`"
        )
    return PaperImpact(tuple(found))


def _impact(store: RunStore, without: RunStore) -> Impact:
    a, b = Side(without).outcomes(), Side(store).outcomes()
    common = {row.challenge for row in a} & {row.challenge for row in b}
    rows = [[row for row in side if row.challenge in common] for side in (a, b)]
    config = store.record["config"]
    model = config.get("model")
    name = str(config.get("agent", ""))
    if model:
        name += f" ({model['name'] if isinstance(model, Mapping) else model})"
    part = shown(store)
    papers = _parts(rows, lambda row: row.paper, _by_challenge)
    challenges = _parts(rows, lambda row: row.challenge, _by_sample)
    return Impact(
        name if part == "full" else f"{name}, {part}",
        compare(*rows),
        papers,
        tuple(part for part in challenges if part.without != part.with_paper),
    )


def _parts(
    rows: Sequence[Sequence[Planned]],
    key: Callable[[Planned], str],
    as_draws: Callable[[Planned], Planned],
) -> tuple[Part, ...]:
    """Parts of a pair of runs; the interval of each is over what `as_draws` makes of its rows."""
    parts = []
    without, with_paper = (grouped(side, key) for side in rows)
    for name, a in without.items():
        found = compare(map(as_draws, a), map(as_draws, with_paper[name]))
        challenges = len({row.challenge for row in a})
        parts.append(Part(name, challenges, found.a, found.b, found.difference))
    return tuple(parts)


def _by_challenge(row: Planned) -> Planned:
    return replace(row, paper=row.challenge)


def _by_sample(row: Planned) -> Planned:
    name = f"{row.challenge} {row.sample}"
    return replace(row, challenge=name, paper=name, sample=0)


def shown(store: RunStore) -> str:
    """How much of the paper a run showed its agent."""
    return str(store.record.get("config", {}).get("paper", "full"))


def other_settings(store: RunStore) -> dict[str, Any]:
    """All settings of a run but that."""
    return {k: v for k, v in store.record.get("config", {}).items() if k != "paper"}


def _told(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    interval = [rate.interval.low, rate.interval.high] if rate.interval else None
    return {"points": rate.value, "interval": interval, "bounds": [rate.low, rate.high]}


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "without": part.without,
        "with": part.with_paper,
        "difference": _told(part.difference),
    }
