"""The text of an episode's region after each of its steps.

A trajectory holds the calls and a hash of the region after each. The calls that change it are done again on the files in
memory, and what comes of them is shown only where the hash is the recorded one: what a page shows is never a guess.
Not covered: episodes whose challenge is not on this machine, or has changed. Of those, only regions that were written whole
are known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rcb_env.dataset.papers import Challenge
from rcb_env.env.actions import ToolCall, parse
from rcb_env.env.settings import Shown
from rcb_env.env.workspace import Workspace, WorkspaceError, code_hash
from rcb_env.errors import UsageError

_EDITS = ("write_region", "replace", "apply_patch", "undo")


def regions(
    steps: Iterable[Mapping[str, Any]], challenge: Challenge | None, config: Mapping[str, Any]
) -> Iterator[tuple[str | None, str | None]]:
    """The region before and after each step; None: not known.

    Args:
        steps: records of the kind "step", in their order.
        challenge: whose region it is; None: it is not here.
        config: of the run, as run.json has it.
    """
    workspace = _workspace(challenge, config)
    before = workspace.code if workspace else None
    for step in steps:
        call = parse(step.get("action"))
        edit = call if isinstance(call, ToolCall) and call.tool in _EDITS else None
        guesses = [before, str(edit.arguments.get("code", "")) if edit else None]
        if workspace is not None:
            if edit is not None and not step.get("error"):
                with contextlib.suppress(WorkspaceError):  # then the hash differs
                    getattr(workspace, edit.tool)(**edit.arguments)
            guesses.insert(0, workspace.code)
        after = next(
            (
                text
                for text in guesses
                if text is not None and code_hash(text) == step.get("code_hash")
            ),
            None,
        )
        if workspace is not None and after != workspace.code:
            workspace = None  # what is built on it would be wrong too
        yield before, after
        before = after


def _workspace(challenge: Challenge | None, config: Mapping[str, Any]) -> Workspace | None:
    if challenge is None:
        return None
    try:
        return Workspace(challenge, Shown.of(config))
    except (UsageError, TypeError, ValueError):  # settings of another version
        return None
