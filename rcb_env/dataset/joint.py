"""Challenges of several parts at once: all regions of a file or of a paper, or a paper's whole library.

The first two are derived from the tags alone. Regions inside another region belong to it, so each line of code is missing once.
Of a library the public surface is left (`rcb_env.dataset.surface`); a file that no case loads, or that is nothing but surface, is
handed over whole.
Not covered: the text of an answer (`rcb_env.dataset.holes`).
"""

from __future__ import annotations

import ast
import functools
import os.path
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Literal, get_args

from rcb_env.dataset import markers
from rcb_env.dataset.holes import Hole, Holes
from rcb_env.dataset.markers import Region
from rcb_env.dataset.papers import Challenge, Paper, digest
from rcb_env.dataset.regions import with_challenges
from rcb_env.dataset.surface import imported, names_read, says_all, surface, with_packages
from rcb_env.errors import PaperError, counted

Joint = Literal["file", "paper", "library"]


def jointly(paper: Paper, scope: Joint) -> Paper:
    """The same paper, whose challenges are of this scope.

    Args:
        paper: with a challenge for each region.
        scope: what is missing at once.

    Raises:
        PaperError: a file is no Python, or has lines that only Python counts, so that it has no surface.
    """
    joint = replace(paper, challenges=())
    if scope == "library":
        missing = _emptied(paper)
        made = [_challenge(joint, f"{paper.id}@library", missing, "file")] if missing else []
        object.__setattr__(joint, "challenges", tuple(made))  # as below
        return joint
    outermost = [one for one in paper.challenges if one.region.parent is None]
    challenges = [
        _challenge(joint, f"{name}@{scope}", _holes(paper, regions), "part")
        for name, regions in _divided(paper, outermost, scope)
    ]
    object.__setattr__(joint, "challenges", tuple(challenges))  # the two types refer to each other
    return joint


def in_all_scopes(paper: Paper) -> dict[str, Paper]:
    """A native paper with a challenge for each region, by every scope in which it has challenges of several."""
    found: dict[str, Paper] = {scope: jointly(paper, scope) for scope in get_args(Joint)}
    return {scope: joint for scope, joint in found.items() if joint.challenges}


def regions_of(challenge: Challenge) -> tuple[Challenge, ...]:
    """The regions that are missing, each as the challenge it is by itself; of a library none."""
    if challenge.holes is None:
        return (challenge,)
    ids = {f"{challenge.paper.id}/{hole.name}" for hole in challenge.holes}
    return tuple(one for one in _single(challenge.paper) if one.id in ids)


def all_regions(paper: Paper) -> tuple[Challenge, ...]:
    """Every region of a paper as a challenge by itself, whatever the scope of the paper's challenges."""
    joint = any(one.holes is not None for one in paper.challenges)
    return _single(paper) if joint else paper.challenges


@functools.lru_cache(maxsize=32)
def _single(paper: Paper) -> tuple[Challenge, ...]:
    return with_challenges(replace(paper, challenges=())).challenges


def _divided(
    paper: Paper, regions: Sequence[Challenge], scope: Joint
) -> Iterator[tuple[str, Sequence[Challenge]]]:
    if scope == "paper":
        yield paper.id, regions
        return
    for file in paper.annotated:
        yield f"{paper.id}/{file}", [one for one in regions if one.file == file]


def _holes(paper: Paper, regions: Sequence[Challenge]) -> list[Hole]:
    return [Hole(one.id.removeprefix(f"{paper.id}/"), one.file, one.region) for one in regions]


def _challenge(paper: Paper, id: str, missing: Sequence[Hole], kind: str) -> Challenge:
    holes = Holes(missing, {hole.file: _text(paper, hole.file) for hole in missing})
    files = [*holes.files]
    where = files[0] if len(files) == 1 else os.path.commonpath(files) or "."
    hint = (
        f"{counted(len(holes), kind)} of {where if where != '.' else counted(len(files), 'file')}"
    )
    lines = sum(hole.region.lines for hole in holes)
    first, last = missing[0].region.start, missing[-1].region.end
    return Challenge(
        id=id,
        paper=paper,
        file=where,
        region=Region(hint, first, last, "", lines, None),
        hint=hint,
        lines=lines,
        content_hash=digest(
            [
                ("paper", paper.content_hash),
                ("id", id),
                *((hole.name, hole.file) for hole in holes),
                *((path, file.text) for path, file in holes.files.items()),
            ]
        ),
        holes=holes,
    )


def _emptied(paper: Paper) -> list[Hole]:
    """The files that cases load, each with its surface; but for those of which that leaves nothing to write."""
    sources = {path: _text(paper, path) for path in paper.files if path.endswith(".py")}
    bare = {path: markers.strip_tags(text) for path, text in sources.items()}
    cases = paper.tests["tests/cases.py"].decode("utf-8", "replace")
    for path, text in bare.items():
        if "\r" in text.replace("\r\n", ""):
            raise PaperError(
                "has a carriage return that ends no line, but does for Python: write \\n",
                path=str(paper.root / path),
            )
    for path, text in {**bare, "tests/cases.py": cases}.items():
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise PaperError(
                f"is no Python, so it has no public surface: {error}", path=str(paper.root / path)
            ) from None
    read = {path: names_read(text) for path, text in bare.items()}
    outside = names_read(cases)
    loaded = _loaded(cases, bare)
    holes = []
    for path, text in bare.items():
        elsewhere = outside.union(*(names for other, names in read.items() if other != path))
        left = surface(text, hidden=markers.rows_in_regions(sources[path]), read=elsewhere)
        if path in loaded and not says_all(left, text):
            lines = markers.count_code_lines(text.split("\n"))
            region = Region(path, -1, text.count("\n"), "", lines, None)
            holes.append(Hole(path, path, region, left))
    return holes


def _loaded(cases: str, sources: Mapping[str, str]) -> set[str]:
    """The files that cases name, and those that these import."""
    files = {_module(path): path for path in sources}
    found: set[str] = set()
    pending = with_packages(names_read(cases)) & {*files}
    while pending:
        module = pending.pop()
        path = files[module]
        found.add(path)
        package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
        named = imported(sources[path], package)
        pending |= {each for each in named & {*files} if files[each] not in found}
    return found


def _module(path: str) -> str:
    """What a file is imported as."""
    dotted = ".".join(PurePosixPath(path).relative_to("src").with_suffix("").parts)
    return dotted.removesuffix(".__init__")


def _text(paper: Paper, path: str) -> str:
    return paper.files[path].decode("utf-8", "surrogateescape")
