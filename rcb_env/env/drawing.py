"""Which challenges an environment draws from, out of which data set.

Guarantees: the same settings and the same generator give the same challenge (`rcb_env.dataset.selection`). A data set that
was given by name stays a name here, so that what is pickled carries one paper and not all of them. Of many variants one is made at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.scopes import Scope, in_scope, scope_of
from rcb_env.dataset.selection import Selection, draw


class Drawing:
    """The draw of a challenge.

    Args:
        dataset: "bundled", the path of a data set's folder, or a loaded data set.
        scope: "region", "file", "paper", "library" or "open"; None: as the id of the challenge or the data set's name says.
        selection: the settings that choose among its challenges.

    Raises:
        UsageError: a setting makes no sense, or no challenge fits.
    """

    def __init__(
        self, dataset: str | Path | Dataset, *, scope: Scope | None = None, **selection: Any
    ) -> None:
        named = scope_of(str(selection.get("challenge")))
        if scope is None and named != "region":
            scope = named
        if not isinstance(dataset, Dataset):
            dataset = in_scope(str(dataset), scope)
        self._dataset = dataset
        self._selection = Selection.of(selection)
        self._candidates = self._selection.before_variants(self._all())
        self._numbers = self._selection.numbers(self._all())

    @property
    def fixed(self) -> str | None:
        """The one challenge that the settings name, in no more than one variant."""
        return self.only.id if self._selection.challenge is not None and self.only else None

    @property
    def only(self) -> Challenge | None:
        """The one challenge there is."""
        if len(self._candidates) > 1 or (self._numbers is not None and len(self._numbers) > 1):
            return None
        return self._varied(self._candidates[0], self._numbers, None)

    def draw(self, options: Mapping[str, Any] | None, generator: np.random.Generator) -> Challenge:
        """One of the challenges.

        Args:
            options: settings of this draw only.
            generator: draws.

        Raises:
            UsageError: an option is unknown, or no challenge fits.
        """
        candidates, numbers = self._candidates, self._numbers
        if options:
            changed = self._selection.changed(options)
            candidates = changed.before_variants(self._all())
            numbers = changed.numbers(self._all())
        return self._varied(draw(candidates, generator), numbers, generator)

    def _varied(
        self,
        challenge: Challenge,
        numbers: Sequence[int] | None,
        generator: np.random.Generator | None,
    ) -> Challenge:
        """A challenge in one of these variants, which is drawn after it."""
        if numbers is None:
            return challenge
        several = generator is not None and len(numbers) > 1
        place = int(generator.integers(len(numbers))) if several and generator else 0
        return self._all().variant(challenge, numbers[place])

    def challenge(self, name: str) -> Challenge:
        """Any challenge of the data set.

        Raises:
            UsageError: there is none of this id.
        """
        return self._all().challenge(name)

    def _all(self) -> Dataset:
        return self._dataset if isinstance(self._dataset, Dataset) else _loaded(self._dataset)


@functools.lru_cache(maxsize=8)
def _loaded(dataset: str) -> Dataset:
    return load_dataset(dataset)
