"""What an episode's page says of an answer to an open challenge: its score, and what each family of problems came to.

A problem that went worse than with the paper's own method is no failure, so it is not shown as one.
Not covered: means of a run (`rcb_env.report.open_scores`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rcb_env.grading.verdict import Score

_WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True)
class Family:
    """One family of problems.

    Attributes:
        mean: of what its problems add to the score.
        good: at how many of them the answer was at least as good as the paper's own method.
        problems: what is told of each, if anything.
    """

    name: str
    mean: float
    count: int
    good: int
    problems: Sequence[str]


def score_of(told: Mapping[str, Any]) -> Score | None:
    """The score of a verdict or of feedback; None: of a region, or it cannot be read."""
    try:
        score = Score.from_dict({"terms": {}, **told["score"]})
        _ = score.words
    except _WRONG:
        return None
    return score


def families(told: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> list[Family]:
    """Family by family; empty where the answer has no score.

    Args:
        told: a verdict, or feedback, which has only the mean of each family.
        cases: its test cases that can be read, one for each problem.
    """
    score = score_of(told)
    if score is None or score.value is None:
        return []
    try:
        means = {str(k): statistics.fmean(v) for k, v in score.terms.items() if v}
        means = means or {str(k): float(v) for k, v in told.get("terms", {}).items()}
    except _WRONG:
        return []
    found = []
    for name, mean in means.items():
        own = [case for case in cases if case.get("case") == name]
        problems = [case["message"] for case in own if isinstance(case.get("message"), str)]
        good = sum(case.get("outcome") == "passed" for case in own)
        found.append(
            Family(name, mean if math.isfinite(mean) else math.nan, len(own), good, problems)
        )
    return found


def faults(
    told: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The test cases to be shown as such: of an open challenge only the problem on which the answer failed."""
    if score_of(told) is None:
        return cases
    return [case for case in cases if case.get("outcome") == "error"]
