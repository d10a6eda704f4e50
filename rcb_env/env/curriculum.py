"""A sampler of challenges that follows the policy's own success: what it solves now and then is what it learns from.

It keeps the last results of each challenge, and draws among those whose mean lies in a range, 0.2 to 0.8 unless told otherwise. Of
what has too few results nothing is known, so it is drawn as well; and now and then any challenge is, so that one that was too
hard, or too easy, comes back. Where nothing lies in the range, the nearest to it are drawn::

    curriculum = Curriculum(challenges_of(split="train"))
    observation, info = env.reset(options={"challenge": curriculum.draw()})
    ...
    curriculum.tell(info["challenge"], reward)

Guarantees: the same results in the same order give the same draws; `state` is JSON, and a sampler that is given it goes on as
this one would. Infrastructure that failed says nothing: do not tell it.
Not covered: challenges by what others make of them (`rcb_env.dataset.difficulty`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.scopes import in_scope
from rcb_env.dataset.selection import Selection
from rcb_env.errors import UsageError


class Curriculum:
    """Draws challenges by what became of them.

    Args:
        challenges: their ids.
        keep: the range of mean results in which a challenge is worth playing.
        window: how many results of a challenge are looked at.
        least: with fewer, nothing is known of it.
        explore: how often any challenge is drawn, from 0 to 1.
        seed: of the draws.

    Raises:
        UsageError: there is no challenge, one is there twice, or a number makes no sense.
    """

    def __init__(
        self,
        challenges: Sequence[str],
        *,
        keep: tuple[float, float] = (0.2, 0.8),
        window: int = 16,
        least: int = 4,
        explore: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.challenges = tuple(challenges)
        if not self.challenges or len(set(self.challenges)) != len(self.challenges):
            raise UsageError("a curriculum needs challenges, each of them once")
        if not (0 <= keep[0] <= keep[1] <= 1 and 1 <= least <= window and 0 <= explore <= 1):
            raise UsageError(
                f"a curriculum keeps {keep} of the last {window} results, knows nothing with fewer than {least}, and explores"
                f" {explore}: the first and the last are from 0 to 1, and least is at most window"
            )
        self._keep, self._least, self._explore = keep, least, explore
        self._results = {one: deque[float](maxlen=window) for one in self.challenges}
        self._generator = np.random.default_rng(seed)

    def draw(self) -> str:
        """The next challenge to play."""
        among = self.challenges
        if self._generator.random() >= self._explore:
            away = {one: self._away(one) for one in self.challenges}
            nearest = min(away.values())
            among = tuple(one for one, distance in away.items() if distance == nearest)
        return among[int(self._generator.integers(len(among)))]

    def tell(self, challenge: str, result: float) -> None:
        """What an episode came to, from 0 to 1: its reward, or whether it was solved.

        Raises:
            UsageError: the challenge is none of these.
        """
        if challenge not in self._results:
            raise UsageError(f"{challenge} is none of the curriculum's challenges")
        self._results[challenge].append(float(result))

    def rate(self, challenge: str) -> float | None:
        """The mean of a challenge's last results; None: too few are known."""
        results = self._results[challenge]
        return sum(results) / len(results) if len(results) >= self._least else None

    def state(self) -> dict[str, Any]:
        """All that later draws depend on, as JSON can hold it."""
        return {
            "results": {one: list(results) for one, results in self._results.items() if results},
            "generator": self._generator.bit_generator.state,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. What it knows of challenges that are not here is forgotten, new ones are unknown."""
        for one, results in self._results.items():
            results.clear()
            results.extend(state["results"].get(one, ()))
        self._generator.bit_generator.state = state["generator"]

    def _away(self, challenge: str) -> float:
        """How far its rate is from the range; 0: it is to be played."""
        rate = self.rate(challenge)
        return 0.0 if rate is None else max(self._keep[0] - rate, rate - self._keep[1], 0.0)


def challenges_of(
    dataset: str = "bundled", *, scope: str | None = None, **selection: Any
) -> tuple[str, ...]:
    """The ids of the challenges that some settings choose, in the order of the data set.

    Args:
        dataset: "bundled", or another one's name or folder.
        scope: as of an environment.
        selection: fields of `rcb_env.dataset.selection.Selection`, such as ``split="train"`` or ``difficulty=(0.2, 0.8)``.

    Raises:
        UsageError: a setting makes no sense, or no challenge fits.
    """
    return tuple(
        one.id for one in Selection.of(selection).among(load_dataset(in_scope(dataset, scope)))
    )
