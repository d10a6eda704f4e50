"""The challenges of a paper: one for each region of its annotated files.

Guarantees: ids come of the hints, in the order of the start tags, and no two are equal.
Not covered: challenges of several regions (`joint.py`); what a challenge is (`papers.py`).
"""

from __future__ import annotations

import re

from rcb_env.dataset import markers
from rcb_env.dataset.papers import NOTES, OPEN, Challenge, Paper, digest
from rcb_env.errors import PaperError


def with_challenges(paper: Paper) -> Paper:
    """The same paper, which from now on knows its challenges: one for each region of its annotated files.

    Raises:
        PaperError: the tags are broken, a file has none, or a region is empty; with file and line.
    """
    taken: set[str] = set()
    challenges = []
    for file in paper.annotated:
        shown = str(paper.root / file)
        text = paper.files[file].decode("utf-8", "surrogateescape")
        regions = markers.find_regions(text, path=shown)
        if not regions:
            raise PaperError(
                'is listed as annotated but has no `# <paper2code name="...">` tag', path=shown
            )
        for region in regions:
            if not region.lines:
                raise PaperError(
                    f'the region "{region.name}" holds no code', path=shown, line=region.start + 1
                )
            slug = _slug(region.name, taken)
            id = f"{paper.id}{OPEN}" if paper.layout == "open" else f"{paper.id}/{slug}"
            masked = markers.mask(text, region, note=NOTES[paper.layout])
            challenges.append(
                Challenge(
                    id=id,
                    paper=paper,
                    file=file,
                    region=region,
                    hint=region.name,
                    lines=region.lines,
                    content_hash=digest(
                        [
                            ("paper", paper.content_hash),
                            ("id", id),
                            ("file", file),
                            ("before", masked.before),
                            ("placeholder", masked.placeholder),
                            ("after", masked.after),
                        ]
                    ),
                )
            )
    object.__setattr__(paper, "challenges", tuple(challenges))  # the two types refer to each other
    return paper


def _slug(hint: str, taken: set[str]) -> str:
    base = re.sub(r"[\W_]+", "-", hint.lower()).strip("-") or "region"
    slug, number = base, 1
    while slug in taken:
        number += 1
        slug = f"{base}-{number}"
    taken.add(slug)
    return slug
