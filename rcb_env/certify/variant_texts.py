"""What can be said of a paper's variants without running code.

Points: how many knobs there are; the text and the code say what was chosen, and none of the words by which the knobs know
another choice; the code is Python; no answer stands where an agent sees it.
Guarantees: nothing is written.
Not covered: what takes runs (variants.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rcb_env.certify.points import leaks
from rcb_env.dataset.knobs import NAMES, Choices, Knob, Knobs
from rcb_env.dataset.papers import Challenge, Paper

LEAST_KNOBS, LEAST_SEMANTIC = 5, 3


@dataclass(frozen=True)
class Setting:
    """Choices that are looked at together.

    Attributes:
        name: how messages call it: ``variance=sample``, or the id of a variant.
        knob: the only one that is not as published; None: several are.
        paper: the variant.
    """

    name: str
    knob: Knob | None
    choices: Choices
    paper: Paper

    @property
    def is_combination(self) -> bool:
        """Whether several knobs may be other than published, as in a drawn variant."""
        return self.knob is None and self.name != NAMES

    def touched(self, paper: Paper) -> list[tuple[Challenge, Challenge]]:
        """Regions whose code is not the published one, as published and here."""
        pairs = zip(paper.challenges, self.paper.challenges, strict=True)
        return [(old, new) for old, new in pairs if old.reference != new.reference]


def settings(paper: Paper, knobs: Knobs, numbers: Iterable[int]) -> list[Setting]:
    """Every choice of every knob alone, all names otherwise, and the variants of these numbers.

    Raises:
        PaperError: with some choices the files are no paper.
    """
    variants = paper.variants
    assert variants is not None
    asked: list[tuple[str, Knob | None, Choices]] = [
        (f"{knob.name}={choice}", knob, {knob.name: choice})
        for knob in knobs.knobs
        for choice in [*knob.choices][1:]
    ]
    if knobs.names:
        asked.append((NAMES, None, {name: others[0] for name, others in knobs.names.items()}))
    made = [
        Setting(name, knob, choices, variants.chosen(paper, choices, f"{paper.id}~{name}"))
        for name, knob, choices in asked
    ]
    for number in numbers:
        variant = variants.of(paper, number)
        made.append(Setting(variant.id, None, knobs.chosen(paper.id, number), variant))
    return made


def in_sight(paper: Paper) -> str:
    """All that an agent may see of a paper, in small letters and with single spaces."""
    shown = [paper.text, *(data.decode("utf-8", "replace") for data in paper.visible.values())]
    return " ".join("\n".join(shown).lower().split())


def problems_of_text(knobs: Knobs, one: Setting) -> Iterator[str]:
    """What can be said of a variant without running it."""
    seen = in_sight(one.paper)
    for knob in knobs.knobs:
        chosen = one.choices.get(knob.name, knob.published)
        for choice in knob.choices:
            for words in knob.traces(choice):
                there = " ".join(words.lower().split()) in seen
                if there and choice != chosen:
                    yield f"{words!r} is still in sight, which tells of {knob.name}={choice}"
                if not there and choice == chosen and (one.knob is knob):
                    yield f"{words!r} is not in sight, which ought to tell of {knob.name}={choice}"
    for path, data in {**one.paper.files, **one.paper.tests}.items():
        if not path.endswith(".py"):
            continue
        try:
            ast.parse(data)
        except (SyntaxError, ValueError) as error:
            yield f"{path} is no Python any more: {error}"
    yield from (problem.message for each in one.paper.challenges for problem in leaks(each))


def problems_of_knobs(paper: Paper, knobs: Knobs) -> Iterator[tuple[str, str]]:
    """What is wrong with the knobs of a paper as they are declared, each with its knob."""
    semantic = [knob for knob in knobs.knobs if knob.semantic]
    count = len(knobs.knobs) + bool(knobs.names)
    if count < LEAST_KNOBS or len(semantic) < LEAST_SEMANTIC:
        yield (
            "",
            f"there are {count} knobs, {len(semantic)} of them semantic;"
            f" at least {LEAST_KNOBS} and {LEAST_SEMANTIC} are needed",
        )
    published = in_sight(paper)
    for knob in knobs.knobs:
        if knob.semantic and not knob.traces(knob.published):
            yield knob.name, f"no words are stated that give {knob.published!r} away"
        for words in knob.traces(knob.published):
            if " ".join(words.lower().split()) not in published:
                yield knob.name, f"{words!r} is not in sight in the published paper"
