"""A paper's ``tests/survivors.yaml``: why its tests need not notice some mutants.

The file is a list of {challenge, description or hash, reason}.
Guarantees: an entry that names no challenge, or no mutant of it, is a problem with file and line.
Not covered: whether a reason is a good one; that is for a human to say.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import model_validator

from rcb_env.certify.problem import Problem
from rcb_env.dataset.certified import SURVIVORS
from rcb_env.dataset.metadata import Document, Name, Strict, Words, read_yaml
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import PaperError
from rcb_env.mutation import Mutant, mutants


class _Reason(Strict):
    challenge: Words
    description: Words | None = None
    hash: Name | None = None
    reason: Words

    @model_validator(mode="after")
    def _names_one_mutant(self) -> _Reason:
        if (self.description is None) == (self.hash is None):
            raise ValueError("give either the mutant's description or its hash")
        return self


class Reasons:
    """The reasons of one paper; `problems` holds what is wrong with the file."""

    def __init__(self, paper: Paper) -> None:
        self.problems: list[Problem] = []
        self._reasons: dict[tuple[str, str], str] = {}
        self._places: dict[tuple[str, str], Problem] = {}
        path = paper.root / SURVIVORS
        if not path.is_file():
            return
        try:
            document = read_yaml(path)
            if not isinstance(document.value, list):
                raise document.error("expected a list of {challenge, description or hash, reason}")
            challenges = {challenge.id: challenge for challenge in paper.challenges}
            for number in range(len(document.value)):
                self._add(document, number, challenges)
        except PaperError as error:
            self.problems.append(Problem.of(error))

    def _add(self, document: Document, number: int, challenges: Mapping[str, Challenge]) -> None:
        entry = document.parse(_Reason, number)
        challenge = challenges.get(entry.challenge)
        if challenge is None:
            raise document.error(f"there is no challenge {entry.challenge!r}", number, "challenge")
        for mutant in mutants(challenge.reference):
            if entry.hash == mutant.hash or entry.description == mutant.description:
                key = (challenge.id, mutant.hash)
                self._reasons[key] = entry.reason
                self._places[key] = Problem(
                    document.path,
                    document.line(number),
                    f"the mutant {mutant.description} of {challenge.id} is found by the tests;"
                    " remove this entry",
                )
                return
        raise document.error(
            f"{challenge.id} has no mutant {entry.hash or entry.description!r}; its code has"
            " changed, remove the entry or name the mutant anew",
            number,
        )

    def reason(self, challenge: Challenge, mutant: Mutant) -> str:
        """What the author says about a survivor; "" if nothing."""
        return self._reasons.get((challenge.id, mutant.hash), "")

    def needless(self, challenge: Challenge, mutant: Mutant) -> Problem | None:
        """The problem of a reason for a mutant that fails."""
        return self._places.get((challenge.id, mutant.hash))
