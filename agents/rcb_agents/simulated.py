"""A stand-in for a model, for tests and demonstrations without one. It looks the answer up.

With probability ``skill`` it replies with the reference, else with the reference and one fault in
it, as text of the kind models write. Its numbers say nothing about any model, so its name says
"simulated" wherever it shows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from rcb_agents.model import Reply
from rcb_agents.single_shot import SingleShot
from rcb_env import ModelSettings, Task, ToolCall, Turn, Usage, UsageError, mutants

_CHARS_PER_TOKEN = 4


class SimulatedModel:
    """Replies by chance; the same task and attempt always get the same reply.

    Args:
        task: whose answer is looked up.
        skill: probability of the right answer, from 0 to 1.
    """

    def __init__(self, task: Task, *, skill: float) -> None:
        self._task = task
        self._skill = skill
        self._attempt = 0

    @classmethod
    def named(cls, name: str, task: Task) -> SimulatedModel:
        """From a name such as ``simulated:skill=0.5``.

        Raises:
            UsageError: it is not of this form.
        """
        _, colon, setting = name.partition(":")
        key, _, value = setting.partition("=")
        try:
            skill = float(value) if colon else 0.5
        except ValueError:
            skill = math.nan
        if (colon and key.strip() != "skill") or not 0 <= skill <= 1:
            raise UsageError(
                f"{name!r} is no simulated model; write simulated:skill=0.5, from 0 to 1"
            )
        return cls(task, skill=skill)

    def complete(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        """The next attempt's reply."""
        chance = random.Random(f"{self._task.seed}:{self._attempt}")
        self._attempt += 1
        code = self._task.challenge.reference
        if chance.random() >= self._skill:
            code = self._faulty(code, chance.getrandbits(32))
        text = f"This is a simulated reply.\n\n```python\n{code.rstrip(chr(10))}\n```\n"
        sent = sum(len(str(message.get("content", ""))) for message in messages)
        usage = Usage(
            prompt_tokens=sent // _CHARS_PER_TOKEN,
            completion_tokens=len(text) // _CHARS_PER_TOKEN,
            calls=1,
            estimated=True,
        )
        return Reply(text=text, finish_reason="stop", usage=usage, request_id="simulated")

    def _faulty(self, code: str, seed: int) -> str:
        made = mutants(code, limit=1, seed=seed)
        indent = self._task.challenge.region.indent
        return made[0].code if made else f"{indent}pass\n"


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
