"""Completions to choose from: for each challenge its right code and some that the tests refuse."""

from __future__ import annotations

import random
from collections.abc import Iterable

import rcb_env


def candidates(challenges: Iterable[str], wrong: int, seed: int = 0) -> dict[str, list[str]]:
    """One right and ``wrong`` faulty codes for each challenge, in an order that says nothing.

    Faults are those of `rcb_env.mutants`; each is run once, since a fault need not show.
    """
    data = rcb_env.load_dataset()
    drawn = random.Random(seed)
    found: dict[str, list[str]] = {}
    with rcb_env.Grader() as grader:
        for id in challenges:
            challenge = data.challenge(id)
            faulty: list[str] = []
            for mutant in rcb_env.mutants(challenge.reference):
                if len(faulty) == wrong:
                    break
                if not grader.grade(challenge, mutant.code, final=True).passed:
                    faulty.append(mutant.code)
            found[id] = [challenge.reference, *faulty]
            drawn.shuffle(found[id])
            print(f"{id}: a right completion and {len(faulty)} that the tests refuse", flush=True)
    return found
