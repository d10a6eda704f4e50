"""Which challenges are meant: the settings of environments, adapters and commands, their check, and the draw.

The same settings and the same generator give the same challenge, on every machine: candidates stand
in the order of the data set.
Not covered: when a challenge is drawn (`rcb_env.env.environment`, at every reset).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from rcb_env.dataset.difficulty import BY_LINES, difficulties
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.splits import SPLITS, numbers_of, papers_of
from rcb_env.dataset.variant_names import published, variant_of
from rcb_env.errors import UsageError, unknown


@dataclass(frozen=True)
class Selection:
    """Settings that choose challenges; what is None does not restrict.

    Attributes:
        challenge: this one and no other.
        challenges: among these ids.
        papers: of these papers.
        min_lines: of at least so many lines of code.
        max_lines: of at most so many lines of code.
        split: of the papers of this split: "train", "validation" or "test".
        difficulty: between these two, both from 0 to 1.
        difficulty_by: "lines", or a file of `rcb items --csv`; what difficulty means.
        variants: these numbers of variants, of papers that declare any, or the name of a split whose numbers are meant; None: the papers
            as published. With `split`, only its numbers.
    """

    challenge: str | None = None
    challenges: tuple[str, ...] | None = None
    papers: tuple[str, ...] | None = None
    min_lines: int | None = None
    max_lines: int | None = None
    split: str | None = None
    difficulty: tuple[float, float] | None = None
    difficulty_by: str | None = None
    variants: Sequence[int] | str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Selection:
        """Settings as a user writes them: a name or a list of names, numbers, None.

        Raises:
            UsageError: a setting is unknown or has no such value, or ``challenge`` is not alone.
        """
        values: dict[str, Any] = {}
        for key, value in settings.items():
            if key not in OPTIONS:
                raise unknown("option", str(key), OPTIONS)
            if value is None:
                continue
            if key in ("challenges", "papers"):
                values[key] = _names(key, value)
            elif key in ("challenge", "split", "difficulty_by"):
                if not isinstance(value, str):
                    raise UsageError(f"{key} is {value!r}; it must be {_TEXTS[key]}")
                values[key] = value
            elif key == "difficulty":
                values[key] = _bounds(value)
            elif key == "variants":
                values[key] = _numbers(value)
            elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UsageError(f"{key} is {value!r}; it must be an integer of at least 0")
            else:
                values[key] = int(value)
        if "difficulty_by" in values and "difficulty" not in values:
            raise UsageError("difficulty_by says what difficulty means: give difficulty as well")
        others = [key for key in values if key not in ("challenge", "variants")]
        if "challenge" in values and others:
            raise UsageError(f"challenge names one challenge; leave out {others[0]}, or challenge")
        named = [values.get("challenge"), *values.get("challenges", ()), *values.get("papers", ())]
        if "variants" in values and (one := next((n for n in named if n and variant_of(n)), None)):
            raise UsageError(f"{one} names a variant; leave out variants, or ~{variant_of(one)}")
        return cls(**values)

    def changed(self, options: Mapping[str, Any]) -> Selection:
        """These settings with others for one episode.

        A ``challenge`` among the options takes the place of everything; other options take the
        place of a fixed challenge and of the setting of the same name.

        Raises:
            UsageError: as `of`.
        """
        if options.get("challenge") is not None:
            return Selection.of(options)
        kept = {**dataclasses.asdict(self), "challenge": None}
        return Selection.of({**kept, **options})

    def among(self, dataset: Dataset) -> tuple[Challenge, ...]:
        """The challenges that fit, in the order of the data set; of several variants one after the other.

        Raises:
            UsageError: a name is unknown, or nothing fits.
            PaperError: the data set's file of splits is broken, or a paper's file of knobs.
        """
        found, numbers = self.before_variants(dataset), self.numbers(dataset)
        if numbers is None:
            return found
        return tuple(dataset.variant(one, number) for number in numbers for one in found)

    def numbers(self, dataset: Dataset) -> Sequence[int] | None:
        """The numbers of variants that are meant; None: nothing is said of variants.

        Raises:
            UsageError: none is of the split.
            PaperError: the data set's file of splits is broken.
        """
        if self.variants is None:
            return None
        if isinstance(self.variants, str):
            numbers = numbers_of(dataset, self.variants)
            if numbers is None:
                raise UsageError(f"the splits of the data set {dataset.name} say no variants")
            return numbers
        allowed = numbers_of(dataset, self.split) if self.split is not None else None
        found = [n for n in self.variants if n in allowed] if allowed else self.variants
        if not found and allowed:
            said = f"{allowed.start}-{allowed.stop - 1}"
            raise UsageError(f"no selected variant is of the split {self.split}: {said}")
        return found

    def holding(self, dataset: Dataset) -> Callable[[str], bool]:
        """Whether the challenge of an id, also of a variant, is among those that fit; where nothing is said of variants, all of them.

        Of a split, what is of its papers and of no other split's variants.

        Raises:
            UsageError, PaperError: as `among`.
        """
        ids = {one.id for one in self.before_variants(dataset)}
        numbers = self.numbers(dataset)
        if numbers is None and self.split is not None:
            allowed = numbers_of(dataset, self.split)
            numbers = None if allowed is None else [0, *allowed]
        held = None if numbers is None else frozenset(numbers)

        def holds(id: str) -> bool:
            if held is not None and variant_of(id) not in held:
                return False
            return id in ids or published(id) in ids

        return holds

    def before_variants(self, dataset: Dataset) -> tuple[Challenge, ...]:
        """The challenges that fit, as published; of papers that declare variants, if some are asked for.

        Raises:
            UsageError: a name is unknown, or nothing fits.
            PaperError: the data set's file of splits is broken.
        """
        found = self._published(dataset)
        numbers = self.numbers(dataset)
        if numbers is None or all(number == 0 for number in numbers):
            return found
        varied = tuple(one for one in found if one.paper.variants is not None)
        if not varied:
            papers = ", ".join(dict.fromkeys(one.paper.id for one in found))
            raise UsageError(f"no selected paper declares variants: {papers}")
        return varied

    def _published(self, dataset: Dataset) -> tuple[Challenge, ...]:
        if self.challenge is not None:
            return (dataset.challenge(self.challenge),)
        found = dataset.select(papers=self.papers, challenges=self.challenges)
        if self.split is not None:
            papers = papers_of(dataset, self.split)
            found = tuple(one for one in found if one.paper.id in papers)
            if not found:
                raise UsageError(
                    f"no selected challenge is of the split {self.split}: {', '.join(papers)}"
                )
        if self.difficulty is not None:
            known = difficulties(dataset, self.difficulty_by or BY_LINES)
            least, most = self.difficulty
            found = tuple(one for one in found if least <= known.get(one.id, -1) <= most)
            if not found:
                by = self.difficulty_by or BY_LINES
                raise UsageError(
                    f"no selected challenge has a difficulty from {least} to {most} by {by}"
                )
        found = tuple(
            one
            for one in found
            if (self.min_lines is None or one.lines >= self.min_lines)
            and (self.max_lines is None or one.lines <= self.max_lines)
        )
        if not found:
            raise UsageError(
                f"no selected challenge has {_range(self.min_lines, self.max_lines)} lines of code;"
                " `rcb list challenges` shows how many each has"
            )
        return found


_TEXTS = {
    "challenge": "an id such as DyT/forward",
    "split": "train, validation or test",
    "difficulty_by": "lines, or a file of `rcb items --csv`",
}
_MOST = 1_000_000  # numbers of variants at once
OPTIONS: tuple[str, ...] = tuple(each.name for each in dataclasses.fields(Selection))
"""What `reset` takes as options, and `gymnasium.make` as settings."""


def draw(candidates: tuple[Challenge, ...], generator: np.random.Generator) -> Challenge:
    """One of them, each with the same chance; where there is one only, nothing is drawn."""
    return candidates[0 if len(candidates) == 1 else int(generator.integers(len(candidates)))]


def _names(key: str, value: object) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, Iterable) and not isinstance(names, Mapping):
        listed = tuple(names)
        if listed and all(isinstance(name, str) for name in listed):
            return listed
    raise UsageError(f"{key} is {value!r}; it must be a name or a list of names, not empty")


def _bounds(value: object) -> tuple[float, float]:
    if isinstance(value, list | tuple) and len(value) == 2:
        least, most = value
        if (
            all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
            and 0 <= least <= most <= 1
        ):
            return float(least), float(most)
    raise UsageError(
        f"difficulty is {value!r}; it must be two numbers from 0 to 1, the smaller first"
    )


def _numbers(value: object) -> Sequence[int] | str:
    """Numbers of variants: one, several, a span such as ``0-31``, or the name of a split."""
    if isinstance(value, str):
        if value in SPLITS:
            return value
        parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in value.split(",")]
        spans = [range(int(one[1]), int(one[2] or one[1]) + 1) for one in parts if one]
        value = None if None in parts else spans[0] if len(spans) == 1 else [*chain(*spans)]
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    if isinstance(value, Sequence) and 0 < len(value) <= _MOST:
        kept = value if isinstance(value, range) else tuple(dict.fromkeys(value))
        if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in kept):
            return kept
    raise UsageError(
        f"variants is {value!r:.60}; it must be a number, several, a span such as 0-31, or a split:"
        f" {', '.join(SPLITS)}"
    )


def _range(least: int | None, most: int | None) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"
