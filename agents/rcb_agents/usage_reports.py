"""What somebody else's program tells of its model calls: lines of JSON, one a call.

A line has any of prompt_tokens, completion_tokens, reasoning_tokens and cost_usd; or ``error``: why
the program could not do its work, for no fault of the model (a refused key, a server that is down).
Guarantees: every line that can be read counts, whatever the others are; what is not reported is
unknown, and never zero.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from rcb_env import Usage

_COUNTS = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
_MOST = 10**15  # tokens or dollars, which nobody ever used


@dataclass(frozen=True)
class Report:
    """All lines together."""

    usage: Usage
    error: str = ""
    """Why the program could not work, in its own words."""
    unreadable: str = ""
    """The first line that is none, and why."""


def read_report(text: str) -> Report:
    """The report that a text holds, line by line."""
    total, error, unreadable = Usage(), "", ""
    for line in filter(str.strip, text.splitlines()):
        try:
            record = json.loads(line)
            if isinstance(record, Mapping) and "error" in record:
                error = error or str(record["error"])[:500]
            else:
                total += _call(record)
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:
            unreadable = unreadable or f"{line[:80]!r} ({problem})"
    if unreadable or not total.calls:
        total = dataclasses.replace(total, cost_usd=None, complete=False)
    return Report(total, error, unreadable)


def _call(record: object) -> Usage:
    if not isinstance(record, Mapping):
        raise ValueError("not a JSON object")
    counts = [_number(record, name) for name in _COUNTS]
    cost = record.get("cost_usd")
    return Usage(
        prompt_tokens=int(counts[0] or 0),
        completion_tokens=int(counts[1] or 0),
        reasoning_tokens=int(counts[2] or 0),
        cost_usd=None if cost is None else _number(record, "cost_usd"),
        calls=1,
        complete=counts[0] is not None and counts[1] is not None,
    )


def _number(record: Mapping[str, object], name: str) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is not a number")
    if not (math.isfinite(value) and 0 <= value <= _MOST):
        raise ValueError(f"{name} is out of range")
    return value
