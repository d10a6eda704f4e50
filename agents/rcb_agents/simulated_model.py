"""A stand-in for a model, for tests and demonstrations without one. It looks the answer up.

With probability ``skill`` it replies with the reference, else with the reference and one fault in
it, as text of the kind models write. Where tools are offered, it uses them: it looks at the files,
writes, tests, writes again when tests fail, and submits. Its numbers say nothing about any model, so its name says
"simulated" wherever it shows.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from rcb_agents.replies import Reply, ToolRequest
from rcb_env import Task, Usage, UsageError, mutants

_CHARS_PER_TOKEN = 4
_TRIES = 4  # of a tool user, before it submits what it has


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
        self._calls = 0

    @property
    def context_tokens(self) -> int | None:
        """It reads nothing, so everything fits."""
        return None

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
                f"{name!r} is not a simulated model; write simulated:skill=0.5, from 0 to 1"
            )
        return cls(task, skill=skill)

    def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> Reply:
        """The next attempt's reply, or the next calls of a tool user."""
        text, calls = "This is a simulated reply.", self._act(messages) if tools else ()
        if not tools:
            text += f"\n\n```python\n{self._draw().rstrip(chr(10))}\n```\n"
        sent = sum(len(str(message.get("content", ""))) for message in messages)
        made = len(text) + sum(len(call.arguments) for call in calls)
        usage = Usage(
            prompt_tokens=sent // _CHARS_PER_TOKEN,
            completion_tokens=made // _CHARS_PER_TOKEN,
            calls=1,
            estimated=True,
        )
        return Reply(
            text=text,
            finish_reason="tool_calls" if calls else "stop",
            tool_calls=calls,
            usage=usage,
            request_id="simulated",
        )

    def _draw(self) -> str:
        """The code of the next attempt."""
        chance = random.Random(f"{self._task.seed}:{self._attempt}")
        self._attempt += 1
        code = self._task.challenge.reference
        if chance.random() >= self._skill:
            code = self._faulty(code, chance.getrandbits(32))
        return code

    def _act(self, messages: Sequence[Mapping[str, Any]]) -> tuple[ToolRequest, ...]:
        """What a tool user does next: look, then write and test until they pass, then submit."""
        last = str(messages[-1].get("content", ""))
        if messages[-1]["role"] != "tool":
            return (
                self._call("list_files"),
                self._call("read_file", path=self._task.challenge.files[0]),
            )
        if self._attempt == _TRIES or (self._attempt and last.startswith("Tests: passed")):
            return (self._call("submit"),)
        return (self._call("write_region", code=self._draw()), self._call("run_tests"))

    def _call(self, tool: str, **arguments: str) -> ToolRequest:
        self._calls += 1
        return ToolRequest(f"simulated_{self._calls}", tool, json.dumps(arguments))

    def _faulty(self, code: str, seed: int) -> str:
        holes = self._task.challenge.holes
        if holes is not None:  # one of the parts has a fault
            hole = random.Random(seed).choice([*holes])
            mutant = self._mutant(holes.references[hole.name], seed, hole.region.indent)
            return self._task.merged(holes.join({hole.name: mutant}), code)
        return self._mutant(code, seed, self._task.challenge.region.indent)

    @staticmethod
    def _mutant(code: str, seed: int, indent: str) -> str:
        made = mutants(code, limit=1, seed=seed)
        return made[0].code if made else f"{indent}pass\n"
