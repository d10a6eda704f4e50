"""The greedy baseline: one prompt, one completion, submitted as it is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rcb_agents import prompts
from rcb_agents.fitting import first_prompt
from rcb_agents.model import Conversation, open_model
from rcb_agents.replies import Reply
from rcb_env import NoAnswer, Task, ToolCall, Turn


@dataclass(frozen=True)
class SingleShot:
    """Asks once. The model settings say how (temperature 0 unless set otherwise)."""

    name: ClassVar[str] = "single-shot"
    uses_model: ClassVar[bool] = True
    prompts_version: ClassVar[str] = prompts.VERSION

    def ask_ahead(self, tasks: Sequence[Task]) -> str | None:
        """Ask in all tasks at once, through a batch API; see `batches.ask_ahead`."""
        from rcb_agents.batches import ask_ahead

        return ask_ahead(self, tasks)

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Ask, write, submit."""
        model = open_model(task)
        prompt = first_prompt(task, model, prompts.missing_code)
        reply = Conversation(model, task).ask(prompt)
        yield ToolCall("write_region", {"code": code_of(reply, task)})
        yield ToolCall("submit")


def code_of(reply: Reply, task: Task) -> str:
    """The code in a reply; what was decided on the way is recorded.

    Raises:
        NoAnswer: there is none.
    """
    if reply.refusal:
        raise NoAnswer("refused", reply.refusal)
    found = task.extract(reply.text, finish_reason=reply.finish_reason)
    task.record("extraction", {"reason": found.reason, "notes": list(found.notes)})
    if found.code is None:
        raise NoAnswer(found.reason or "no_code", "; ".join(found.notes))
    return found.code
