"""The public benchmark's verdicts beside ours: how often they differ, and why.

Reads runs that `rcb grade --official` made: each final verdict has `official_pass`, from a run of its own, and `official_end`, why
it does not pass by that rule.
Guarantees: every pair of verdicts is counted once; of those that differ each has one reason, taken from the two verdicts' fields.
Not covered: a suite that draws unseeded inputs may end otherwise in its own second run; such a difference has the reason that the
two runs show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rcb_env.errors import UsageError
from rcb_env.report.error_classes import class_of
from rcb_env.report.sheet import Sheet
from rcb_env.runs.store import RunStore

_STATUS_REASONS = {
    "tampered": "ours found that the code disabled the suite or took the reference's results",
    "timeout": "ours ended by its time limit",
    "out_of_memory": "ours ended by its memory limit",
    "no_change": "the region holds no code, and the suite does not notice",
}


@dataclass
class RunParity:
    """Of one run; an answer is counted where both rules have a verdict on it."""

    both_pass: int = 0
    both_fail: int = 0
    only_ours: dict[str, list[str]] = field(default_factory=dict)
    """Reason -> challenges that pass by ours only."""
    only_official: dict[str, list[str]] = field(default_factory=dict)

    @property
    def graded(self) -> int:
        """How many answers have both verdicts."""
        differ = sum(
            len(names) for part in (self.only_ours, self.only_official) for names in part.values()
        )
        return self.both_pass + self.both_fail + differ

    def add(self, episode: Mapping[str, Any]) -> None:
        """Add one stored episode."""
        verdict = episode.get("verdict") or {}
        official = verdict.get("official_pass")
        if official is None or episode["status"] == "infra_error":
            return
        ours = episode["status"] == "passed"
        if ours == official:
            self.both_pass += ours
            self.both_fail += not ours
            return
        part = self.only_ours if ours else self.only_official
        part.setdefault(reason(episode), []).append(str(episode["challenge"]))


@dataclass(frozen=True)
class Parity:
    """Of some runs, by the names they are given."""

    runs: Mapping[str, RunParity]

    def sheets(self) -> list[Sheet]:
        """As tables."""
        rows = [
            (
                name,
                str(one.graded),
                str(one.both_pass),
                str(one.both_fail),
                _count(one.only_ours),
                _count(one.only_official),
            )
            for name, one in self.runs.items()
        ]
        columns = ("run", "answers", "both pass", "both fail", "only ours", "only official")
        note = "Official: exit code 0 within 60 s, and none of four words in the output."
        sheets = [Sheet("Our verdicts and the public benchmark's", columns, tuple(rows), note)]
        reasons = Counter[tuple[str, str]]()
        examples: dict[tuple[str, str], str] = {}
        for one in self.runs.values():
            for passes, part in (("ours", one.only_ours), ("official", one.only_official)):
                for why, found in part.items():
                    reasons[passes, why] += len(found)
                    examples.setdefault((passes, why), found[0])
        if reasons:
            why_rows = tuple(
                (passes, why, str(n), examples[passes, why])
                for (passes, why), n in reasons.most_common()
            )
            names = ("passes by", "reason", "answers", "the first")
            sheets.append(Sheet("Why the verdicts differ", names, why_rows))
        return sheets

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {name: {"graded": one.graded, **vars(one)} for name, one in self.runs.items()}


def read(stores: Mapping[str, RunStore]) -> Parity:
    """Read some runs, by the names they are given.

    Raises:
        UsageError: one holds no verdict of the public benchmark.
        StoreError: one cannot be read.
    """
    found: dict[str, RunParity] = {}
    for name, store in stores.items():
        found[name] = RunParity()
        for line in store.latest():
            found[name].add(line["episode"])
        if not found[name].graded:
            raise UsageError(
                f"{store.folder} has no verdict of the public benchmark:"
                f" make a run that has with `rcb grade {store.folder} --official`"
            )
    return Parity(found)


def reason(episode: Mapping[str, Any]) -> str:
    """Why the two verdicts on a stored episode differ."""
    verdict = episode["verdict"]
    if episode["status"] == "passed":
        ended = str(verdict.get("official_end") or "unknown")
        if ended.startswith("it printed"):
            return f"the output holds one of the four words: {ended}"
        if ended in ("time", "memory"):
            return f"the official run ended by its {ended} limit"
        return f"our tests pass, and the official run ended with {ended}: its inputs are not seeded, or it tests more"
    if episode["status"] in _STATUS_REASONS:
        return _STATUS_REASONS[episode["status"]]
    outcomes = Counter(case.get("outcome") for case in verdict.get("cases") or ())
    if outcomes["not_run"]:
        return "tests were skipped or did not run, and the script still ended with 0"
    kind = class_of(str(episode["status"]), verdict)
    if verdict.get("evidence") == "split":
        return f"what the suite compares is not the reference's ({kind}), and its own check lets it through"
    return (
        f"a test failed in our run ({kind}) and not in the official one: its inputs are not seeded"
    )


def _count(part: Mapping[str, list[str]]) -> str:
    return str(sum(map(len, part.values())))
