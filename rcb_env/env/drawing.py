"""Which challenges an environment draws from, out of which data set.

Guarantees: the same settings and the same generator give the same challenge (`rcb_env.dataset.selection`). A data set that
was given by name stays a name here, so that what is pickled carries one paper and not all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
        self._candidates = self._selection.among(self._all())

    @property
    def fixed(self) -> str | None:
        """The one challenge that the settings name."""
        return self._selection.challenge

    @property
    def only(self) -> Challenge | None:
        """The one challenge there is."""
        return self._candidates[0] if len(self._candidates) == 1 else None

    def draw(self, options: Mapping[str, Any] | None, generator: np.random.Generator) -> Challenge:
        """One of the challenges.

        Args:
            options: settings of this draw only.
            generator: draws.

        Raises:
            UsageError: an option is unknown, or no challenge fits.
        """
        candidates = self._candidates
        if options:
            candidates = self._selection.changed(options).among(self._all())
        return draw(candidates, generator)

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
