"""Two runs side by side: paired differences, what else differs between them, and rates by effort.

Guarantees: only challenges that both runs planned are compared, over all of their planned samples;
unfinished episodes count as not passed and are warned about. Everything in which the runs differ beside
agent and model is named, so a difference is not put down to the agent when a budget made it.

Rates by effort: the share of planned episodes that passed *and* took at most so many test runs,
actions, model calls, tokens or dollars. Since an episode that went on is not cut short to find
out, this is at most what a smaller budget would have given.
Not covered: how differences and intervals are computed (`rcb_env.report.pairing`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from rcb_env.errors import UsageError, counted
from rcb_env.report.disagreements import Disagreement, Judged, disagreements
from rcb_env.report.pairing import Comparison, compare, holm
from rcb_env.report.power import GAPS
from rcb_env.report.scoring import PASSED, Planned, fill_missing
from rcb_env.report.summary import plan_of, unreported
from rcb_env.runs.store import RunStore

_ROWS = 8  # of a table by effort
_SHOWN = 5  # names in one warning
# What a comparison is about, or follows from what is planned, or stands under other keys too.
_NOT_SETTINGS = ("agent", "agent_settings", "model", "challenges", "pairs", "imported", "regraded")


def _of(*path: str) -> Callable[[Mapping[str, Any]], float | None]:
    def read(episode: Mapping[str, Any]) -> float | None:
        value: Any = episode
        for name in path:
            value = (value or {}).get(name)
        return None if value is None else float(value)

    return read


def _counted(*names: str) -> Callable[[Mapping[str, Any]], float | None]:
    """The sum of some counts of model calls, where all calls were reported."""

    def read(episode: Mapping[str, Any]) -> float | None:
        usage = episode.get("usage") or {}
        return None if unreported(usage) else float(sum(usage.get(name) or 0 for name in names))

    return read


EFFORTS: Mapping[str, Callable[[Mapping[str, Any]], float | None]] = {
    "test runs": _of("test_runs"),
    "actions": _of("steps"),
    "model calls": _counted("calls"),
    "tokens": _counted("prompt_tokens", "completion_tokens"),
    "USD": _of("usage", "cost_usd"),
}
"""What an episode took, by name; None: not known."""


@dataclass(frozen=True)
class ByEffort:
    """Pass rates (percent, each challenge once) by how much of something an episode took."""

    effort: str
    """A key of `EFFORTS`."""
    limits: tuple[float, ...]
    """"At most this much", rising; the last one includes every episode of both runs."""
    a: tuple[float, ...] | None
    """Of run A, one for each limit; None: what some of its episodes took is not known."""
    b: tuple[float, ...] | None
    mean_a: float | None
    """Of one finished episode of A."""
    mean_b: float | None


@dataclass(frozen=True)
class RunPair:
    """Run B against run A."""

    a: str
    """What run A is called."""
    b: str
    papers: int
    """Of the common challenges: what the intervals are over."""
    comparison: Comparison
    """Its warnings begin with what is open in the runs, and go on with what differs."""
    efforts: tuple[ByEffort, ...]
    disagreements: tuple[Disagreement, ...] = ()
    """Equal answers that the two runs judged differently."""
    p_holm: float | None = None
    """The test's p-value corrected for all pairs that were compared with this one; None: there is no other."""
    pairs: int = 1
    """How many were compared."""

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)


def compare_runs(
    a: RunStore,
    b: RunStore,
    *,
    names: tuple[str, str],
    gaps: Sequence[float] = GAPS,
    hierarchical: bool = False,
) -> RunPair:
    """Compare two run directories.

    Args:
        a: a run open for reading.
        b: another one.
        names: what to call them.
        gaps: gaps in percentage points of which it is said what it would take to see them.
        hierarchical: also fit a hierarchical estimate of the difference.

    Raises:
        StoreError: a run cannot be read.
        UsageError: no challenge is in both, or one has other code in each; or statsmodels is missing.
    """
    sides = Side(a), Side(b)
    try:
        compared = compare(
            sides[0].outcomes(), sides[1].outcomes(), gaps=gaps, hierarchical=hierarchical
        )
    except ValueError as error:
        raise UsageError(f"{names[0]} and {names[1]} cannot be compared: {error}") from None
    common = {row.challenge for row in sides[0].plan} & {row.challenge for row in sides[1].plan}
    return RunPair(
        *names,
        papers=len({row.paper for row in sides[0].plan if row.challenge in common}),
        comparison=replace(
            compared, warnings=(*compared.warnings, *differences(a.record, b.record, common))
        ),
        efforts=tuple(_by_effort(name, sides, common) for name in EFFORTS),
        disagreements=disagreements(sides[0].judged, sides[1].judged),
    )


def corrected(pairs: Sequence[RunPair]) -> list[RunPair]:
    """Pairs that are read together, each with its p-value corrected for their number (Holm)."""
    if len(pairs) < 2:
        return list(pairs)
    p_values = holm([pair.comparison.p_value for pair in pairs])
    return [
        replace(pair, p_holm=p_value, pairs=len(pairs))
        for pair, p_value in zip(pairs, p_values, strict=True)
    ]


class Side:
    """One run, as far as a comparison needs it: a few numbers for each episode."""

    def __init__(self, store: RunStore) -> None:
        self.plan = plan_of(store)
        self.states: dict[tuple[str, int], str] = {}
        self.took: dict[tuple[str, int], dict[str, float | None]] = {}
        self.judged: dict[tuple[str, int], Judged] = {}
        for line in store.latest():
            episode = line["episode"]
            key = (str(episode["challenge"]), int(episode["sample"]))
            self.states[key] = str(episode.get("status"))
            self.took[key] = {name: read(episode) for name, read in EFFORTS.items()}
            self.judged[key] = Judged.of(episode)

    def outcomes(self) -> tuple[Planned, ...]:
        """Every planned episode with its state."""
        return fill_missing(self.plan, self.states)

    def known(self, effort: str, common: set[str]) -> list[float] | None:
        """What the finished episodes took; None if that is not known of one of them."""
        values = [took[effort] for (name, _), took in self.took.items() if name in common]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def rates(self, effort: str, limits: Sequence[float], common: set[str]) -> tuple[float, ...]:
        """Percent of these challenges that were solved with at most so much of something."""
        rows = sorted((r for r in self.plan if r.challenge in common), key=lambda r: r.challenge)
        first = [0.0] * (
            len(limits) + 1
        )  # what is solved within a limit and not within the one before
        for _, group in groupby(rows, key=lambda row: row.challenge):
            samples = [(row.challenge, row.sample) for row in group]
            for sample in samples:
                if self.states.get(sample) == PASSED:
                    first[bisect_left(limits, self.took[sample][effort] or 0.0)] += 1 / len(samples)
        return tuple(100 * passed / len(common) for passed in accumulate(first[:-1]))


def _by_effort(effort: str, sides: tuple[Side, Side], common: set[str]) -> ByEffort:
    known = [side.known(effort, common) for side in sides]
    limits = limits_of([value for values in known for value in values or ()])
    rates = [
        None if values is None else side.rates(effort, limits, common)
        for side, values in zip(sides, known, strict=True)
    ]
    means = [sum(values) / len(values) if values else None for values in known]
    return ByEffort(effort, limits, rates[0], rates[1], means[0], means[1])


def limits_of(values: Sequence[float], most: int = _ROWS) -> tuple[float, ...]:
    """At most so many round numbers that spread the values; the last one is not below any of them."""
    distinct = sorted(set(values))
    if not distinct:
        return ()
    if len(distinct) <= most and all(value == int(value) < 1000 for value in distinct):
        return tuple(distinct)
    # Quantiles of what episodes took, not of the range: one long episode must not fill the table.
    ordered = sorted(values)
    picks = {_rounded_up(ordered[(len(ordered) - 1) * n // (most - 1)]) for n in range(most)}
    return tuple(sorted(picks))


def _rounded_up(value: float) -> float:
    """The next number with two digits that is not smaller."""
    if value <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    rounded = round(math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits, max(digits, 0))
    return rounded if rounded >= value else value


# --- what else differs ------------------------------------------------------------------------


def differences(a: Mapping[str, Any], b: Mapping[str, Any], common: Iterable[str]) -> Iterator[str]:
    """What else differs between two runs than agent or model, a line each.

    Args:
        a: run.json of one.
        b: of the other.
        common: challenges of both.
    """
    first, second = a.get("config", {}), b.get("config", {})
    models = first.get("model"), second.get("model")
    if first.get("agent") != second.get("agent") and all(models) and models[0] != models[1]:
        yield "the runs differ in agent and in model: the difference is due to both together"
    changed = list(_changed(_settings(a), _settings(b)))
    same = first.get("agent") == second.get("agent") and models[0] == models[1]
    if same and all(change.startswith("paper ") for change in changed):
        changed = []  # then it is what is compared
    if changed:
        yield f"the runs differ in more than agent and model: {'; '.join(changed)}"
    hashes = [_hashes(record) for record in (a, b)]
    other = sorted(name for name in common if hashes[0].get(name) != hashes[1].get(name))
    if other:
        more = f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else ""
        yield (
            f"{counted(len(other), 'challenge')} with different content in the two runs (prompt or tests):"
            f" {', '.join(other[:_SHOWN])}{more}"
        )


def _settings(record: Mapping[str, Any]) -> dict[str, object]:
    config = {k: v for k, v in record.get("config", {}).items() if k not in _NOT_SETTINGS}
    model = (record.get("config", {}).get("model") or {}) if config else {}
    if isinstance(model, dict):
        # How a model is asked is a setting of the run; which one is asked is what is compared.
        config["model"] = {
            k: v for k, v in model.items() if k in ("temperature", "max_tokens", "reasoning_effort")
        }
    versions = record.get("versions") or {}
    return {**config, "version of rcb-env": versions.get("rcb-env")}


def _changed(a: object, b: object, path: str = "") -> Iterator[str]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted(a.keys() | b.keys()):
            yield from _changed(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))
    elif a != b and not (path.startswith("model.") and None in (a, b)):
        yield f"{path} {_shown(a)} and {_shown(b)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)[:60]


def _hashes(record: Mapping[str, Any]) -> dict[str, object]:
    return {entry["challenge"]: entry.get("content_hash") for entry in record.get("plan", ())}
