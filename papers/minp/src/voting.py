"""Self-consistency: sample several chains of thought, and let their final answers vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean


def self_consistency_accuracy(
    answers: Sequence[Sequence[str | None]], truths: Sequence[str], votes: int
) -> float:
    """Expected accuracy of the majority answer among ``votes`` of the samples of a question.

    Args:
        answers: for each question, the answers of its samples; None where no answer was found.
        truths: for each question, the right answer.
        votes: how many samples vote.

    Raises:
        ValueError: there are no questions, not one truth per question, or a question does not have
            enough samples, or nobody votes.
    """
    # <paper2code name="self-consistency accuracy">
    if not truths or len(answers) != len(truths):
        raise ValueError(f"{len(answers)} questions with {len(truths)} right answers")
    accuracies = []
    for candidates, truth in zip(answers, truths):
        if not 1 <= votes <= len(candidates):
            raise ValueError(f"{votes} votes among {len(candidates)} samples")
        credits = []
        for voters in combinations(candidates, votes):
            # <paper2code name="credit of one vote">
            counts = Counter(answer for answer in voters if answer is not None)
            winners = [answer for answer, n in counts.items() if n == max(counts.values())]
            credits.append(1 / len(winners) if truth in winners else 0.0)
            # </paper2code name="credit of one vote">
        accuracies.append(fmean(credits))
    return fmean(accuracies)
    # </paper2code name="self-consistency accuracy">
