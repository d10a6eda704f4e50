"""Which papers use LLMs more: those of frequent authors, of crowded fields, short ones?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixture import estimate_alpha


class Contrast(NamedTuple):
    """The shares of two halves of the papers; None for a half without sentences."""

    lower: float | None
    upper: float | None


def nearest_peer(embeddings: np.ndarray) -> np.ndarray:
    """Distance (n,) of each paper to the most similar other one: small in a crowded field.

    Args:
        embeddings: (n, d): of the abstracts, none of them zero; n >= 2.

    Returns:
        1 - cosine similarity to the most similar other paper. Papers with the same embedding are
        different papers.

    Raises:
        ValueError: there are fewer than two papers, or an embedding is zero.
    """
    # <paper2code name="distance to the nearest peer">
    length = np.sqrt(np.square(embeddings) @ np.ones(embeddings.shape[-1]))
    if len(embeddings) < 2 or not length.all():
        raise ValueError("two papers at least, and no embedding of zero")
    unit = embeddings / length[:, None]
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return 1 - np.array([row.max() for row in similarity])
    # </paper2code name="distance to the nearest peer">


def contrast_halves(
    values: np.ndarray, papers: np.ndarray, log_p: np.ndarray, log_q: np.ndarray
) -> Contrast:
    """Split the papers at the median of a quantity, and estimate the share in both halves.

    Args:
        values: (G,): the quantity, one for each paper; NaN where it is not known.
        papers: (n,): index into ``values`` for each sentence.
        log_p, log_q: (n,): log-likelihoods of the sentences.

    Returns:
        Of the papers strictly below the median, and of the others. The median is that of the known
        values, one per paper; sentences of papers without a known value are left out.
    """
    # <paper2code name="split at the median paper">
    known = ~np.isnan(values)
    if not known.any():
        return Contrast(None, None)
    below = values < np.median(values[known])
    halves = [known & below, known & ~below]
    chosen = [half[papers] for half in halves]
    return Contrast(*(estimate_alpha(log_p[c], log_q[c]) if c.any() else None for c in chosen))
    # </paper2code name="split at the median paper">
