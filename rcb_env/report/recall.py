"""The recall gap of a run: how much more it solves of published papers than of their variants.

Who remembers the published code solves variant 0 and fails where another choice changed the answer; who reads solves both. Each
published challenge is paired with the variants of it that the run planned and whose right answer is another one; among these it
enters with the share that was solved. The difference has the interval of any paired one, over papers (`rcb_env.report.intervals`).
Guarantees: pure, and nothing random. What is open is no pass, and widens the bounds.
Not covered: answers that differ in names only count as other answers, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from rcb_env.dataset.variant_names import published, variant_of
from rcb_env.errors import UsageError
from rcb_env.report.comparison import Side
from rcb_env.report.pairing import compare
from rcb_env.report.scoring import Planned, Rate
from rcb_env.runs.store import RunStore


@dataclass(frozen=True)
class RecallGap:
    """Published against varied, in percent and percentage points."""

    run: str
    challenges: int
    """Published challenges that are paired with a variant."""
    papers: int
    variants: int
    """Challenges of variants with another answer."""
    same_answer: int
    """Challenges of variants that were left out because their answer is the published one."""
    published: float | None
    varied: float | None
    gap: Rate
    """Published minus varied."""
    p_value: float
    """Exact sign test over challenges: which of the two was solved more often."""

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)


def recall_gap(store: RunStore, name: str) -> RecallGap:
    """The recall gap of a run.

    Args:
        store: a run open for reading, which planned variant 0 and others.
        name: what to call it.

    Raises:
        StoreError: it cannot be read.
        UsageError: it did not plan both.
    """
    answers = {entry["challenge"]: entry.get("answer_hash", "") for entry in store.record["plan"]}
    return _gap(name, Side(store).outcomes(), answers)


def _gap(name: str, rows: Iterable[Planned], answers: Mapping[str, str]) -> RecallGap:
    first: dict[str, list[Planned]] = {}
    others: dict[str, list[Planned]] = {}
    same, counted = set[str](), set[str]()
    for row in rows:
        base = published(row.challenge)
        if not variant_of(row.challenge):
            first.setdefault(base, []).append(row)
        elif answers[row.challenge] and answers[row.challenge] == answers.get(base):
            same.add(row.challenge)
        else:
            counted.add(row.challenge)
            others.setdefault(base, []).append(row)
    common = [challenge for challenge in first if challenge in others]
    if not common:
        raise UsageError(
            f"{name} has no challenge both as published and in a variant with another answer: play both, as with --variant 0-8"
        )
    varied = [
        replace(row, challenge=base, sample=number, lines=first[base][0].lines, own_lines=None)
        for base in common
        for number, row in enumerate(others[base])
    ]
    plain = [replace(row, own_lines=None) for base in common for row in first[base]]
    found = compare(varied, plain)
    return RecallGap(
        run=name,
        challenges=len(common),
        papers=len({row.paper for row in plain}),
        variants=sum(published(one) in common for one in counted),
        same_answer=len(same),
        published=found.b,
        varied=found.a,
        gap=found.difference,
        p_value=found.p_value,
    )
