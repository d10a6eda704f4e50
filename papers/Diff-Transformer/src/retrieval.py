"""Multi-needle retrieval: facts hidden in a long text, some of which are asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

MARK, ASK = 0, 1  # tokens that nothing else uses


class Prompt(NamedTuple):
    """A text with needles.

    Attributes:
        tokens: of the whole text, the question included.
        answers: the values of the keys that are asked for.
        places: where the needles of the answers begin.
    """

    tokens: list[int]
    answers: list[int]
    places: list[int]


def hide_needles(
    haystack: Sequence[int],
    needles: Sequence[tuple[int, int]],
    depths: Sequence[float],
    asked: Sequence[int],
) -> Prompt:
    """Insert needles into a text and ask for some of them.

    Args:
        haystack: tokens.
        needles: pairs of a key and a value.
        depths: for each needle, where it goes: 0 is the start, 1 is the end.
        asked: keys.

    Raises:
        ValueError: there is not one depth per needle, a depth is not in [0, 1], a key occurs twice, or a key that is asked for does not occur.
    """
    # <paper2code name="needles in a haystack">
    values = dict(needles)
    if len(depths) != len(needles) or len(values) != len(needles):
        raise ValueError("every needle needs one depth and a key of its own")
    if not all(0.0 <= depth <= 1.0 for depth in depths) or not set(asked) <= set(values):
        raise ValueError("depths must be in [0, 1], and only known keys can be asked for")
    tokens: list[int] = []
    starts: dict[int, int] = {}
    used = 0
    # <paper2code name="insertion by depth">
    for depth, index in sorted(zip(depths, range(len(needles)))):
        cut = math.floor(depth * len(haystack))
        tokens.extend(haystack[used:cut])
        used = cut
        key, value = needles[index]
        starts[key] = len(tokens)
        tokens.extend([MARK, key, value])
    tokens.extend(haystack[used:])
    # </paper2code name="insertion by depth">
    tokens.extend([ASK, *asked])
    return Prompt(tokens, [values[key] for key in asked], [starts[key] for key in asked])
    # </paper2code name="needles in a haystack">
