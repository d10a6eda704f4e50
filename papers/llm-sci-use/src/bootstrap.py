"""How sure an estimated share is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixture import estimate_alpha


class Interval(NamedTuple):
    """An estimate and its confidence interval, plain floats."""

    alpha: float
    low: float
    high: float


def bootstrap_interval(
    log_p: np.ndarray,
    log_q: np.ndarray,
    papers: np.ndarray,
    draws: np.ndarray,
    level: float = 0.95,
) -> Interval:
    """A percentile interval from resampled papers, not sentences: a paper's sentences belong together.

    Args:
        log_p, log_q: (n,): log-likelihoods of the sentences.
        papers: (n,), integers: which paper a sentence belongs to. Any numbers, in any order.
        draws: (R, G), integers: each row is one resample of the G different papers, given by their
            ranks: 0 is the paper with the least number.
        level: share of resampled estimates that lie in the interval.

    Raises:
        ValueError: ``level`` is not strictly between 0 and 1, there are no resamples, ``draws`` does
            not have one column for each paper, or a rank does not exist.
    """
    # <paper2code name="bootstrap over papers">
    names, rank = np.unique(papers, return_inverse=True)
    if not 0 < level < 1:
        raise ValueError(f"a level must be strictly between 0 and 1, not {level}")
    if draws.ndim != 2 or len(draws) == 0 or draws.shape[-1] != len(names):
        raise ValueError(f"{draws.shape} draws for {len(names)} papers")
    if not np.isin(draws, rank).all():
        raise ValueError("a paper that does not exist was drawn")
    estimates = []
    for drawn in draws:
        # <paper2code name="weights of a resample">
        times = np.bincount(drawn, minlength=len(names))  # (G,)
        weights = times[rank].astype(float)  # (n,)
        # </paper2code name="weights of a resample">
        estimates.append(estimate_alpha(log_p, log_q, weights))
    tail = (1 - level) / 2
    low, high = np.quantile(estimates, [tail, 1 - tail])
    return Interval(estimate_alpha(log_p, log_q), float(low), float(high))
    # </paper2code name="bootstrap over papers">
