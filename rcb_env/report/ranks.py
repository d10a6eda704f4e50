"""Ranks with their uncertainty: where each of some agents would stand on other papers like these.

Papers are drawn again with replacement, 10,000 times and with the same papers for all agents, so that a hard paper is hard for
all of them. An agent's interval holds the middle 95 % of its ranks. The draws have a fixed seed: equal input, equal ranks.

Guarantees: an interval holds the rank. Equal rates share the better rank. None with fewer than two papers.
Not covered: whether one agent is better than another, which `rcb_env.report.pairing` says.
Source: Goldstein and Spiegelhalter 1996, "League tables and their limitations", section 4, there by simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rcb_env.report.intervals import Floats
from rcb_env.report.scoring import PASSED, Planned, grouped

By = Literal["scaled", "plain"]
DRAWS = 10_000
_SEED = 20250601


@dataclass(frozen=True)
class Rank:
    """A place in a table, 1 for the best."""

    place: int
    low: int | None
    """The best of its likely places; None: fewer than two papers."""
    high: int | None


def ranks(
    runs: Mapping[str, Sequence[Planned]], *, by: By = "scaled", level: float = 0.95
) -> dict[str, Rank]:
    """Ranks of agents that have the same challenges planned.

    Args:
        runs: what each agent planned, with its states; a challenge counts by the share of its samples that passed.
        by: whether a challenge weighs its lines of code, or 1.
        level: of the intervals.

    Raises:
        ValueError: they have not the same challenges.
    """
    if not runs:
        return {}
    per_run = {name: grouped(rows, lambda row: row.challenge) for name, rows in runs.items()}
    first = next(iter(per_run.values()))
    if any(groups.keys() != first.keys() for groups in per_run.values()):
        raise ValueError("agents can be ranked on the same challenges only")
    papers = grouped(first, lambda challenge: first[challenge][0].paper)
    weight = {name: float(rows[0].lines) if by == "scaled" else 1.0 for name, rows in first.items()}
    whole = np.array([sum(weight[c] for c in group) for group in papers.values()])
    part = np.array(
        [
            [sum(weight[c] * _share(groups[c]) for c in group) for group in papers.values()]
            for groups in per_run.values()
        ]
    )
    places = _places(part, whole, np.ones((1, len(papers))))[0]
    if len(papers) < 2 or not whole.sum():
        return {
            name: Rank(int(place), None, None) for name, place in zip(runs, places, strict=True)
        }
    draws = np.random.default_rng(_SEED).multinomial(
        len(papers), np.full(len(papers), 1 / len(papers)), size=DRAWS
    )
    drawn = _places(part, whole, draws.astype(np.float64))
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0, method="nearest")
    return {
        name: Rank(int(place), min(int(place), int(best)), max(int(place), int(worst)))
        for name, place, best, worst in zip(runs, places, low, high, strict=True)
    }


def _places(part: Floats, whole: Floats, times: Floats) -> Floats:
    """Ranks of all agents for each draw of papers; papers without lines weigh nothing."""
    rates = np.round(times @ part.T / np.maximum(times @ whole, 1e-12)[:, None], 9)
    return np.array([1 + (row[None, :] > row[:, None]).sum(axis=1) for row in rates])


def _share(rows: Sequence[Planned]) -> float:
    return sum(row.status == PASSED for row in rows) / len(rows)
