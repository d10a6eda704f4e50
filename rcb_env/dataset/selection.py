"""Which challenges an environment draws from: the settings, their check, and the draw. Pure.

The same settings and the same generator give the same challenge, on every machine: candidates stand
in the order of the data set.
Not covered: when a challenge is drawn (`rcb_env.env.environment`, at every reset).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_env.dataset.papers import Challenge, Dataset
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
    """

    challenge: str | None = None
    challenges: tuple[str, ...] | None = None
    papers: tuple[str, ...] | None = None
    min_lines: int | None = None
    max_lines: int | None = None

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
            elif key == "challenge":
                if not isinstance(value, str):
                    raise UsageError(
                        f"challenge is {value!r}; it must be an id such as DyT/forward"
                    )
                values[key] = value
            elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UsageError(f"{key} is {value!r}; it must be an integer of at least 0")
            else:
                values[key] = int(value)
        if "challenge" in values and len(values) > 1:
            other = next(key for key in values if key != "challenge")
            raise UsageError(f"challenge names one challenge; leave out {other}, or challenge")
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
        """The challenges that fit, in the order of the data set.

        Raises:
            UsageError: a name is unknown, or nothing fits.
        """
        if self.challenge is not None:
            return (dataset.challenge(self.challenge),)
        found = tuple(
            one
            for one in dataset.select(papers=self.papers, challenges=self.challenges)
            if (self.min_lines is None or one.lines >= self.min_lines)
            and (self.max_lines is None or one.lines <= self.max_lines)
        )
        if not found:
            raise UsageError(
                f"no selected challenge has {_range(self.min_lines, self.max_lines)} lines of code;"
                " `rcb list challenges` shows how many each has"
            )
        return found


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


def _range(least: int | None, most: int | None) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"
