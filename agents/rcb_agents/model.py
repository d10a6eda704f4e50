"""What agents need of a model: a conversation, and a reply that may ask for tools.

`open_model` gives the model a task names; `Conversation` holds the messages of one, and sees to it
that every exchange is in the trajectory before the next thing happens, and is paid for.
Not covered: how an API is spoken to (`client`, `apis`), what goes into a prompt (`prompts`,
`fitting`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rcb_agents import prompts
from rcb_agents.fitting import left_out, older_half, room_for_prompt
from rcb_agents.replies import SHARED, Model, Reply, assistant_message, with_own_ids
from rcb_env import BudgetSpent, ModelError, NoAnswer, Task, UsageError


def open_model(task: Task) -> Model:
    """The model a task names: behind an API, or simulated.

    Raises:
        UsageError: the task has no model, or its name, address or file of models makes no sense, or
            what it costs is unknown though a limit in money is to be held.
    """
    if task.model is None:
        raise UsageError("this agent needs a model: add --model NAME")
    if task.model.name.partition(":")[0] == "simulated":
        from rcb_agents.simulated_model import SimulatedModel

        return SimulatedModel.named(task.model.name, task)
    from rcb_agents.client import OpenAIModel

    model = OpenAIModel(
        task.model,
        seed=task.seed,
        sample=task.sample,
        seconds_left=task.seconds_left,
        room_for_reply=task.room_for_reply,
        batch=task.batch,
        batch_only=task.batch_only,
    )
    if task.limits_money:
        model.check_price()
    task.record("model", model.describe())
    return model


class Conversation:
    """Messages with one model; every exchange is recorded and paid for as it happens."""

    def __init__(self, model: Model, task: Task, **notes: object) -> None:
        self.messages: list[dict[str, Any]] = []
        self._model = model
        self._task = task
        self._notes = {"prompts": prompts.VERSION, **notes}
        self._recorded = 0
        self._ids: set[str] = set()  # of tool calls so far
        self._name = task.model.name if task.model else ""
        self._room = room_for_prompt(task, model)

    def ask(self, text: str) -> Reply:
        """Say something and get the reply.

        Raises:
            BudgetSpent: the reply came, and the budget is gone.
        """
        self.messages.append({"role": "user", "content": text})
        return self.reply()

    def reply(self, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Get the reply to the messages as they stand; the oldest rounds go if they do not fit.

        Args:
            tools: what the model may ask for.

        Raises:
            NoAnswer: no reply, or the last round alone does not fit.
            BudgetSpent: the reply came, and the budget is gone; or the call does not fit into it.
        """
        gone = left_out(self.messages, self._room, self._name)
        while True:
            try:
                reply = self._exchange(tools, gone)
            except NoAnswer as error:
                more = older_half(self.messages, gone)
                if error.reason != "context_exceeded" or more is None:
                    raise
                gone = more
            else:
                stand_in = prompts.in_place_of_nothing()
                self.messages.append(assistant_message(reply, in_place_of_nothing=stand_in))
                self._recorded = len(self.messages)  # the reply stands in the record already
                self._task.spend(reply.usage)
                if reply.cut_at:
                    self._task.room_for_reply(reply.cut_at)  # raises: so much is no longer left
                return reply

    def _exchange(self, tools: Sequence[Mapping[str, Any]], gone: range) -> Reply:
        sent = [dict(each) for index, each in enumerate(self.messages) if index not in gone]
        if gone:
            before = sent[gone.start - 1]
            before["content"] = f"{before['content']}\n\n{prompts.in_place_of_history()}"
        call: dict[str, object] = {
            "model": self._name,
            **self._notes,
            "tools": len(tools),
            "earlier_messages": self._recorded,
            "left_out": [gone.start, gone.stop] if gone else [],
            "messages": [dict(message) for message in self.messages[self._recorded :]],
        }
        paper, opening = self._task.paper_text.strip(), str(sent[0]["content"])
        if paper and paper in opening:  # whole, so every prompt of this paper begins like this
            sent[0][SHARED] = opening.index(paper) + len(paper)
        try:
            reply = self._model.complete(sent, tools)
        except (NoAnswer, ModelError, BudgetSpent) as error:
            self._task.record("model_call", {**call, "error": str(error)})
            self._recorded = len(self.messages)
            raise
        reply = replace(reply, tool_calls=with_own_ids(reply.tool_calls, self._ids))
        self._ids |= {each.id for each in reply.tool_calls}
        self._task.record("model_call", {**call, "reply": asdict(reply)})
        return reply
