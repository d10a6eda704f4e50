"""Two agents that need no model: one that knows the answer and one that does nothing.

A run of `Reference` must score 100 %, a run of `Noop` 0 %. If either does not, the environment is
at fault, not a model.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from rcb_env import Task, ToolCall, Turn


@dataclass(frozen=True)
class Reference:
    """Writes the reference code."""

    name: ClassVar[str] = "reference"
    uses_model: ClassVar[bool] = False

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Write it and submit."""
        yield ToolCall("write_region", {"code": task.challenge.reference})
        yield ToolCall("submit")


@dataclass(frozen=True)
class Noop:
    """Leaves the placeholder where it is."""

    name: ClassVar[str] = "noop"
    uses_model: ClassVar[bool] = False

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:  # noqa: ARG002
        """Submit at once."""
        yield ToolCall("submit")
