"""Which words are looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

import numpy as np


def build_vocabulary(
    human: Sequence[Sequence[str]],
    machine: Sequence[Sequence[str]],
    min_sentences: int = 5,
    max_words: int | None = None,
    exclude: Set[str] = frozenset(),
) -> list[str]:
    """The words that both corpora know well enough, in alphabetical order.

    Args:
        human, machine: sentences, each a list of words.
        min_sentences: a word must occur in so many sentences of each corpus.
        max_words: keep at most so many words, those that occur in most sentences; None: all.
        exclude: words that are never looked at.

    Raises:
        ValueError: a corpus has no sentences, or ``min_sentences`` is less than 1.
    """
    # <paper2code name="vocabulary shared by both corpora">
    if not human or not machine or min_sentences < 1:
        raise ValueError("both corpora need sentences, and words have to occur")
    counts = [Counter(), Counter()]
    for counter, corpus in zip(counts, (human, machine)):
        for sentence in corpus:
            counter.update(set(sentence))
    known = [
        word
        for word, count in counts[0].items()
        if min(count, counts[1][word]) >= min_sentences and word not in exclude
    ]
    known.sort(key=lambda word: (-counts[0][word] - counts[1][word], word))
    return sorted(known[:max_words])
    # </paper2code name="vocabulary shared by both corpora">


def excess_words(
    vocabulary: Sequence[str], before: np.ndarray, after: np.ndarray, top: int, rare: float = 0.0
) -> list[tuple[str, float]]:
    """The words whose use has grown most.

    Args:
        vocabulary: V words.
        before, after: (V,): occurrence probabilities in two corpora, all positive.
        top: how many words at most.
        rare: words with a probability below this in both corpora are left out.

    Returns:
        Words and the ratios of after to before (plain floats), the largest ratio first. Only words
        with a ratio above 1 are named; words with the same ratio in the order of the vocabulary.
    """
    ratios = after / before
    common = np.maximum(before, after) >= rare
    order = np.argsort(-ratios, kind="stable")
    ranked = [i for i in order if common[i] and ratios[i] > 1]
    return [(vocabulary[i], float(ratios[i])) for i in ranked[:top]]
