"""Challenges as the items of a test: how hard each one is, and whether it tells strong agents from weak ones.

The numbers are those of classical test theory (Lord and Novick 1968, "Statistical Theories of Mental Test Scores"):

- *difficulty*: the share of agents that solved a challenge; an agent with several samples counts by its share of them;
- *discrimination*: the correlation, over agents, of a challenge with the pass rate on all the other ones (the corrected
  item-rest correlation; with one sample it is point-biserial), with Fisher's interval for a correlation;
- *reliability*: Cronbach's alpha (with one sample KR-20), the share of the variance between agents that is not noise of the
  choice of challenges.

A rest is comparable only if it is over the same challenges for every agent. So it is over those that all agents have a
verdict for, without the challenge itself. What infrastructure lost says nothing about a challenge, and is left out.

Guarantees: pure, nothing random. A number that cannot be computed is None. No discrimination and no reliability is given for
fewer than `LEAST_AGENTS` agents: an interval would nearly always span everything.
Not covered: where agents' results come from (`rcb_env.report.item_sources`); models of latent ability (Rasch, 2PL), whose
estimates for a few dozen agents are no better than these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from rcb_env.errors import counted
from rcb_env.report.intervals import Floats

LEAST_AGENTS = 5
"""With fewer, no discrimination is given."""
LEAST_TO_SPLIT = 4
"""With fewer, agents are not divided into a stronger and a weaker half."""

NEGATIVE = "stronger agents fail it more"
WEAKER_ONLY = "only weaker agents solve it"
BELOW_ZERO = "below 0, perhaps by chance"
NOBODY = "nobody solves it"
EVERYBODY = "everybody solves it"
FINDINGS: Mapping[str, str] = {
    NEGATIVE: "discrimination is below 0 with its whole interval: look at the tests and at the text",
    WEAKER_ONLY: "none of the stronger half of the agents solved it; look whether those passes are luck",
    BELOW_ZERO: "discrimination is below 0, but its interval is not",
    NOBODY: "it tells no agents apart; it may ask for what nothing says",
    EVERYBODY: "it tells no agents apart",
}
"""What may be wrong with a challenge, the most suspicious first, and what it means."""
SAYS_NOTHING = (NOBODY, EVERYBODY)
"""Findings about challenges that divide no agents."""


@dataclass(frozen=True)
class Item:
    """One challenge."""

    challenge: str
    lines: int
    agents: int
    """How many have a verdict."""
    solved_by: int
    """How many of them passed at least one sample."""
    solved: float
    """Percent of the agents, each by its share of samples: the difficulty, where 0 is hardest."""
    discrimination: float | None
    """From -1 to 1; None: too few agents, or they do not differ here or on the rest."""
    low: float | None
    """Where the 95 % interval of the discrimination begins."""
    high: float | None
    finding: str | None
    """A key of `FINDINGS`."""


@dataclass(frozen=True)
class ItemAnalysis:
    """All challenges of some agents' results."""

    agents: Mapping[str, float | None]
    """Percent of the common challenges that each solved; None: there are none."""
    common: int
    """Challenges that every agent has a verdict for."""
    reliability: float | None
    items: tuple[Item, ...]
    """The suspicious ones first, then by rising discrimination; at the end those that divide no agents."""
    notes: tuple[str, ...]
    """What to know before quoting the numbers."""

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)


def analyse(
    shares: Mapping[str, Mapping[str, float]],
    lines: Mapping[str, int],
    notes: Sequence[str] = (),
) -> ItemAnalysis:
    """Analyse the challenges that some agents played.

    Args:
        shares: agent -> challenge -> share of the graded samples that passed; without what has no verdict.
        lines: challenge -> its lines, for every challenge there is.
        notes: what is known of the results already.

    Raises:
        ValueError: fewer than two agents.
    """
    if len(shares) < 2:
        raise ValueError("one agent alone tells nothing of what divides agents")
    common = [name for name in lines if all(name in solved for solved in shares.values())]
    totals = np.array([sum(solved[name] for name in common) for solved in shares.values()])
    items = [_item(name, lines[name], shares, totals, common) for name in lines]
    order = [NEGATIVE, WEAKER_ONLY, BELOW_ZERO, None, *SAYS_NOTHING]
    return ItemAnalysis(
        agents={
            agent: 100 * float(total) / len(common) if common else None
            for agent, total in zip(shares, totals, strict=True)
        },
        common=len(common),
        reliability=_alpha(
            np.array([[solved[name] for name in common] for solved in shares.values()])
        ),
        items=tuple(
            sorted(
                (item for item in items if item is not None),
                key=lambda item: (
                    order.index(item.finding),
                    2.0 if item.discrimination is None else item.discrimination,
                    item.solved,
                    item.challenge,
                ),
            )
        ),
        notes=(*notes, *_notes(shares, lines, common)),
    )


def _item(
    name: str,
    lines: int,
    shares: Mapping[str, Mapping[str, float]],
    totals: Floats,
    common: Sequence[str],
) -> Item | None:
    """One challenge; None: no agent has a verdict."""
    there = np.array([name in solved for solved in shares.values()])
    if not there.any():
        return None
    own = np.array([solved[name] for solved in shares.values() if name in solved])
    others = len(common) - (name in common)
    rest = (totals[there] - (own if name in common else 0.0)) / others if others else None
    correlation = None if rest is None else _correlation(own, rest)
    low, high = (None, None) if correlation is None else _fisher(correlation, len(own))
    return Item(
        challenge=name,
        lines=lines,
        agents=len(own),
        solved_by=int((own > 0).sum()),
        solved=100 * float(own.mean()),
        discrimination=correlation,
        low=low,
        high=high,
        finding=_finding(own, rest, correlation, high),
    )


def _finding(
    own: Floats, rest: Floats | None, correlation: float | None, high: float | None
) -> str | None:
    if np.all(own >= 1):
        return EVERYBODY
    if np.all(own <= 0):
        return NOBODY
    if high is not None and high < 0:
        return NEGATIVE
    if rest is not None and len(own) >= LEAST_TO_SPLIT:
        middle = float(np.median(rest))
        stronger, weaker = own[rest > middle], own[rest < middle]
        if len(stronger) and np.all(stronger <= 0) and np.any(weaker > 0):
            return WEAKER_ONLY
    return BELOW_ZERO if correlation is not None and correlation < 0 else None


def _correlation(own: Floats, rest: Floats) -> float | None:
    if len(own) < LEAST_AGENTS or np.ptp(own) < 1e-12 or np.ptp(rest) < 1e-12:
        return None
    found = float(np.corrcoef(own, rest)[0, 1])
    return min(1.0, max(-1.0, round(found, 12) + 0.0))  # what rounding leaves of 0 is not below it


def _fisher(correlation: float, agents: int, level: float = 0.95) -> tuple[float, float]:
    """Fisher's interval; a correlation of 1, which few agents reach by chance, is taken for a little less."""
    most = 1 - 1 / agents
    middle = math.atanh(min(max(correlation, -most), most))
    half = NormalDist().inv_cdf((1 + level) / 2) / math.sqrt(agents - 3)
    low, high = math.tanh(middle - half), math.tanh(middle + half)
    return min(low, correlation), max(high, correlation)


def _alpha(matrix: Floats) -> float | None:
    """Cronbach's alpha of results by agents and challenges."""
    agents, challenges = matrix.shape
    if agents < LEAST_AGENTS or challenges < 2:
        return None
    of_sum = float(matrix.sum(axis=1).var(ddof=1))
    if of_sum < 1e-12:
        return None
    of_each = float(matrix.var(axis=0, ddof=1).sum())
    return float(challenges / (challenges - 1) * (1 - of_each / of_sum))


def _notes(
    shares: Mapping[str, Mapping[str, float]], lines: Mapping[str, int], common: Sequence[str]
) -> list[str]:
    found = []
    if len(shares) < LEAST_AGENTS:
        found.append(
            f"{len(shares)} agents are too few to say which challenges tell strong from weak: that needs {LEAST_AGENTS}"
        )
    if not common:
        found.append(
            "no challenge has a verdict of every agent, so agents cannot be ordered: no discrimination"
        )
    elif len(common) < len(lines):
        found.append(
            f"agents are ordered by the {counted(len(common), 'challenge')} that all of them have a verdict for,"
            f" of {len(lines)}"
        )
    unseen = sum(not any(name in solved for solved in shares.values()) for name in lines)
    if unseen:
        found.append(f"{counted(unseen, 'challenge')} without any verdict are not listed")
    return found
