"""The error for a paper or a challenge that a data set does not have, but perhaps has in another scope.

Pure. Not covered: which names there are (`rcb_env.dataset.papers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rcb_env.dataset.scopes import scope_of
from rcb_env.errors import UsageError, unknown

_NAMED = 12  # papers in a message


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, dataset: str, papers: Mapping[str, bool]
) -> UsageError:
    """What to say of a name.

    Args:
        kind: "paper" or "challenge".
        name: what was asked for.
        known: the names there are.
        dataset: the name of the data set.
        papers: its papers by id, and whether they have an open challenge.
    """
    paper, at, _ = name.partition("@")
    here = scope_of(dataset)
    if here == "open":
        listing = f"rcb list {kind}s --scope open"
        if paper not in papers and (at or kind == "paper"):
            some = ", ".join([*papers][:_NAMED]) + (", ..." if len(papers) > _NAMED else "")
            return UsageError(
                f"{paper} has no open challenge; these have: {some}. `{listing}` lists them."
            )
        return unknown(kind, name, known, where=listing)
    wanted = scope_of(name)
    if wanted not in ("region", "open", here):
        return UsageError(f"{name} has the scope {wanted!r}: add --scope {wanted}.")
    if here != "region":
        return unknown(kind, name, known, where=f"rcb list {kind}s --scope {here}")
    if at and paper in papers:
        opened = f"{paper}@open"
        if not papers[paper]:
            return UsageError(f"{paper} has no open challenge.")
        if kind == "paper":
            return UsageError(f"{name} is no paper: write {paper} and --scope open.")
        if name == opened:
            return UsageError(f"{name} is an open challenge: add --scope open.")
        return unknown(kind, name, [opened], where=f"rcb list {kind}s --scope open")
    return unknown(kind, name, known, where=f"rcb list {kind}s")
