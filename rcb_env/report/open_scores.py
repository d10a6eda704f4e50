"""The scores of a run's open challenges, and how they rose with test runs, tokens and money.

A score stands beside pass rates and never enters them. In a mean each challenge counts the same, and an answer that failed, or
did worse than the baseline, counts as the baseline: it is there for anybody to hand in (`grading.verdict.Score.counted`).
The curve is of feedback: the best score that `run_tests` had told an episode by its k-th run. An episode that stopped earlier stays
where it was. Its money is told by episode; that of a step is taken as its share of the tokens.
Not covered: pass rates (`scoring.py`), the score of single problems (in each episode's verdict).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rcb_env.grading.verdict import Score
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import RunStore


@dataclass(frozen=True)
class ChallengeScore:
    """The scores of one open challenge in a run: means over its episodes.

    Attributes:
        episodes: those that ended with an answer.
        scored: how many of them did not fail.
        counted: what enters the run's mean.
        value, se: of those that did not fail; se is the largest of theirs.
    """

    challenge: str
    episodes: int
    scored: int
    counted: float
    baseline: float
    value: float | None
    se: float | None


@dataclass(frozen=True)
class Point:
    """A point of the curve: means over episodes."""

    test_runs: int
    score: float
    tokens: float
    cost_usd: float | None


@dataclass(frozen=True)
class OpenScores:
    """All that is said of a run's open challenges.

    Attributes:
        mean: over challenges, of what counts.
        se: its standard error over challenges; None of a single one.
    """

    mean: float
    se: float | None
    challenges: tuple[ChallengeScore, ...]
    curve: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def open_scores(store: RunStore) -> OpenScores | None:
    """The scores of a run; None where it has no open challenge that was answered."""
    found: dict[str, list[Score]] = {}
    climbs: list[list[Point]] = []
    for line in store.latest():
        episode = line["episode"]
        told = (episode.get("verdict") or {}).get("score")
        if not told:
            continue
        score = Score.from_dict(told)
        found.setdefault(str(episode["challenge"]), []).append(score)
        climbs.append(list(_climb(store, line, score.baseline)))
    if not found:
        return None
    challenges = tuple(_of_challenge(name, scores) for name, scores in found.items())
    counted = [one.counted for one in challenges]
    se = statistics.stdev(counted) / math.sqrt(len(counted)) if len(counted) > 1 else None
    return OpenScores(statistics.fmean(counted), se, challenges, tuple(_curve(climbs)))


def _of_challenge(name: str, scores: Sequence[Score]) -> ChallengeScore:
    values = [score.value for score in scores if score.value is not None]
    errors = [score.se for score in scores if score.se is not None]
    return ChallengeScore(
        name,
        episodes=len(scores),
        scored=len(values),
        counted=statistics.fmean(score.counted for score in scores),
        baseline=statistics.fmean(score.baseline for score in scores),
        value=statistics.fmean(values) if values else None,
        se=max(errors, default=None),
    )


def _climb(store: RunStore, line: Mapping[str, Any], baseline: float) -> Iterator[Point]:
    """The best score so far after each test run of an episode, from none on."""
    usage = line["episode"].get("usage") or {}
    all_tokens = sum(usage.get(f"{kind}_tokens") or 0 for kind in ("prompt", "completion"))
    cost = usage.get("cost_usd")
    best, tokens, runs = baseline, 0, 0
    yield Point(0, best, 0.0, None if cost is None else 0.0)
    path = store.trajectory_of(line)
    for record in JsonLines(path).read(lambda _problem: None) if path.is_file() else ():
        if record.get("kind") != "step":
            continue
        tokens += int(record.get("tokens") or 0)
        told = (record.get("tests") or {}).get("score")
        if told is None:
            continue
        runs += 1
        best = max(best, told.get("value", best))
        share = min(1.0, tokens / all_tokens) if all_tokens else 0.0
        yield Point(runs, best, float(tokens), None if cost is None else cost * share)


def _curve(climbs: Sequence[Sequence[Point]]) -> Iterator[Point]:
    for runs in range(max(map(len, climbs))):
        at = [climb[min(runs, len(climb) - 1)] for climb in climbs]
        costs = [point.cost_usd for point in at if point.cost_usd is not None]
        yield Point(
            runs,
            statistics.fmean(point.score for point in at),
            statistics.fmean(point.tokens for point in at),
            statistics.fmean(costs) if len(costs) == len(at) else None,
        )
