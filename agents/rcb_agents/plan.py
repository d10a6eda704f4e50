"""An agent that reads everything first, writes a plan, and then acts by it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from rcb_agents import prompts
from rcb_agents.fitting import first_prompt
from rcb_agents.model import Conversation, open_model
from rcb_agents.tools import Tools
from rcb_env import NoAnswer, Task, ToolCall, Turn


@dataclass(frozen=True)
class Plan(Tools):
    """One prompt with the paper and the code for a plan; then `Tools`, with the plan before it.

    The plan is the only thing that the acting half knows of the first one. An empty reply is no
    fault: the acting half then has no plan.
    """

    name: ClassVar[str] = "plan"

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Plan, then act."""
        model = open_model(task)
        reply = Conversation(model, task, stage="plan").ask(first_prompt(task, model, prompts.plan))
        if reply.refusal:
            raise NoAnswer("refused", reply.refusal)
        yield from self.act(task, model, reply.text)
