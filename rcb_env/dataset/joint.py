"""Challenges of several regions at once: all of a file, or all of a paper.

They are derived from the tags alone. Regions inside another region belong to it, so each line of code is missing once.
Not covered: the text of an answer (`rcb_env.dataset.holes`).
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rcb_env.dataset.holes import Hole, Holes
from rcb_env.dataset.markers import Region
from rcb_env.dataset.papers import Challenge, Paper, digest
from rcb_env.errors import counted

Joint = Literal["file", "paper"]


def jointly(paper: Paper, scope: Joint) -> Paper:
    """The same paper, whose challenges are of this scope.

    Args:
        paper: with a challenge for each region.
        scope: what is missing at once.
    """
    joint = replace(paper, challenges=())
    outermost = [one for one in paper.challenges if one.region.parent is None]
    challenges = [
        _challenge(joint, f"{name}@{scope}", regions)
        for name, regions in _divided(paper, outermost, scope)
    ]
    object.__setattr__(joint, "challenges", tuple(challenges))  # the two types refer to each other
    return joint


def _divided(
    paper: Paper, regions: Sequence[Challenge], scope: Joint
) -> Iterator[tuple[str, Sequence[Challenge]]]:
    if scope == "paper":
        yield paper.id, regions
        return
    for file in paper.annotated:
        yield f"{paper.id}/{file}", [one for one in regions if one.file == file]


def _challenge(paper: Paper, id: str, regions: Sequence[Challenge]) -> Challenge:
    holes = Holes(
        [Hole(one.id.removeprefix(f"{paper.id}/"), one.file, one.region) for one in regions],
        {one.file: paper.files[one.file].decode("utf-8", "surrogateescape") for one in regions},
    )
    files = [*holes.files]
    where = files[0] if len(files) == 1 else os.path.commonpath(files) or "."
    hint = f"{counted(len(holes), 'part')} of {where}"
    lines = sum(one.lines for one in regions)
    return Challenge(
        id=id,
        paper=paper,
        file=where,
        region=Region(hint, regions[0].region.start, regions[-1].region.end, "", lines, None),
        hint=hint,
        lines=lines,
        content_hash=digest(
            [
                ("paper", paper.content_hash),
                ("id", id),
                *(("region", one.content_hash) for one in regions),
                *((path, file.text) for path, file in holes.files.items()),
            ]
        ),
        holes=holes,
    )
