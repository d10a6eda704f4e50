"""How varied a set of generated texts is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple


class Diversity(NamedTuple):
    """Both are between 0 (all the same) and 1.

    Attributes:
        within: how little a text repeats itself, mean over texts.
        between: how little two texts have in common, mean over pairs.
    """

    within: float
    between: float


def diversity(samples: Sequence[Sequence[int]], orders: Sequence[int] = (2, 3, 4)) -> Diversity:
    """N-gram diversity of several continuations of one prompt.

    Args:
        samples: the new tokens of each text.
        orders: the lengths n of the n-grams.

    Raises:
        ValueError: there are no samples.
    """
    # <paper2code name="repetition within and overlap between samples">
    if not samples:
        raise ValueError("diversity needs at least one sample")
    varieties, bags = [], []
    for sample in samples:
        variety, bag = 1.0, set()
        for n in orders:
            grams = [tuple(sample[i : i + n]) for i in range(len(sample) - n + 1)]
            bag.update(grams)
            if grams:
                variety *= len(set(grams)) / len(grams)
        varieties.append(variety)
        bags.append(bag)
    distances = [1 - len(a & b) / len(a | b) for a, b in combinations(bags, 2) if a | b]
    return Diversity(fmean(varieties), fmean(distances) if distances else 0.0)
    # </paper2code name="repetition within and overlap between samples">
