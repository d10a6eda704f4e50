"""An episode's trajectory as steps: each with its call, its answer, and what led to it.

Guarantees: any trajectory can be shown, also one that a kill cut off or that an agent filled with records of its own: fields
that are not what they should be are left out, and records of unknown kinds are shown as they are.
Not covered: how it looks (`pages.py`); the region after each step (`regions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Message:
    """One message of a conversation with a model."""

    role: str
    text: str
    calls: Sequence[tuple[str, str]] = ()
    """Tools that it calls: name and arguments."""


@dataclass(frozen=True)
class Exchange:
    """What a model was sent, and what it answered."""

    number: int
    """Of its record, from 0."""
    earlier: int
    """Messages that were sent before and stand in an earlier exchange."""
    left_out: int
    """Of those, how many did not fit any more."""
    sent: Sequence[Message]
    answer: Message | None
    reasoning: str
    error: str
    usage: Mapping[str, Any]


@dataclass
class Step:
    """A tool call and its answer, or what was recorded after the last one."""

    index: int | None
    """From 0; None: no call was made."""
    record: Record = field(default_factory=dict)
    number: int = 0
    """Of its record, from 0."""
    exchanges: list[Exchange] = field(default_factory=list)
    notes: list[tuple[int, str, Record]] = field(default_factory=list)
    """Other records before it: number, kind, fields."""

    @property
    def tool(self) -> str:
        """What was called, or ""."""
        action = self.record.get("action")
        return text_of(action.get("tool")) if isinstance(action, Mapping) else ""

    @property
    def arguments(self) -> dict[str, Any]:
        """With what."""
        action = self.record.get("action")
        given = action.get("arguments") if isinstance(action, Mapping) else action
        if isinstance(given, Mapping):
            return {str(name): value for name, value in given.items()}
        return {} if given is None else {"": given}

    @property
    def tests(self) -> Mapping[str, Any]:
        """What run_tests told, or nothing."""
        tests = self.record.get("tests")
        return tests if isinstance(tests, Mapping) else {}

    @property
    def cases(self) -> list[Mapping[str, Any]]:
        """Of its tests, case by case, as far as the feedback tells."""
        return cases_of(self.tests)


@dataclass
class Played:
    """A trajectory, sorted out."""

    start: Record = field(default_factory=dict)
    end: Record = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    graded: Record = field(default_factory=dict)
    """Of code that was graded without having been played."""


def sorted_out(records: Iterable[Record]) -> Played:
    """The records of a trajectory as steps."""
    played = Played()
    open_step = Step(None)
    for number, record in enumerate(records):
        kind = text_of(record.get("kind"))
        fields = {name: value for name, value in record.items() if name != "kind"}
        if kind == "start" and not played.start:
            played.start = fields
        elif kind == "end":
            played.end = fields
        elif kind == "graded":
            played.graded = fields
        elif kind == "model_call":
            open_step.exchanges.append(_exchange(number, fields))
        elif kind == "step":
            index = fields.get("index")
            open_step.index = index if isinstance(index, int) else len(played.steps)
            open_step.record, open_step.number = fields, number
            played.steps.append(open_step)
            open_step = Step(None)
        else:
            open_step.notes.append((number, kind or "record", fields))
    if open_step.exchanges or open_step.notes:
        played.steps.append(open_step)
    return played


def cases_of(holder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The test cases of a verdict or of feedback, those that can be read."""
    cases = holder.get("cases")
    found = cases if isinstance(cases, list) else []
    return [case for case in found if isinstance(case, Mapping)]


def text_of(value: object) -> str:
    """A text, or "" for anything else."""
    return value if isinstance(value, str) else ""


def _exchange(number: int, fields: Record) -> Exchange:
    reply = fields.get("reply")
    reply = reply if isinstance(reply, Mapping) else None
    left_out, earlier = fields.get("left_out"), fields.get("earlier_messages")
    gone = 0
    if isinstance(left_out, list) and len(left_out) == 2:
        first, last = left_out
        gone = last - first if isinstance(first, int) and isinstance(last, int) else 0
    sent = fields.get("messages")
    usage = reply.get("usage") if reply else None
    answer = None
    if reply is not None:
        said = text_of(reply.get("text")) or text_of(reply.get("refusal"))
        answer = Message("assistant", said, _calls(reply.get("tool_calls")))
    return Exchange(
        number=number,
        earlier=earlier if isinstance(earlier, int) else 0,
        left_out=gone,
        sent=[_message(each) for each in sent if isinstance(each, Mapping)]
        if isinstance(sent, list)
        else [],
        answer=answer,
        reasoning=text_of(reply.get("reasoning")) if reply else "",
        error=text_of(fields.get("error")),
        usage=usage if isinstance(usage, Mapping) else {},
    )


def _message(fields: Record) -> Message:
    content = fields.get("content")
    if isinstance(content, list):  # parts, as some interfaces have them
        parts = (each.get("text") for each in content if isinstance(each, Mapping))
        content = "\n".join(part for part in parts if isinstance(part, str))
    return Message(
        text_of(fields.get("role")) or "?", text_of(content), _calls(fields.get("tool_calls"))
    )


def _calls(calls: object) -> list[tuple[str, str]]:
    found = []
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping):
            inner = call.get("function")
            named = inner if isinstance(inner, Mapping) else call
            found.append((text_of(named.get("name")), text_of(named.get("arguments"))))
    return found
