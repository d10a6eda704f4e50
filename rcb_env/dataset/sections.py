"""The sections of a paper's text, ranked by what they say about a missing part.

Pure. Their concatenation is the text, byte for byte. Not covered: what of them fits into a prompt, which is an agent's.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

SHARE = 0.25  # of the paper's text, where sections only are shown
_HEADING = re.compile(r"^(?:#{1,6} |\\(?:sub)*section\*?\{)", re.MULTILINE)
_PARAGRAPHS_CHARS = (
    2_000  # a paper without headings is cut at blank lines, into parts of about this
)
_WORD = re.compile(r"[A-Za-z][A-Za-z]+")
_NEAR_CHARS = 1_500  # of the code before the missing part, in what the paper is searched for
_OMITTED = "[...]"


class Sections:
    """A paper's text in parts.

    Args:
        text: of the paper.
        hint: the short phrase that says what is missing, or "".
        before: the code before the missing part.
    """

    def __init__(self, text: str, hint: str, before: str) -> None:
        self.parts = split_sections(text.strip())
        self._looked_for = "\n".join([*[hint] * 3, before[-_NEAR_CHARS:]])

    @cached_property
    def ranked(self) -> list[int]:
        """The parts by index, the one that says most about the missing part first; the opening one always leads."""
        return rank(self.parts, self._looked_for)

    def best(self) -> list[int]:
        """The parts that are shown where sections only are, in the paper's order."""
        most_chars = sum(map(len, self.parts)) * SHARE
        kept: list[int] = []
        chars = 0
        for index in self.ranked:
            # The opening and the best one always; further ones while they fit.
            if len(kept) < 2 or chars + len(self.parts[index]) <= most_chars:
                kept.append(index)
                chars += len(self.parts[index])
        return sorted(kept)

    def joined(self, kept: Iterable[int]) -> str:
        """The parts that are kept, in the paper's order, with a mark where others were."""
        return join_sections(self.parts, list(kept))

    def title(self, index: int) -> str:
        """The first line of a part."""
        return self.parts[index].strip().split("\n", 1)[0][:80]


def split_sections(text: str) -> list[str]:
    """A text at its headings (Markdown or TeX); their concatenation is the text."""
    if not text:
        return []
    cuts = [found.start() for found in _HEADING.finditer(text)]
    if len(cuts) < 2:
        cuts, last = [], 0
        for blank in re.finditer(r"\n[ \t]*\n", text):
            if blank.end() - last >= _PARAGRAPHS_CHARS:
                cuts.append(blank.end())
                last = blank.end()
    edges = sorted({0, *cuts, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def rank(sections: Sequence[str], looked_for: str) -> list[int]:
    """Sections by how much they say about something, best first; the opening one always leads.

    A word counts the more, the fewer sections have it; long sections gain nothing by length.
    """
    words = [Counter(word.lower() for word in _WORD.findall(section)) for section in sections]
    having = Counter(word for counts in words for word in counts)
    wanted = Counter(word.lower() for word in _WORD.findall(looked_for))

    def score(counts: Counter[str]) -> float:
        total = sum(
            min(weight, 3) * (1 + math.log(counts[word])) * math.log(1 + len(words) / having[word])
            for word, weight in wanted.items()
            if counts[word]
        )
        return total / math.sqrt(10 + counts.total())

    order = sorted(range(1, len(sections)), key=lambda n: (-score(words[n]), n))
    return [0, *order] if sections else []


def join_sections(sections: Sequence[str], kept: Sequence[int]) -> str:
    """The sections that are kept, in the paper's order, with a mark where others were."""
    parts: list[str] = []
    before = -1
    for index in [*sorted(kept), len(sections)]:
        if index > before + 1 and kept:
            parts.append(f"{_OMITTED}\n\n")
        if index < len(sections):
            parts.append(sections[index])
        before = index
    return "".join(parts).strip()
