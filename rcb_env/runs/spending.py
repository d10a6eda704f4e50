"""What a whole run may use, in tokens and money, and the end when it has.

Counted is everything that was asked of a model for the run, in all its sessions: what stored
episodes used, those that infrastructure ended included, and what the episodes used that the end of
a session cut off (kept in sessions.jsonl). Replies from the cache cost nothing and are not counted.
A limit in tokens is exact up to the estimate of a prompt, but for calls that several workers make
at once; one in money is passed by the calls under way.
Not counted: what episodes used that a kill cut off, and calls that were cut off themselves.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Protocol

from rcb_env.errors import UsageError
from rcb_env.play.agent import Usage
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.plan import RunConfig, now
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import wrong_usage


class RunBudgetSpent(UsageError):
    """A run has used what it may use, or nobody can tell whether it has.

    Args:
        what: is spent, or cannot be held.
        more: what to give the run, beside --resume, to go on.
    """

    def __init__(
        self, what: str, more: str = "more --run-budget-tokens or --run-budget-usd"
    ) -> None:
        super().__init__(what)
        self.more = more


class Limits(Protocol):
    """What a run may still use, wherever it is added up."""

    @property
    def usage(self) -> Usage:
        """All that was used."""
        ...

    def spend(self, usage: Usage) -> None:
        """Count a model call."""
        ...

    def check(self) -> None:
        """Make sure that another episode may begin."""
        ...

    def room_for_reply(self, prompt_tokens: int) -> int | None:
        """Most tokens that the reply to a prompt may have."""
        ...


class Spending:
    """Adds up what the episodes of a run use; shared by its workers.

    Args:
        config: holds the limits.
        usage: what was used before.
    """

    def __init__(self, config: RunConfig, usage: Usage) -> None:
        self._config = config
        self._lock = threading.Lock()
        self.usage = usage

    def spend(self, usage: Usage) -> None:
        """Count a model call.

        Raises:
            RunBudgetSpent: a limit is passed.
            UsageError: the price is unknown, so a limit in money cannot be held.
        """
        with self._lock:
            self.usage += usage
        self._refuse_excess()

    def check(self) -> None:
        """Make sure that another episode may begin.

        Raises:
            RunBudgetSpent: a limit is passed, or cannot be held as the agent has not reported what it used.
            UsageError: the price is unknown, so a limit in money cannot be held.
        """
        self._refuse_excess()
        used, unheld = self.usage, ""
        if self._config.run_cost_usd is not None and used.cost_usd is None:
            unheld = "--run-budget-usd"
        if self._config.run_tokens is not None and not used.complete:
            unheld = "--run-budget-tokens"
        if unheld:
            raise RunBudgetSpent(
                f"the agent did not report what its model calls used, so {unheld} cannot be held",
                f"{unheld} none",
            )

    def room_for_reply(self, prompt_tokens: int) -> int | None:
        """Most tokens that the reply to a prompt may have; None: any number.

        Raises:
            RunBudgetSpent: the prompt alone is too much.
        """
        limit = self._config.run_tokens
        if limit is None:
            return None
        used = _paid_tokens(self.usage)
        if used + prompt_tokens >= limit:
            raise RunBudgetSpent(
                f"the run's budget of {limit} tokens is spent ({used}), as the next call does not fit"
            )
        return limit - used - prompt_tokens

    def _refuse_excess(self) -> None:
        most_tokens, most_usd = self._config.run_tokens, self._config.run_cost_usd
        used = self.usage
        tokens = _paid_tokens(used)
        if most_tokens is not None and tokens > most_tokens:
            raise RunBudgetSpent(f"the run's budget of {most_tokens} tokens is spent ({tokens})")
        if most_usd is None:
            return
        if used.cost_usd is None and not used.complete:
            return  # what the agent did is kept; no other episode begins
        if used.cost_usd is None:
            raise UsageError(
                "the price of this model is unknown, so the run's budget in money cannot be held:"
                " give --input-price and --output-price, or leave out --run-budget-usd"
            )
        if used.cost_usd > most_usd:
            raise RunBudgetSpent(
                f"the run's budget of {most_usd:g} USD is spent ({used.cost_usd:.4f})"
            )


class RunMeter:
    """What a run has used in all its sessions, and what it may still use.

    Args:
        config: holds the limits.
        store: the run.
    """

    def __init__(self, config: RunConfig, store: RunStore) -> None:
        self._store = store
        self._earlier = sum(_cut_off(store), Usage())
        self.limits: Limits = Spending(config, _stored(store) + self._earlier)

    def note_end(self) -> None:
        """Keep what the episodes have used that now end without a result, if it is anything."""
        stored = _stored(self._store) + self._earlier
        used = self.limits.usage
        known = used.cost_usd is not None and stored.cost_usd is not None
        cut_off = Usage(
            prompt_tokens=used.prompt_tokens - stored.prompt_tokens,
            completion_tokens=used.completion_tokens - stored.completion_tokens,
            cost_usd=max(0.0, (used.cost_usd or 0) - (stored.cost_usd or 0)) if known else None,
            calls=used.calls - stored.calls,
            replayed_calls=used.replayed_calls - stored.replayed_calls,
            replayed_tokens=used.replayed_tokens - stored.replayed_tokens,
            complete=used.complete or not stored.complete,
        )
        if cut_off.calls > cut_off.replayed_calls or _paid_tokens(cut_off) or not cut_off.complete:
            self._store.note_session({"ended_at": now(), "cut_off": dataclasses.asdict(cut_off)})


def _paid_tokens(usage: Usage) -> int:
    return usage.tokens - usage.replayed_tokens


def _stored(store: RunStore) -> Usage:
    return sum((_usage(line["episode"].get("usage")) for line in store.lines()), Usage())


def _cut_off(store: RunStore) -> list[Usage]:
    path = store.folder / "sessions.jsonl"
    found = []
    for number, _, session in JsonLines(path).numbered(store.problems.append):
        if "cut_off" not in session:
            continue
        if flaw := wrong_usage(session["cut_off"]):
            store.problems.append(f"{path}:{number}: what was spent is not known: {flaw}")
        else:
            found.append(_usage(session["cut_off"]))
    return found


def _usage(data: object) -> Usage:
    names = {each.name for each in dataclasses.fields(Usage)}
    known = data if isinstance(data, dict) else {}
    return Usage(**{name: value for name, value in known.items() if name in names})
