"""Single shot, then again with what the tests said, up to a number of rounds."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rcb_agents import prompts
from rcb_agents.fitting import first_prompt
from rcb_agents.model import Conversation, open_model
from rcb_agents.single_shot import code_of
from rcb_env import NoAnswer, Task, ToolCall, Turn

_WORTH_ASKING_AGAIN = ("no_code", "empty", "truncated")


@dataclass(frozen=True)
class Repair:
    """Submits as soon as the feedback tests pass, or after the last round.

    With ``rounds=0`` it is the single shot.
    """

    rounds: Annotated[int, Field(ge=0)] = 3
    """How often the model may try again after its first answer."""
    history: Literal["continued", "fresh"] = "continued"
    """Whether the model sees all earlier rounds, or only its last try and what the tests said."""

    name: ClassVar[str] = "repair"
    uses_model: ClassVar[bool] = True
    prompts_version: ClassVar[str] = prompts.VERSION

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Ask, write, test, ask again."""
        model = open_model(task)
        talk = Conversation(model, task)
        opening = first_prompt(task, model, prompts.missing_code, talks=self.rounds > 0)
        prompt, code = opening, ""
        for rounds_left in reversed(range(self.rounds + 1)):
            reply = talk.ask(prompt)
            try:
                code = task.merged(code_of(reply, task), code)
            except NoAnswer as error:
                if error.reason not in _WORTH_ASKING_AGAIN or not (rounds_left or code):
                    raise
                feedback = prompts.after_no_code(task, error.reason)
            else:
                yield ToolCall("write_region", {"code": code})
                if not rounds_left:
                    break
                turn = yield ToolCall("run_tests")
                if turn.error or (turn.tests and turn.tests.get("status") == "passed"):
                    break  # solved, or no test run is left that could tell
                feedback = prompts.after_failure(task, turn.text)
            prompt = feedback
            if self.history == "fresh":
                talk = Conversation(model, task)
                tried = (prompts.earlier_try(code),) if code else ()
                prompt = "\n\n".join((opening, *tried, feedback))
        yield ToolCall("submit")
