"""A corpus as a mixture of human and LLM sentences, and the share of the latter."""

from __future__ import annotations

import numpy as np


def mixture_log_likelihood(log_p: np.ndarray, log_q: np.ndarray, alpha: float) -> np.ndarray:
    """log((1 - alpha) P(x) + alpha Q(x)) of each sentence.

    Args:
        log_p, log_q: (n,): log-likelihoods under the human and the LLM distribution, any finite
            numbers, however small.
        alpha: share of LLM sentences.

    Raises:
        ValueError: ``alpha`` is not in [0, 1].
    """
    # <paper2code name="log-likelihood of the mixture">
    if not 0 <= alpha <= 1:
        raise ValueError(f"a share must be in [0, 1], not {alpha}")
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_p + np.log1p(-alpha), log_q + np.log(alpha))
    # </paper2code name="log-likelihood of the mixture">


def estimate_alpha(
    log_p: np.ndarray, log_q: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """The share of LLM sentences that maximises the weighted log-likelihood of the mixture.

    Args:
        log_p, log_q: (n,): any finite numbers, however small.
        weights: (n,): how often each sentence counts; None: once.

    Returns:
        A plain float in [0, 1], right to 1e-8; the least one if several are equally good. numpy
        does not warn on the way.

    Raises:
        ValueError: the arrays have different shapes or more than one dimension, a weight is
            negative or NaN, or the weights (the sentences, without weights) do not have a
            positive sum.
    """
    # <paper2code name="maximum-likelihood share">
    if weights is None:
        weights = np.ones(len(log_p))
    if not log_p.shape == log_q.shape == weights.shape == (log_p.size,):
        raise ValueError("one log-likelihood per sentence and distribution, and one weight")
    if not np.all(weights >= 0) or weights.sum() == 0:
        raise ValueError("weights must not be negative, and not all zero")

    # <paper2code name="slope of the log-likelihood">
    used = weights > 0
    weights, log_p, log_q = weights[used], log_p[used], log_q[used]
    top = np.maximum(log_p, log_q)
    human, machine = np.exp(log_p - top), np.exp(log_q - top)

    def slope(alpha: float) -> float:
        with np.errstate(divide="ignore"):
            mixed = (1 - alpha) * human + alpha * machine
            return float(weights @ ((machine - human) / mixed))

    # </paper2code name="slope of the log-likelihood">
    low, high = 0.0, 1.0
    if slope(low) <= 0:
        return low
    if slope(high) >= 0:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        if slope(middle) > 0:
            low = middle
        else:
            high = middle
    return low
    # </paper2code name="maximum-likelihood share">


def responsibilities(log_p: np.ndarray, log_q: np.ndarray, alpha: float) -> np.ndarray:
    """The probability of each sentence to be an LLM's, in a corpus with 0 < alpha < 1."""
    odds = np.log(alpha) - np.log1p(-alpha) + log_q - log_p
    return np.exp(-np.logaddexp(0.0, -odds))
