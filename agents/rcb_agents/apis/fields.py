"""Fields of a body as what they should be, whatever a server has put there. Pure; nothing here raises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_MOST_TOKENS = 10**12  # of one call; more is no count
_MOST_USD = 1e6


def given(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is None."""
    return {name: value for name, value in wanted.items() if value is not None}


def text_of(value: object) -> str:
    """A text, or the texts of a list of parts; "" for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text_of(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def mapping(value: object) -> Mapping[str, Any]:
    """The mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The items of a list, as mappings."""
    return [mapping(each) for each in value] if isinstance(value, list) else []


def count(*values: object) -> int | None:
    """The first that is a number of tokens."""
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS:
            return value
    return None


def whole_numbers(value: object) -> list[int]:
    """A list of whole numbers; empty for anything else."""
    numbers = value if isinstance(value, list) else []
    return numbers if all(type(each) is int for each in numbers) else []


def usd(value: object) -> float | None:
    """An amount of money, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    amount = float(value) if -_MOST_USD < value < _MOST_USD else math.nan
    return amount if amount >= 0 else None
