"""The share of LLM sentences month by month."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from mixture import estimate_alpha


class MonthEstimate(NamedTuple):
    """One month.

    Attributes:
        month: such as "2023-04".
        sentences: how many there are.
        alpha: the estimated share; None if there are too few sentences.
        excess: alpha minus the mean of the baseline; None where one of them is missing.
    """

    month: str
    sentences: int
    alpha: float | None
    excess: float | None


def monthly_trend(
    months: Sequence[str],
    log_p: np.ndarray,
    log_q: np.ndarray,
    release: str = "2022-11",
    min_sentences: int = 1,
) -> list[MonthEstimate]:
    """Independent estimates for every month from the first to the last, without gaps.

    Args:
        months: "YYYY-MM" of each sentence, in any order.
        log_p, log_q: (n,): log-likelihoods of the sentences.
        release: the months strictly before this one are the baseline.
        min_sentences: a month with fewer sentences is not estimated; nor is one without any.

    Raises:
        ValueError: the lengths differ.
    """
    # <paper2code name="trend over months">
    if not len(months) == len(log_p) == len(log_q):
        raise ValueError("one month per sentence")
    # <paper2code name="calendar without gaps">
    numbers = np.array([12 * int(m[:4]) + int(m[5:]) - 1 for m in months])
    calendar = range(numbers.min(), numbers.max() + 1) if months else []
    names = [f"{number // 12:04d}-{number % 12 + 1:02d}" for number in calendar]
    # </paper2code name="calendar without gaps">
    counts, shares = [], []
    for number in calendar:
        here = numbers == number
        counts.append(int(here.sum()))
        enough = counts[-1] >= max(min_sentences, 1)
        shares.append(estimate_alpha(log_p[here], log_q[here]) if enough else None)
    known = [s for name, s in zip(names, shares) if name < release and s is not None]
    base = fmean(known) if known else None
    return [
        MonthEstimate(name, count, s, None if s is None or base is None else s - base)
        for name, count, s in zip(names, counts, shares)
    ]
    # </paper2code name="trend over months">
