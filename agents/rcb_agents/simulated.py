"""An agent for tests and demonstrations without a model: the single shot with a simulated one."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from rcb_agents.single_shot import SingleShot
from rcb_env import ModelSettings, Task, ToolCall, Turn


@dataclass(frozen=True)
class Simulated:
    """The single shot with a simulated model."""

    skill: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Probability of the right answer."""

    name: ClassVar[str] = "simulated"
    uses_model: ClassVar[bool] = False

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """As `SingleShot` does."""
        model = ModelSettings(f"simulated:skill={self.skill}")
        yield from SingleShot().play(replace(task, model=model))
