"""A paper's ``tests/answers.yaml``: answers other than the reference, and whether they are right by the text.

The file is a list of {challenge, right or wrong, change or code}. ``wrong`` says which sentence of the text an answer
breaks, ``right`` in what way it is written; ``change`` turns the region's own code into the answer (every text on the left
becomes the one on the right), ``code`` is the answer as it is.
Guarantees: an entry whose challenge, or whose text on the left, is no longer there is a problem with file and line. The file
is never part of what an agent sees or of what runs: a paper's tests are `cases.py` and `checks.py` alone.
Not covered: grading them (`run.py`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import model_validator

from rcb_env.certify.problem import Problem
from rcb_env.dataset.certified import ANSWERS
from rcb_env.dataset.metadata import Document, Strict, Words, read_yaml
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import PaperError
from rcb_env.grading.verdict import Verdict

# It gives something else, or refuses by an error of its own; else it broke down.
_REFUSED = tuple(f"failed {kind}" for kind in ("value", "shape", "type", "other"))


class _Entry(Strict):
    challenge: Words
    right: Words | None = None
    wrong: Words | None = None
    change: Mapping[str, str] | None = None
    code: Words | None = None

    @model_validator(mode="after")
    def _says_one_of_each(self) -> _Entry:
        if (self.right is None) == (self.wrong is None):
            raise ValueError("give either `right` or `wrong`")
        if (self.change is None) == (self.code is None):
            raise ValueError("give either `change` or `code`")
        return self


@dataclass(frozen=True)
class Answer:
    """One answer, and what its author says of it."""

    challenge: Challenge
    code: str
    right: bool
    what: str
    path: str
    line: int

    def misjudged(self, ending: str) -> Problem | None:
        """What is wrong if it was graded like this; a wrong answer must do something else, and not break down.

        Args:
            ending: the verdict's status and error class, as `ending` words them.
        """
        if ending in (("passed",) if self.right else _REFUSED):
            return None
        kind = "right" if self.right else "wrong"
        ends = "passes; add a case that refuses it" if ending == "passed" else f"ends as: {ending}"
        message = f"the {kind} answer {self.what!r} to {self.challenge.id} {ends}"
        return Problem(self.path, self.line, message)


def ending(verdict: Verdict) -> str:
    """A verdict's status and, of one that failed, the class of its error."""
    return f"{verdict.status} {verdict.error_class or ''}".strip()


class Answers:
    """The answers of one paper; `problems` holds what is wrong with the file."""

    def __init__(self, paper: Paper) -> None:
        self.problems: list[Problem] = []
        self.entries: list[Answer] = []
        path = paper.root / ANSWERS
        if not path.is_file():
            return
        try:
            document = read_yaml(path)
            if not isinstance(document.value, list):
                raise document.error(
                    "expected a list of {challenge, right or wrong, change or code}"
                )
            challenges = {challenge.id: challenge for challenge in paper.challenges}
            for number in range(len(document.value)):
                self.entries.append(_answer(document, number, challenges))
        except PaperError as error:
            self.problems.append(Problem.of(error))


def _answer(document: Document, number: int, challenges: Mapping[str, Challenge]) -> Answer:
    entry = document.parse(_Entry, number)
    challenge = challenges.get(entry.challenge)
    if challenge is None:
        raise document.error(f"there is no challenge {entry.challenge!r}", number, "challenge")
    code = challenge.reference
    for old, new in (entry.change or {}).items():
        if old not in code:
            raise document.error(
                f"{challenge.id} no longer holds {old!r}; word the change anew", number, "change"
            )
        code = code.replace(old, new)
    if entry.code is not None:
        code = textwrap.indent(entry.code, challenge.region.indent)
    what = entry.right or entry.wrong or ""
    line = document.line(number)
    return Answer(challenge, code, entry.right is not None, what, document.path, line)
