"""An agent that acts by function calls: it looks, edits, runs tests and submits as it likes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from rcb_agents import prompts
from rcb_agents.fitting import first_prompt
from rcb_agents.intake import parsed
from rcb_agents.model import Conversation, open_model
from rcb_agents.replies import Model, ToolRequest
from rcb_env import NoAnswer, Task, ToolCall, Turn, tool_schemas


@dataclass(frozen=True)
class Tools:
    """Does what the model calls, one call after the other, and answers each.

    A wrong call is answered with what is wrong and uses up a step, like any other; so does a reply
    without a call. After `submit` nothing is done any more. Ends by itself when replies hold no
    usable call (``format_errors``) or repeat themselves (``stuck``); what stands is graded then.
    """

    format_errors: Annotated[int, Field(ge=1)] = 4
    """Replies in a row without a usable call that end the episode."""
    repeats: Annotated[int, Field(ge=2)] = 3
    """Times the same calls with the same answers are made before the model is told; at twice as
    many the episode ends."""

    name: ClassVar[str] = "tools"
    uses_model: ClassVar[bool] = True
    prompts_version: ClassVar[str] = prompts.VERSION

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Act until it submits, or the episode's budget is spent."""
        yield from self.act(task, open_model(task))

    def act(self, task: Task, model: Model, plan: str = "") -> Generator[ToolCall, Turn, None]:
        """The same with a model that is open, and with a plan to go by."""
        tools = offered(task)
        talk = Conversation(model, task)
        talk.messages.append({"role": "user", "content": _opening(task, model, plan)})
        useless, repeated, before = 0, 0, ""
        while True:
            reply = talk.reply(tools)
            if reply.refusal:
                raise NoAnswer("refused", reply.refusal)
            done: list[str] = []
            usable = False
            for request in reply.tool_calls:
                action, wrong = _read(request)
                turn = yield action
                usable = usable or not turn.error
                answer = f"{wrong}\n{turn.text}" if wrong else turn.text
                done.append(f"{request.name}({request.arguments}): {answer}")
                talk.messages.append(
                    {"role": "tool", "tool_call_id": request.id, "content": answer}
                )
            if not reply.tool_calls:
                yield ToolCall("")  # the environment counts it as a step with an error
                said = prompts.after_no_call([tool["function"]["name"] for tool in tools])
                talk.messages.append({"role": "user", "content": said})
            useless = 0 if usable else useless + 1
            if useless >= self.format_errors:
                raise NoAnswer("format_errors", f"{useless} replies in a row had no usable call")
            now = "\n".join(done)
            repeated = repeated + 1 if done and now == before else 1
            before = now
            if repeated >= 2 * self.repeats:
                raise NoAnswer("stuck", f"the same calls {repeated} times, with the same answers")
            if repeated == self.repeats:
                talk.messages[-1]["content"] += f"\n\n{prompts.after_repeating(repeated)}"


def offered(task: Task) -> list[dict[str, Any]]:
    """The tools of a task; without the whole paper there is nothing to read it with."""
    return [
        tool
        for tool in tool_schemas()
        if task.paper_shown == "full" or tool["function"]["name"] != "read_paper"
    ]


def _opening(task: Task, model: Model, plan: str) -> str:
    """What the model is told first; of the paper only what a tool could not show."""

    def render(task: Task, paper: str, _context: object) -> str:
        return prompts.act(task, paper if task.paper_shown == "sections" else "", plan=plan)

    return first_prompt(task, model, render, talks=True)


def _read(request: ToolRequest) -> tuple[ToolCall, str]:
    """The call a request stands for, and what to say if its arguments cannot be read.

    The environment answers everything else that may be wrong with it: unknown names, missing
    arguments, wrong types.
    """
    try:
        arguments = parsed(request.arguments or "{}")
    except ValueError as error:
        why = str(error)
    else:
        if isinstance(arguments, dict):
            return ToolCall(request.name, arguments), ""
        if arguments is None:
            return ToolCall(request.name), ""
        why = f"it is {type(arguments).__name__}"
    # No tool has an argument of this name: nothing is done, and a step is used up.
    return ToolCall(request.name, {"": request.arguments}), prompts.after_bad_arguments(why)
