"""The number of a variant behind the name of a paper: ``DyT~7``, ``DyT~7/forward``, ``DyT~7@paper``.

Variant 0 is the published method, and its name is that of the paper.
Not covered: what a variant is (`rcb_env.dataset.variants`).
"""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"~(0|[1-9][0-9]{0,17})(?=[/@]|$)")


def variant_of(name: str) -> int:
    """The number in the id of a paper or of a challenge; 0 where there is none."""
    found = _NUMBERED.search(name)
    return int(found[1]) if found else 0


def published(name: str) -> str:
    """The same id of the published paper."""
    return _NUMBERED.sub("", name, count=1) if "~" in name else name


def with_variant(name: str, number: int) -> str:
    """The same id of another variant."""
    paper = re.match(r"[^/@]*", bare := published(name))
    end = paper.end() if paper else 0
    return f"{bare[:end]}~{number}{bare[end:]}" if number else bare
