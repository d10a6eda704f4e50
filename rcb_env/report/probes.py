"""Traces of memory in single answers: what of a reference an answer holds that nobody could read.

Three probes of each challenge that a run played:

- *in the prompt*: every line of code of the reference stands elsewhere in what an agent can read, so that the answer could be
  copied;
- *solved blind*: it is solved in a run without the paper and without the other files (``rcb run --paper none --no-context``),
  whose answer nothing but the code around it told;
- *recalled*: the share of the reference's runs of six tokens that stand in the answer, of those that stand nowhere in what the
  agent could read. Comments count, as nobody writes the same ones by chance.

Guarantees: what was shown is taken from the run's own settings; a challenge with fewer than `LEAST` such runs of tokens has no
share, as right answers to small regions are alike anyhow. Challenges whose content changed since are left out and counted.
Not covered: a right answer that follows from the paper alone is like the reference too: a large share is a reason to look.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.env.settings import Shown
from rcb_env.errors import UsageError, counted
from rcb_env.report.scoring import OPEN_STATES, PASSED
from rcb_env.report.sheet import Sheet
from rcb_env.report.summary import plan_of
from rcb_env.runs.store import RunStore

RUN_OF = 6
"""Tokens in a row that are looked for."""
LEAST = 20
"""With fewer unseen runs of tokens, no share is given."""
MUCH = 0.5
"""A share from which on an answer is listed."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_ROWS = 30  # of a sheet


@dataclass(frozen=True)
class Probe:
    """One challenge of one run."""

    challenge: str
    lines: int
    solved: float
    """Percent of its graded samples."""
    in_prompt: bool
    blind: float | None
    """Percent of its graded samples in the blind runs; None: none was given, or has a verdict."""
    unseen: int
    """Runs of tokens of the reference that stand nowhere in what was shown."""
    recalled: float | None
    """Percent of them that an answer holds, of the answer that holds most; None: there are too few."""


@dataclass(frozen=True)
class Probes:
    """All challenges of some runs."""

    runs: Mapping[str, tuple[Probe, ...]]
    """The most recalled first; without the blind runs."""
    blind: tuple[str, ...]
    """The runs that were blind."""
    changed: Mapping[str, int]
    """How many challenges of a run are not what they were when it was made."""

    def sheets(self) -> list[Sheet]:
        """As tables."""
        return [_totals(self), *(_each(name, found) for name, found in self.runs.items())]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: an entry a run."""
        return {name: [asdict(one) for one in found] for name, found in self.runs.items()}


def read(stores: Mapping[str, RunStore]) -> Probes:
    """Probe some runs; those that were made blind tell of the others.

    Args:
        stores: runs by the names they are given.

    Raises:
        UsageError: a data set is not here, or all runs are blind.
        StoreError: one cannot be read.
    """
    blind = tuple(name for name, store in stores.items() if _is_blind(store))
    played = {name: store for name, store in stores.items() if name not in blind}
    if not played:
        raise UsageError(
            f"{', '.join(blind)}: made without paper and context; name the run beside it that had them"
        )
    solved_blind = _solved_blind([stores[name] for name in blind])
    runs, changed = {}, {}
    for name, store in played.items():
        challenges = _challenges(store)
        runs[name] = tuple(_probes(store, challenges, solved_blind))
        changed[name] = len({row.challenge for row in plan_of(store)}) - len(challenges)
    return Probes(runs, blind, changed)


def _is_blind(store: RunStore) -> bool:
    config = store.record.get("config", {})
    return config.get("paper") == "none" and config.get("with_context") is False


def _challenges(store: RunStore) -> dict[str, Challenge]:
    """The run's challenges, as far as they are still the same."""
    dataset = load_dataset(str(store.record.get("dataset", {}).get("source") or "bundled"))
    here = {challenge.id: challenge for challenge in dataset.challenges}
    return {
        entry["challenge"]: here[entry["challenge"]]
        for entry in store.record["plan"]
        if entry["challenge"] in here
        and entry.get("content_hash") in ("", None, here[entry["challenge"]].content_hash)
        and not here[entry["challenge"]].is_open
    }


def _solved_blind(stores: Sequence[RunStore]) -> dict[str, float]:
    graded: dict[str, list[bool]] = {}
    for store in stores:
        for line in store.latest():
            episode = line["episode"]
            if episode["status"] not in OPEN_STATES:
                graded.setdefault(episode["challenge"], []).append(episode["status"] == PASSED)
    return {name: 100 * sum(passed) / len(passed) for name, passed in graded.items()}


def _probes(
    store: RunStore, challenges: Mapping[str, Challenge], blind: Mapping[str, float]
) -> Iterator[Probe]:
    shown = Shown.of(store.record.get("config", {}))
    answers: dict[str, list[tuple[bool, str]]] = {}
    for line in store.latest():
        episode = line["episode"]
        if episode["status"] not in OPEN_STATES and episode["challenge"] in challenges:
            found = (episode["status"] == PASSED, str(episode.get("code") or ""))
            answers.setdefault(episode["challenge"], []).append(found)
    made = []
    for name, each in answers.items():
        challenge = challenges[name]
        unseen = _runs(challenge.reference).difference(*map(_runs, _readable(challenge, shown)))
        held = max(len(unseen & _runs(code)) for _, code in each)
        made.append(
            Probe(
                name,
                challenge.lines,
                solved=100 * sum(passed for passed, _ in each) / len(each),
                in_prompt=stands_elsewhere(challenge),
                blind=blind.get(name),
                unseen=len(unseen),
                recalled=100 * held / len(unseen) if len(unseen) >= LEAST else None,
            )
        )
    yield from sorted(made, key=lambda one: (-(one.recalled or -1.0), one.challenge))


def stands_elsewhere(challenge: Challenge) -> bool:
    """Whether every line of the reference's code also stands somewhere else in what an agent can read."""
    lines = _code(challenge.reference)
    return lines <= set().union(*map(_code, _readable(challenge, Shown())))


def _readable(challenge: Challenge, shown: Shown) -> list[str]:
    """All that an agent can read of a challenge, as texts."""
    files = challenge.workspace(with_hint=shown.with_hint)
    kept = files if shown.with_context else {name: files[name] for name in challenge.files}
    texts = [data.decode("utf-8", "replace") for data in kept.values()]
    return [*texts, challenge.paper.text] if shown.with_paper else texts


@functools.lru_cache(maxsize=512)
def _code(text: str) -> frozenset[str]:
    """Lines of code, without indent, comments and blank lines."""
    lines = (line.strip() for line in text.split("\n"))
    return frozenset(line for line in lines if line and not line.startswith("#"))


@functools.lru_cache(maxsize=512)
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    """Every `RUN_OF` tokens in a row."""
    tokens = _TOKEN.findall(text)
    return frozenset(zip(*(tokens[start:] for start in range(RUN_OF)), strict=False))


# --- sheets -----------------------------------------------------------------------------------


def _totals(found: Probes) -> Sheet:
    rows = []
    for name, probes in found.runs.items():
        shares = [one.recalled for one in probes if one.recalled is not None]
        blind = [one for one in probes if one.blind is not None]
        rows.append(
            (
                name,
                str(len(probes)),
                str(sum(one.solved > 0 for one in probes)),
                f"{sum(one.in_prompt for one in probes)} ({_solved(probes, 'in_prompt')} solved)",
                f"{sum(bool(one.blind) for one in blind)} of {len(blind)}" if blind else "n/a",
                f"{sum(shares) / len(shares):.1f}" if shares else "n/a",
                f"{sum(share >= 100 * MUCH for share in shares)} of {len(shares)}",
            )
        )
    columns = (
        *("run", "challenges", "solved", "answer stands in the prompt", "solved blind"),
        *("recalled, mean percent", f"recalled by {MUCH:.0%} or more".replace("%", " %")),
    )
    note = (
        f"Recalled: the share of the reference's runs of {RUN_OF} tokens that an answer holds, of those that nothing shown"
        f" held; of challenges with at least {LEAST} of them. A right answer is like the reference anyhow: look at the"
        " largest, and at what is wrong and alike."
    )
    if not found.blind:
        note += " For blind answers name a run made with --paper none --no-context beside it."
    lost = [f"{counted(n, 'challenge')} of {name}" for name, n in found.changed.items() if n]
    if lost:
        note += (
            f" Left out, as the data set has other ones by now, or open ones: {', '.join(lost)}."
        )
    return Sheet("Traces of memory", columns, tuple(rows), note)


def _solved(probes: Sequence[Probe], field: str) -> int:
    return sum(one.solved > 0 for one in probes if getattr(one, field))


def _each(name: str, probes: Sequence[Probe]) -> Sheet:
    telling = [one for one in probes if one.recalled or one.in_prompt or one.blind]
    rows = [
        (
            one.challenge,
            str(one.lines),
            f"{one.solved:.0f}",
            "yes" if one.in_prompt else "",
            "n/a" if one.blind is None else f"{one.blind:.0f}",
            "n/a" if one.recalled is None else f"{one.recalled:.0f} of {one.unseen}",
        )
        for one in telling[:_ROWS]
    ]
    columns = ("challenge", "lines", "solved", "in the prompt", "solved blind", "recalled")
    more = len(telling) - len(rows)
    note = "Percent, the most recalled first." + (f" {more} more: --json has all." if more else "")
    return Sheet(f"Challenges of {name}", columns, tuple(rows), note)
