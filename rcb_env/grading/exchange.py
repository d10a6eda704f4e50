"""The conversation of one problem of an open challenge: what a submission says goes to the judge, and back.

The submission has the first word, then it is one and the other in turn, until one of them has ended or the judge has said what the
answer costs (`runner/open_run.py` has the words). Only what an honest submission could have said is passed on, put into our own words; the rest
ends the conversation.
Not covered: what follows from its end (measured.py).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcb_env.errors import BoxDied
from rcb_env.grading.isolated import messages, read_error
from rcb_env.runner import wire
from rcb_env.sandbox.box import RunResult, Talk


@dataclass(frozen=True)
class Ending:
    """What ended a conversation: a cost, a refusal, an exception of the submission's, or the end of one of the runs."""

    cost: float | None = None
    used: tuple[int, ...] = ()
    refused: str = ""
    raised: Mapping[str, Any] | None = None
    run: RunResult | None = None
    judge_run: RunResult | None = None
    imports: tuple[str, ...] = ()


def exchange(judge: Judge, submission: Talk) -> Ending:
    """The whole conversation. The submission has the first word, then it is one and the other in turn."""
    imports: tuple[str, ...] | None = None
    while True:
        said = submission.hear()
        if isinstance(said, RunResult):
            return Ending(run=said)
        message = _said(said)
        if message is None or ("ready" in message[0]) != (imports is None):
            return Ending(refused="it said something that no honest submission says")
        header, blobs = message
        if "raised" in header:
            return Ending(raised=header["raised"])
        if imports is None:
            imports = tuple(header["ready"])
        else:
            judge.say(wire.pack(header, blobs))
        word = judge.hear()
        if isinstance(word, RunResult):
            return Ending(judge_run=word)
        told = wire.unpack(io.BytesIO(word).read)[0]
        if "cost" in told:
            return Ending(cost=float(told["cost"]), used=tuple(told["used"]), imports=imports)
        if "refused" in told:
            return Ending(refused=str(told["refused"]))
        submission.say(word)


class JudgeDied(Exception):
    """The judge's box is gone or silent; holds its `BoxDied`."""

    def __init__(self, death: BoxDied) -> None:
        super().__init__(str(death))
        self.from_outside = death.from_outside


class Judge:
    """The judge's end of a conversation; what dies there is never the submission's box."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def hear(self) -> bytes | RunResult:
        """See `Talk.hear`; raises JudgeDied."""
        try:
            return self._talk.hear()
        except BoxDied as error:
            raise JudgeDied(error) from None

    def say(self, data: bytes, *, last: bool = False) -> None:
        """See `Talk.say`; raises JudgeDied."""
        try:
            self._talk.say(data, last=last)
        except BoxDied as error:
            raise JudgeDied(error) from None


def last_word(talk: Talk | Judge) -> RunResult:
    """Say the last word, and hear how it ended."""
    talk.say(b"", last=True)
    while not isinstance(heard := talk.hear(), RunResult):
        pass
    return heard


def _said(frame: bytes) -> wire.Message | None:
    """What a submission may say, in the words of `open_run`; None for anything else."""
    found = next(messages(frame), None)
    if found is None:
        return None
    header, blobs = found
    if "raised" in header:
        error = read_error(header["raised"])
        return None if error is None else ({"raised": error}, [])
    names = header.get("ready")
    if isinstance(names, list):
        return ({"ready": names}, []) if all(isinstance(name, str) for name in names) else None
    if len(blobs) != 1:
        return None
    if header.get("returned") is True:
        return {"returned": True}, blobs
    number = header.get("ask")
    return ({"ask": number}, blobs) if type(number) is int else None
