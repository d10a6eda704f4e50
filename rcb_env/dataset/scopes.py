"""How much of a paper's code is to be written at once: the names of the scopes, and where they stand.

A scope stands behind the name of a data set and at the end of the ids of its challenges: ``bundled@paper``, ``minp@paper``.
Without one it is that of single regions.
Not covered: which challenges that makes (`rcb_env.dataset.joint`, `rcb_env.dataset.loading`).
"""

from __future__ import annotations

from typing import Literal, get_args

from rcb_env.errors import unknown

Scope = Literal["region", "file", "paper", "library", "open"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""A region of a paper's code, all regions of a file or of a paper, all of its code, or better than the paper's own method."""


def scope_of(name: str) -> Scope:
    """The scope of a challenge's id or of a data set's name."""
    after = name.rpartition("@")[2] if "@" in name else ""
    return next((scope for scope in SCOPES[1:] if scope == after), SCOPES[0])


def without_scope(name: str) -> str:
    """A name without the scope behind it."""
    scope = scope_of(name)
    return name if scope == SCOPES[0] else name.removesuffix(f"@{scope}")


def in_scope(dataset: str, scope: str | None) -> str:
    """The name of a data set in a scope; None: as the name says.

    Raises:
        UsageError: there is no such scope.
    """
    if scope is None:
        return dataset
    if scope not in SCOPES:
        raise unknown("scope", scope, SCOPES)
    bare = without_scope(dataset)
    return bare if scope == SCOPES[0] else f"{bare}@{scope}"
