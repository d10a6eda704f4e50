"""The two reference distributions: how probable is a sentence if a human (or an LLM) wrote it?"""

from __future__ import annotations

import numpy as np


def occurrence_probabilities(found: np.ndarray, smoothing: float = 0.5) -> np.ndarray:
    """For each word the smoothed share of sentences that hold it.

    Args:
        found: (n, V) bool: which words occur in which sentences.
        smoothing: how many sentences with, and as many without the word are added in thought.

    Returns:
        (V,), float64, strictly between 0 and 1.

    Raises:
        ValueError: there are no sentences, or ``smoothing`` is not positive.
    """
    # <paper2code name="smoothed share of sentences">
    if len(found) == 0 or not smoothing > 0:
        raise ValueError("sentences and a positive smoothing are needed")
    return (found.sum(axis=0) + smoothing) / (len(found) + 2 * smoothing)
    # </paper2code name="smoothed share of sentences">


def sentence_log_likelihood(found: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """log P(x) of each sentence (n,) under independent occurrences of the words.

    Args:
        found: (n, V) bool.
        probabilities: (V,), strictly between 0 and 1.
    """
    # <paper2code name="independent occurrences">
    present = np.log(probabilities)
    absent = np.log1p(-probabilities)
    return found @ present + ~found @ absent
    # </paper2code name="independent occurrences">
