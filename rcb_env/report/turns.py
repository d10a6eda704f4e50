"""The steps of a stored episode, each with what its model said before it.

A trajectory may come from elsewhere, so every record that is used is checked; an agent may have written anything beside.
Not covered: what rows are made of them (`rcb_env.report.training`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rcb_env.errors import StoreError
from rcb_env.runs.durable import JsonLines


class _Record(BaseModel):
    """A record of a trajectory, as far as rows need it; an agent may have written anything beside."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Start(_Record):
    """What the environment told at the start."""

    text: str


class Sampled(_Record):
    """The tokens of a reply, where the server gave them."""

    prompt_ids: list[int] = []
    ids: list[int] = []
    logprobs: list[float] = []
    """Of ``ids``."""


class _Reply(_Record):
    text: str | None = ""
    reasoning: str | None = ""
    tool_calls: list[Any] = []
    reasoning_items: list[Any] = []
    usage: dict[str, Any] = {}
    sampled: Sampled = Sampled()

    @property
    def reasoned(self) -> bool:
        """Whether the model reasoned, shown or not."""
        return bool(self.reasoning or self.reasoning_items or self.usage.get("reasoning_tokens"))


class _ModelCall(_Record):
    reply: _Reply | None = None


class _Tests(_Record):
    status: str | None = None
    passed: int = Field(0, ge=0)
    total: int | None = None
    error_class: str | None = None


class Step(_Record):
    """A tool call and its answer."""

    action: Any
    text: str
    error: bool
    tests: _Tests | None = None
    code_hash: str = ""
    """Of the region after the step."""
    tokens: int = Field(0, ge=0)
    said: str = ""
    """The model's words beside the call."""
    reasoning: str = ""
    sampled: Sampled = Sampled()
    """Of the whole reply."""
    unasked: bool = False
    """An agent made this call for its model, which was asked something else."""
    reasoning_lost: bool = False
    """The model reasoned, and that is not in ``reasoning``."""

    @property
    def called(self) -> Mapping[str, Any] | None:
        """The action, if it names a tool, be it one that exists or not."""
        named = isinstance(self.action, Mapping) and isinstance(self.action.get("tool"), str)
        return self.action if named and self.action["tool"] else None

    @property
    def part_passed(self) -> float | None:
        """Of the cases of its test run; None: nothing was tested, or nobody counted."""
        if self.tests is None or self.tests.status is None:
            return None
        if self.tests.status == "passed":
            return 1.0
        return self.tests.passed / self.tests.total if self.tests.total else None

    @property
    def cut_off(self) -> bool:
        """Whether the call's arguments could not be read: they then stand under no name."""
        return self.called is not None and set(self.called.get("arguments") or ()) == {""}


def read_turns(path: Path, *, steps: bool = True) -> tuple[Start | None, list[Step]]:
    """The start of a trajectory and its steps; both empty where there is no start, as in a run that only graded.

    Args:
        path: the file.
        steps: False: only the start is wanted.

    Raises:
        StoreError: a record is damaged; with file and line.
    """
    start: Start | None = None
    found: list[Step] = []
    reply: _Reply | None = None
    for number, _, record in JsonLines(path).numbered():
        try:
            if record.get("kind") == "start" and "text" in record:
                start = Start.model_validate(record)
                if not steps:
                    break
            elif record.get("kind") == "model_call":
                reply = _ModelCall.model_validate(record).reply
            elif record.get("kind") == "step":
                found.append(_with_words(Step.model_validate(record), reply))
                reply = None
        except ValidationError as error:
            where = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))
            raise StoreError(f"{path}:{number}: the record is damaged ({where})") from None
    return start, found if start else []


def _with_words(step: Step, reply: _Reply | None) -> Step:
    """A step with what its model said.

    Where a model calls tools itself, its words stand beside the first call; where an agent makes the calls, they belong to
    another conversation.
    """
    if reply is None:
        return step
    own = bool(reply.tool_calls) or step.called is None
    words: dict[str, Any] = {}
    if own:
        words = {
            "said": reply.text or "",
            "reasoning": reply.reasoning or "",
            "sampled": reply.sampled,
        }
    lost = reply.reasoned and not words.get("reasoning")
    return step.model_copy(update={**words, "unasked": not own, "reasoning_lost": lost})
