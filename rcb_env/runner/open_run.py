"""What a run of an open challenge executes: `play` in the submission's box, `judge` in the judge's.

The two talk through the host, one frame at a time (`conversation.py`); a frame is one message (`wire`). Of `play`:

    {"ready": [...]}              the modules that importing it took; the first word
    {"ask": number}               blob: the arguments of an oracle
    {"returned"}                  blob: what the function returned
    {"raised": {...}}             its exception; the last word

and of `judge`:

    {"call": name, "oracles": {argument: number}, "seed"}   blob: the other arguments
    {}                            blob: the answer of an oracle
    {"spent": text}               the oracle's budget does not reach
    {"cost": number, "used"}      the last word
    {"refused": text}             the last word: the submission's fault

Guarantees: problems, oracles, counters and the metric exist in the judge's process only; the submission's holds proxies, which
can do nothing but say {"ask"}. A submission that says these words itself gets what a call would have got.
Not covered: what the host lets through (`grading/measured.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rcb_env import cases, judging
from rcb_env.runner import wire
from rcb_env.runner.case_run import describe, execute, new_imports, parse
from rcb_env.runner.conversation import Over, Voice

MODULE = "start"


class BudgetSpent(RuntimeError):
    """What an oracle raises in a submission that has spent its budget."""


def play(argument: bytes, result: BinaryIO, inbox: BinaryIO) -> None:
    """Import the submission and call its functions as the judge says, until it says no more."""
    parse(argument)
    voice = Voice(result, inbox)
    before = set(sys.modules)
    try:
        sys.path.insert(0, str(Path.cwd()))
        cases.Rng(0)
        module = __import__(MODULE)
        voice.say(wire.pack({"ready": new_imports(before)}))
        while True:
            header, (blob,) = parse(voice.hear())
            arguments = _writable(cases.decode(blob))
            oracles = {name: _proxy(voice, n) for name, n in header["oracles"].items()}
            cases.Rng(header["seed"])
            returned = getattr(module, header["call"])(**arguments, **oracles)
            voice.say(wire.pack({"returned": True}, [cases.encode(returned)]))
    except Over:
        return
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        voice.say_last(wire.pack({"raised": describe(error)}))


def _proxy(voice: Voice, number: int) -> Any:
    def oracle(*arguments: Any) -> Any:
        asked = wire.pack({"ask": number}, [cases.encode(list(arguments))])
        header, blobs = parse(voice.ask(asked))
        if "spent" in header:
            raise BudgetSpent(header["spent"])
        return _writable(cases.decode(blobs[0]))

    return oracle


def _writable(value: Any) -> Any:
    """Arrays of a message, as their new owner may change them."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_writable, value))
    return {k: _writable(v) for k, v in value.items()} if isinstance(value, dict) else value


def families(argument: bytes, result: BinaryIO) -> None:
    """The families of problems of a compiled judge.py, and how many problems each has; one message."""
    _, (code,) = parse(argument)
    found = judging.problems_in(execute(code))
    told = [
        {"name": one.name, "feedback": one.feedback, "final": one.final, "kind": one.kind}
        for one in found
    ]
    result.write(wire.pack({"families": told}))


def judge(argument: bytes, result: BinaryIO, inbox: BinaryIO) -> None:
    """Put one problem to the submission and say what its answer costs.

    Header of the argument: ``family`` and ``seed``; the blob is the compiled judge.py.
    """
    header, (code,) = parse(argument)
    voice = Voice(result, inbox)
    family = next(one for one in judging.problems_in(execute(code)) if one.name == header["family"])
    submission = _Remote(voice, header["seed"])
    try:
        cost = family.cost(family.function(submission, cases.Rng(header["seed"])))
    except judging.Refused as refused:
        voice.say_last(wire.pack({"refused": str(refused)}))
    except Over:
        return  # the submission ended before its time
    else:
        voice.say_last(wire.pack({"cost": cost, "used": submission.used}))


class _Remote:
    """The submission as a problem sees it."""

    def __init__(self, voice: Voice, seed: int) -> None:
        self._voice = voice
        self._calls = 0
        self._over = False
        # Says nothing of the problem's seed to whoever knows how problems are made.
        self._seed = int(np.random.default_rng([seed, 1]).integers(2**31))
        self.used: list[int] = []

    def call(self, function: str, /, **arguments: Any) -> Any:
        """See `judging.Submission.call`."""
        if self._over:
            raise RuntimeError("an oracle has had enough: the submission cannot be called again")
        oracles = {name: one for name, one in arguments.items() if isinstance(one, judging.Oracle)}
        plain = {name: one for name, one in arguments.items() if name not in oracles}
        numbers = {name: number for number, name in enumerate(oracles)}
        header = {"call": function, "oracles": numbers, "seed": self._seed + self._calls}
        self._calls += 1
        self._voice.say(wire.pack(header, [cases.encode(plain)]))
        try:
            return self._serve(list(oracles.values()))
        finally:
            self.used += [one.used for one in oracles.values()]

    def _serve(self, oracles: list[judging.Oracle]) -> Any:
        while True:
            header, (blob,) = parse(self._voice.hear())
            try:
                value = cases.decode(blob)
            except ValueError as error:
                raise judging.Refused(str(error)) from None
            if "ask" not in header:
                return value
            if not 0 <= header["ask"] < len(oracles):
                raise judging.Refused("it called an oracle that is not there")
            asked = oracles[header["ask"]]
            try:
                answer = asked.ask(value)
            except judging.Enough:
                self._over = True
                return None
            if answer is None:
                spent = f"the oracle's budget is spent: {asked.left} point(s) were left"
                self._voice.say(wire.pack({"spent": spent}))
            else:
                self._answer(answer)

    def _answer(self, answer: Any) -> None:
        try:
            self._voice.say(wire.pack({}, [cases.encode(answer)]))
        except ValueError as error:
            raise judging.Refused(f"it asked an oracle for too much: {error}") from None
