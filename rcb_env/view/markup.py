"""Templates, and what they are filled with: numbers, times and states in words.

Guarantees: every text that is filled in is harmless (`texts.plain`) and escaped; only `Markup` that this package made is
taken as it is.
Not covered: which page shows what (`pages.py`).
"""

from __future__ import annotations

import functools
import importlib.resources
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rcb_env.report.scoring import STATES, Rate
from rcb_env.view import texts

if TYPE_CHECKING:
    import jinja2

_LARGEST = 1e18

MARKS: Mapping[str, str] = {
    "passed": "✓",
    "failed": "✗",
    "timeout": "◷",
    "out_of_memory": "▲",
    "invalid": "∅",
    "no_change": "=",
    "tampered": "⚑",
    "infra_error": "↯",
    "missing": "·",
}
"""A sign for each state, so that none is told by its colour alone."""


@functools.cache
def environment() -> jinja2.Environment:
    """Our templates."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("rcb_env.view"),
        autoescape=True,
        finalize=_filled_in,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(MARKS=MARKS, STATES=STATES, address=address, cut=texts.cut)
    made.filters.update(
        amount=amount,
        code=texts.code,
        json=texts.as_json,
        markdown=texts.markdown,
        money=money,
        percent=percent,
        rate=rate,
        interval=interval,
        seconds=seconds,
        state=lambda state: str(state).replace("_", " "),
    )
    return made


def fill(template: str, **context: Any) -> str:
    """A page."""
    return environment().get_template(template).render(**context)


def prepare() -> None:
    """Read all templates now."""
    for name in environment().list_templates():
        environment().get_template(name)


def asset(name: str) -> bytes:
    """One of our files that pages load.

    Raises:
        FileNotFoundError: it is none of them.
    """
    folder = importlib.resources.files("rcb_env.view") / "static"
    if name not in {each.name for each in folder.iterdir()}:
        raise FileNotFoundError(name)
    return (folder / name).read_bytes()


def address(page: str, run: str = "", /, **query: Any) -> str:
    """The address of a page.

    Args:
        page: its name.
        run: which run it is about.
        query: what else it is about; None is left out, a list is there several times.
    """
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, str(each)) for each in values if each is not None]
    path = "/" + "/".join(filter(None, (page, urllib.parse.quote(run, errors="surrogateescape"))))
    return path + (f"?{urllib.parse.urlencode(pairs, errors='backslashreplace')}" if pairs else "")


def amount(value: float | None) -> str:
    """A number for people."""
    if value is None or not _can_be_shown(value):
        return "n/a"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def money(value: float | None) -> str:
    """US dollars."""
    if value is None or not _can_be_shown(value):
        return "unknown"
    return f"${value:,.2f}" if value >= 10 or value == 0 else f"${value:.4f}"


def percent(value: float | None) -> str:
    """A rate."""
    return "n/a" if value is None else f"{value:.1f}"


def rate(value: Rate | None) -> str:
    """A rate, with its bounds where something is open."""
    if value is None or value.value is None:
        return "n/a"
    return (
        percent(value.value)
        if value.exact
        else f"{value.value:.1f} ({value.low:.1f} to {value.high:.1f})"
    )


def interval(value: Rate | None) -> str:
    """The interval of a rate."""
    if value is None or value.interval is None:
        return "n/a"
    return f"{value.interval.low:.1f} to {value.interval.high:.1f}"


def seconds(value: float | None) -> str:
    """A time."""
    if value is None or not _can_be_shown(value):
        return "n/a"
    if 0 < value < 0.001:
        return "< 1 ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _can_be_shown(value: float) -> bool:
    """JSON holds numbers that are none, and whole ones of any length."""
    return -_LARGEST < value < _LARGEST


def _filled_in(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    return "" if value is None else texts.plain(value)
