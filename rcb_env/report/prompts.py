"""The conversations that an agent really had with its model, as a trajectory holds them.

An agent that makes the tool calls for its model sends it prompts of its own. One conversation is what the model was sent and
answered, from a first prompt on; an episode may have several.

Guarantees: a reply that was given to something else than the conversation before it (older rounds were left out to fit the
window) is not taught: its mask is 0. What the steps after a reply have earned is that reply's.
Not covered: conversations with the environment (`rcb_env.report.training`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rcb_env.report.rows import Row, clean
from rcb_env.report.turns import Sampled
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import INFRA


@dataclass
class Talk:
    """One conversation; what each message is worth stands beside it."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    sampled: list[Any] = field(default_factory=list)
    with_tools: bool = False
    """Whether the model was offered the tools."""

    def add(self, message: dict[str, Any], mask: int = 0, sampled: Any = None) -> None:
        """Add a message."""
        self.sampled.append(sampled)
        self.messages.append(message)
        self.mask.append(mask)
        self.rewards.append(0.0)


def asked(row: Row, path: Path, *, as_text: bool = False) -> Iterator[Row]:
    """A row for each conversation of an episode, made of the row that has its messages with the environment.

    Args:
        row: of the form "rl" or "sft".
        path: its trajectory.
        as_text: whether arguments of tool calls are JSON text.
    """
    trained = row["status"] != INFRA
    for number, talk in enumerate(read_talks(path, row["rewards"][2::2], as_text=as_text)):
        yield {
            **row,
            "messages": clean(talk.messages),
            "mask": [mask * trained for mask in talk.mask],
            "rewards": talk.rewards,
            "progress": [None] * len(talk.messages),
            "sampled": [tokens if tokens and tokens["ids"] else None for tokens in talk.sampled],
            "reward": sum(talk.rewards),
            "tools": row["tools"] if talk.with_tools else "[]",
            "conversation": number,
        }


def read_talks(path: Path, rewards: Sequence[float], *, as_text: bool = False) -> list[Talk]:
    """The conversations of a trajectory, in the order of their beginnings.

    Args:
        path: the file, whose records have been checked (`rcb_env.report.turns`).
        rewards: of its steps.
        as_text: whether arguments of tool calls are JSON text.

    Raises:
        StoreError: it cannot be read.
    """
    talks: list[Talk] = []
    earned = iter(rewards)
    last: Talk | None = None
    for _, _, record in JsonLines(path).numbered():
        if record.get("kind") == "model_call" and isinstance(record.get("reply"), Mapping):
            last = _talk_of(record, talks)
            last.with_tools = last.with_tools or bool(record.get("tools"))
            for message in record.get("messages") or ():
                last.add(dict(message))
            said, whole = _said(record["reply"], as_text)
            tokens = Sampled.model_validate(record["reply"].get("sampled") or {}).model_dump()
            last.add(said, int(whole and not record.get("left_out")), tokens)
        elif record.get("kind") == "step":
            reward = next(earned, 0.0)
            if last is not None:
                last.rewards[-1] += reward
    return talks


def _talk_of(record: Mapping[str, Any], talks: list[Talk]) -> Talk:
    """The conversation that a call goes on with, the latest of that length; or a new one."""
    earlier = record.get("earlier_messages") or 0
    if earlier:
        for talk in reversed(talks):
            if len(talk.messages) == earlier:
                return talk
    talks.append(Talk())
    return talks[-1]


def _said(reply: Mapping[str, Any], as_text: bool) -> tuple[dict[str, Any], bool]:
    """A reply as a message, and whether all its calls can be read."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.get("text") or ""}
    if reply.get("reasoning"):
        message["reasoning_content"] = reply["reasoning"]
    whole = True
    calls = []
    for call in reply.get("tool_calls") or ():
        try:
            arguments = json.loads(call["arguments"] or "{}", strict=False)
        except (ValueError, RecursionError):
            arguments, whole = {"": call["arguments"]}, False
        written = call["arguments"] if as_text else arguments
        function = {"name": call["name"], "arguments": written}
        calls.append({"id": call["id"], "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    return message, whole
