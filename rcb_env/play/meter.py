"""What an episode has used, and whether that is too much."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rcb_env.env.settings import Budgets
from rcb_env.errors import UsageError
from rcb_env.play.agent import BudgetSpent, Spent, Usage


@dataclass
class Meter:
    """Adds up usage and says when a budget is gone."""

    budgets: Budgets
    told: Callable[[Usage], None] | None = None
    """Who else is told about every model call; may raise what ends more than this episode."""
    usage: Usage = field(default_factory=Usage)
    began: float = field(default_factory=time.monotonic)
    _charged: int = 0

    def elapsed_s(self) -> float:
        """Since the episode began."""
        return time.monotonic() - self.began

    def seconds_left(self) -> float | None:
        """Of the wall-time budget; None: there is none."""
        limit = self.budgets.wall_s
        return None if limit is None else limit - self.elapsed_s()

    def room_for_reply(self, prompt_tokens: int) -> int | None:
        """Most tokens that the reply to a prompt may have; None: any number.

        Raises:
            BudgetSpent: the prompt alone is too much.
        """
        limit = self.budgets.tokens
        if limit is None:
            return None
        room = limit - self.usage.tokens - prompt_tokens
        if room < 1:
            raise BudgetSpent("tokens_spent")
        return room

    def new_tokens(self) -> int:
        """Of the model calls since this was asked before."""
        new = self.usage.tokens - self._charged
        self._charged += new
        return new

    def spent(self) -> Spent | None:
        """The budget that is gone, if one is."""
        limits = self.budgets
        if limits.tokens is not None and self.usage.tokens > limits.tokens:
            return "tokens_spent"
        if limits.cost_usd is not None and (self.usage.cost_usd or 0.0) > limits.cost_usd:
            return "cost_spent"
        if limits.wall_s is not None and self.elapsed_s() > limits.wall_s:
            return "wall_time_spent"
        return None

    def spend(self, usage: Usage) -> None:
        """Count a model call.

        Raises:
            BudgetSpent: a budget is gone.
            UsageError: a cost budget is set and the price is unknown.
        """
        self.usage += usage
        if self.told is not None:
            self.told(usage)
        if self.budgets.cost_usd is not None and self.usage.cost_usd is None:
            raise UsageError(
                "the price of this model is unknown, so a cost budget cannot be held:"
                " give --input-price and --output-price, or drop the budget"
                if self.usage.complete
                else "the agent did not report what its model calls cost, so --budget-usd cannot be held:"
                " start a run without it"
            )
        if reason := self.spent():
            raise BudgetSpent(reason)
