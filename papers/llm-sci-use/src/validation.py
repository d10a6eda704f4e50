"""Is the estimate right where the truth is known?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mixture import estimate_alpha
from occurrence import occurrence_probabilities, sentence_log_likelihood


class Validation(NamedTuple):
    """One corpus of known composition, plain floats."""

    truth: float
    estimate: float


def validate(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    shares: Sequence[float],
    size: int,
    rng: np.random.Generator,
    smoothing: float = 0.5,
) -> list[Validation]:
    """Mix corpora of given composition from sentences that the distributions were not made from.

    Args:
        train: occurrences (n, V) of human and of LLM sentences, for the two distributions.
        test: other such sentences, to mix the corpora from.
        shares: the wanted shares of LLM sentences, each in [0, 1].
        size: sentences in each corpus.
        rng: for each share in turn, first a permutation of the human test sentences is drawn, then
            one of the LLM's: ``rng.permutation(count)`` both times.
        smoothing: of the two distributions.

    Returns:
        For each share the true one (of the sentences that were taken) and the estimated one.

    Raises:
        ValueError: ``size`` is less than 1, a share is not in [0, 1], or there are fewer test
            sentences of one kind than needed.
    """
    # <paper2code name="validation with known shares">
    human, machine = (occurrence_probabilities(found, smoothing) for found in train)
    if size < 1 or not all(0 <= share <= 1 for share in shares):
        raise ValueError("a corpus needs sentences and a share in [0, 1]")
    results = []
    for share in shares:
        # <paper2code name="corpus of known composition">
        generated = math.floor(share * size + 0.5)
        wanted = (size - generated, generated)
        orders = [rng.permutation(len(found)) for found in test]
        if any(count > len(order) for count, order in zip(wanted, orders)):
            raise ValueError("not enough test sentences")
        mixed = np.concatenate(
            [found[order[:count]] for found, order, count in zip(test, orders, wanted)]
        )
        # </paper2code name="corpus of known composition">
        log_p = sentence_log_likelihood(mixed, human)
        log_q = sentence_log_likelihood(mixed, machine)
        results.append(Validation(generated / size, estimate_alpha(log_p, log_q)))
    return results
    # </paper2code name="validation with known shares">
