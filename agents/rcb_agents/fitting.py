"""What goes into a prompt, so that it fits the model's window.

The rule. The file with the missing part, the task and its rules are always whole; if they alone do
not fit, the attempt ends as "context_exceeded". If all does not fit, the paper gives way first, by
whole sections, the one that says least about the missing part first; then the paper's other files,
whole, the last one first. Later in a conversation the oldest rounds are left out, each a reply
together with all answers to it; the first message and the last round always stay.
A tenth of the window is kept free, as counts are estimates, and the longest completion's room with
it. Where the window is unknown nothing is trimmed before a server refuses.

What was planned and what was trimmed is in the trajectory. Pure but for that record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcb_agents import tokens
from rcb_agents.replies import Model, as_text
from rcb_env import NoAnswer, Task

Render = Callable[[Task, str, Mapping[str, str]], str]
"""Makes a prompt of a task, a paper's text ("": none) and context files by path."""

_MARGIN = 0.1
_REPLY_SHARE, _LONGEST_REPLY = 0.25, 16_000  # room for a completion whose length is not limited
_HISTORY_SHARE = 0.5  # of the room of a first prompt, where a long conversation is to follow


def first_prompt(task: Task, model: Model, render: Render, *, talks: bool = False) -> str:
    """The first prompt of a conversation, trimmed by the rule.

    Args:
        task: what its prompt is made of; says how much of the paper may be shown at all.
        model: whose window it has to fit.
        render: makes the text.
        talks: whether room is kept for a long conversation.

    Raises:
        NoAnswer: what is never trimmed does not fit.
    """
    sections = task.sections
    kept = list(range(len(sections.parts)))
    if task.paper_shown == "sections":
        kept = sections.best()
    context = dict(task.context_files)
    room = room_for_prompt(task, model)
    if room is not None and talks:
        room = int(room * _HISTORY_SHARE)
    name = task.model.name if task.model else ""
    trimmed: list[str] = []
    prompt = render(task, sections.joined(kept), context)
    if room is not None and tokens.at_most(prompt) > room:
        drops = [index for index in sections.ranked if index in kept]
        while tokens.estimate(prompt, name) > room:
            if drops:
                # Small sections alone would take many rounds: as many go as are missing, at least.
                missing = (tokens.estimate(prompt, name) - room) * 2  # two characters to a token
                gone = 0
                while drops and gone < max(missing, 1):
                    index = drops.pop()
                    gone += len(sections.parts[index])
                    kept.remove(index)
                    trimmed.append(f"paper: {sections.title(index)}")
            elif context:
                path = list(context)[-1]
                del context[path]
                trimmed.append(f"file: {path}")
            else:
                raise NoAnswer(
                    "context_exceeded",
                    f"task and code alone have about {tokens.estimate(prompt, name)} tokens,"
                    f" {room} fit",
                )
            prompt = render(task, sections.joined(kept), context)
    paper = sections.joined(kept)
    task.record(
        "prompt_plan",
        {
            "window": model.context_tokens,
            "room": room,
            "chars": {
                "paper": len(paper),
                "context": sum(map(len, context.values())),
                "code": sum(map(len, task.masked_files.values())),
                "all": len(prompt),
            },
            "tokens": tokens.estimate(prompt, name) if room is not None and trimmed else None,
            "paper": task.paper_shown,
            "trimmed": trimmed,
        },
    )
    return prompt


def room_for_prompt(task: Task, model: Model) -> int | None:
    """Tokens a prompt may have; None: the window is unknown."""
    window = model.context_tokens
    if window is None:
        return None
    reply = task.model.max_tokens if task.model else None
    if reply is None:
        reply = min(int(window * _REPLY_SHARE), _LONGEST_REPLY)
    return max(1, int(window * (1 - _MARGIN)) - reply)


def left_out(messages: Sequence[Mapping[str, Any]], room: int | None, model: str) -> range:
    """The messages, by index, that are left out so that the others fit.

    A round begins with each reply, so calls and their answers go together.

    Args:
        messages: the whole conversation.
        room: tokens; None: no limit.
        model: whose tokens.
    """
    if room is None or sum(map(_most, messages)) <= room:
        return range(0)
    sizes = [tokens.estimate(as_text([message]), model) for message in messages]
    starts = _rounds(messages)
    for start in starts[1:]:
        gone = range(starts[0], start)
        if sum(sizes) - sum(sizes[index] for index in gone) <= room or start == starts[-1]:
            return gone
    return range(0)


def older_half(messages: Sequence[Mapping[str, Any]], already: range) -> range | None:
    """More to leave out where a server has refused; None: only the last round is left."""
    starts = [start for start in _rounds(messages) if start >= already.stop]
    return range(_rounds(messages)[0], starts[len(starts) // 2]) if len(starts) > 1 else None


def _rounds(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    return [n for n, message in enumerate(messages) if message["role"] == "assistant"]


def _most(message: Mapping[str, Any]) -> int:
    return tokens.at_most(as_text([message]))
