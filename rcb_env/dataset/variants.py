"""Variants of a paper: its method with other choices made, as an ordinary paper with another id and another content.

Variant 0 is the paper. A variant is drawn by its number: text, code and tests say and do what its knobs chose, and all that
is made of a paper is made of it in the same way. Its challenges have the ids of the paper's, with the number behind the name of the paper.

Guarantees: the same number gives the same bytes, on every machine. Few are kept (`KEPT`), so thousands can be drawn.
Not covered: the file of knobs (`knobs.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rcb_env.dataset.joint import all_regions, jointly
from rcb_env.dataset.knobs import TEXT, Choices, Knobs, read_knobs
from rcb_env.dataset.papers import Paper
from rcb_env.dataset.regions import with_challenges
from rcb_env.dataset.scopes import scope_of
from rcb_env.dataset.variant_names import with_variant
from rcb_env.errors import PaperError

KEPT = 64
"""How many variants are kept in memory."""


class Variants:
    """The variants of a paper, as its folder declares them; the file is read when one is first asked for.

    Args:
        path: the file of knobs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._knobs: Knobs | None = None

    def knobs(self, paper: Paper) -> Knobs:
        """What can be chosen.

        Args:
            paper: as published.

        Raises:
            PaperError: the file is broken, or does not fit the paper.
        """
        if self._knobs is None:
            texts = {TEXT: paper.text, **_decoded(paper.files), **_decoded(paper.tests)}
            self._knobs = read_knobs(self._path, texts)
        return self._knobs

    def of(self, paper: Paper, number: int) -> Paper:
        """The variant of this number, with challenges of the scope that the paper's have.

        Raises:
            PaperError: the file is broken, or with these choices the files are no paper.
        """
        return _drawn(self, paper, number) if number else paper

    def chosen(self, paper: Paper, choices: Choices, id: str) -> Paper:
        """The paper with these choices made.

        Args:
            paper: as published.
            choices: by knob and name; what is missing is as published.
            id: of the variant.

        Raises:
            PaperError: with these choices the files are no paper.
        """
        changed = self.knobs(paper).render(choices)
        text = changed.pop(TEXT, paper.text)
        code = {path: made.encode("utf-8", "surrogateescape") for path, made in changed.items()}
        region = with_challenges(
            replace(
                paper,
                id=id,
                text=text,
                files=_with(paper.files, code),
                tests=_with(paper.tests, code),
                challenges=(),
            )
        )
        if _names(region) != _names(paper):
            raise PaperError(f"{id} has other regions than the paper", path=str(self._path))
        scope = scope_of(paper.challenges[0].id)
        return region if scope == "region" or scope == "open" else jointly(region, scope)


@functools.lru_cache(maxsize=KEPT)
def _drawn(variants: Variants, paper: Paper, number: int) -> Paper:
    choices = variants.knobs(paper).chosen(paper.id, number)
    return variants.chosen(paper, choices, with_variant(paper.id, number))


def _names(paper: Paper) -> list[str]:
    return [one.id.removeprefix(f"{paper.id}/") for one in all_regions(paper)]


def _decoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: data.decode("utf-8", "surrogateescape") for path, data in files.items()}


def _with(files: Mapping[str, bytes], changed: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: changed.get(path, data) for path, data in files.items()}
