"""From text to sentences, and from sentences to words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")
END = re.compile(r"(?<=[.!?])\s+")


def sentences_of(text: str) -> list[list[str]]:
    """The sentences of a text as lists of lower-case words; sentences without words are dropped."""
    found = (WORD.findall(sentence.lower()) for sentence in END.split(text))
    return [sentence for sentence in found if sentence]


def occurrences(sentences: Sequence[Sequence[str]], vocabulary: Sequence[str]) -> np.ndarray:
    """Which words occur in which sentences: (n, V) bool; other words than these are ignored."""
    place = {word: column for column, word in enumerate(vocabulary)}
    found = np.zeros((len(sentences), len(vocabulary)), dtype=bool)
    for row, sentence in enumerate(sentences):
        found[row, [place[word] for word in sentence if word in place]] = True
    return found
