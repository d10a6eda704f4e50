"""Live progress on stderr: a few lines that are drawn anew on a terminal, an occasional plain line elsewhere.

Guarantees:
- Telling costs nothing: what is shown is worked out a few times a second, by a thread of its own, and only on a terminal.
- How far it is stays to be seen in a terminal of any size: what is cut, or left out, is what is going on just now.
- The cursor is never hidden, so that a process that is killed leaves a terminal as it was.
- Nothing is ever written to stdout, which belongs to results. Thread-safe.
Not covered: what the numbers mean; callers say it in words.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from rcb_env.cli.output import console, echo
from rcb_env.report.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

_PLAIN_EVERY_S = 10.0
_PER_SECOND = 4
_BAR = 24
_WIDE = 64
"""Columns from which on there is room for a bar."""
_SPARE = 3  # columns at the end of lines, where a terminal shows a Ctrl-C as ^C


@dataclass(frozen=True)
class Look:
    """What is to be seen of something that goes on."""

    status: str
    """What came of it so far, in a few words."""
    facts: tuple[str, ...] = ()
    """More of that, each in a few words."""
    now: str = ""
    """What is going on just now, on one line."""
    rows: tuple[tuple[str, str, str], ...] = ()
    """The same in more detail: who, what, and how that goes."""


class Progress:
    """How far something is. A context manager.

    Args:
        title: what is being done, in a word or two.
        live: whether it may be drawn anew on a terminal; else there are plain lines.
        plain_every_s: least time between plain lines.
        verbose: also a line for each part of `update` that is finished.
    """

    def __init__(
        self,
        title: str,
        *,
        live: bool = True,
        plain_every_s: float = _PLAIN_EVERY_S,
        verbose: bool = False,
    ) -> None:
        self._title = title
        self._plain_every_s = plain_every_s
        self._verbose = verbose
        self._look: Callable[[], Look] = lambda: Look("")
        self._done = self._total = 0
        self._first: tuple[int, float] | None = None
        self._last_plain = self._began = time.monotonic()
        self._plain_done = (-1, -1)
        self._noted = ""
        self._lock = threading.RLock()
        self._console: Console | None = None
        self._live: Live | None = None
        if live and sys.stderr.isatty():
            there = console(to_stderr=True)
            self._console = there if there.is_interactive else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, status: str, done: int, total: int) -> None:
        """Say how far it is, in one part after the other.

        Args:
            status: what is done in this part.
            done: how much of it is finished.
            total: how much there is.
        """
        line = f"{self._title}: {status} {done}/{total}"
        if self._verbose and done == total and line != self._noted:
            self._noted = line
            self.note(line)
        self.show(done, total, lambda: Look(status))

    def show(self, done: int, total: int, look: Callable[[], Look]) -> None:
        """Say how far it is.

        Args:
            done: how many parts are finished.
            total: how many there are.
            look: works out what else is to be seen; called if it is shown.
        """
        with self._lock:
            if self._first is None or total != self._total or done < self._done:
                self._first = done, time.monotonic()
            self._done, self._total = done, total
            self._look = functools.cache(look)
            if self._console is None:
                self._tell_plainly()
            elif self._live is None:
                self._live = self._started(self._console)

    def note(self, line: str) -> None:
        """Print a line of its own, above those that are drawn anew."""
        if self._console is None:
            echo(line, err=True)
        else:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    # --- without a terminal -----------------------------------------------------------------------

    def _tell_plainly(self) -> None:
        at = time.monotonic()
        reached = (self._done, self._total)
        finished = self._done == self._total and self._plain_done != reached
        if finished or at - self._last_plain >= self._plain_every_s:
            self._last_plain = at
            self._plain_done = reached
            look = self._look()
            words = "; ".join(filter(None, (look.status, *look.facts, look.now, self._left())))
            echo(f"{self._title}: {self._done}/{self._total} {words}".rstrip(), err=True)

    # --- on a terminal ----------------------------------------------------------------------------

    def _started(self, there: Console) -> Live:
        from rich.live import Live

        live = Live(
            get_renderable=self._drawn,
            console=there,
            refresh_per_second=_PER_SECOND,
            transient=True,
        )
        live.start()
        there.show_cursor(True)
        return live

    def _drawn(self) -> RenderableType:
        """The lines; fewer of them, and shorter ones, where there is little room."""
        from rich.console import Group
        from rich.constrain import Constrain

        assert self._console is not None
        width, height = self._console.size
        width = max(1, width - _SPARE)
        look = self._look()
        lines = [self._bar(width)]
        for text in (look.status, *(look.facts if width < _WIDE else ("; ".join(look.facts),))):
            if text:
                lines.append(_line(text))
        if look.rows:
            lines += _table(look.rows, width, height - len(lines) - 1)
        elif look.now:
            lines.append(_line(look.now))
        return Constrain(Group(*lines[: max(1, height - 1)]), width)

    def _bar(self, width: int) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        count = f"{self._done}/{self._total}"
        took = _clock(time.monotonic() - self._began)
        words = [count]
        for more, least in ((took, 24), (self._left(), _WIDE)):
            if more and width >= least:
                words.append(more)
        room = width - sum(len(word) + 1 for word in words)
        cells: list[RenderableType] = [*words]
        if width >= _WIDE:
            room -= _BAR + 1
            cells.insert(0, ProgressBar(self._total or 1, self._done, width=_BAR))
        grid = Table.grid(padding=(0, 1))
        for _ in range(len(cells) + 1):
            grid.add_column(no_wrap=True)
        title = _line(self._title)
        title.truncate(max(1, room), overflow="ellipsis")
        grid.add_row(title, *cells)
        return grid

    def _left(self) -> str:
        """How long it will take, if it goes on as it did; "" where nothing tells."""
        if self._first is None:
            return ""
        before, since = self._first
        made, took = self._done - before, time.monotonic() - since
        if made <= 0 or self._done >= self._total:
            return ""
        return f"about {_span(took / made * (self._total - self._done))} left"


def _table(rows: tuple[tuple[str, str, str], ...], width: int, most: int) -> list[RenderableType]:
    """As many rows as there is room for, and how many more there are; who it is only where there is room."""
    shown = rows if len(rows) <= most else rows[: max(0, most - 1)]
    lines: list[RenderableType] = []
    names = [_line(row[1]) for row in shown]
    widest = min(max((name.cell_len for name in names), default=0), max(12, width // 2))
    for (who, _, how), name in zip(shown, names, strict=True):
        name.truncate(widest, overflow="ellipsis", pad=True)
        line = _line(f"{who} " if width >= _WIDE else "")
        lines.append(line.append_text(name).append_text(_line(f" {how}")))
    if len(shown) < len(rows):
        lines.append(_line(f"and {len(rows) - len(shown)} more"))
    return lines


def _line(text: str) -> Text:
    """A text on one line, whatever is in it."""
    from rich.text import Text

    return Text(re.sub(r"\s", " ", printable(text)), no_wrap=True, overflow="ellipsis")


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"


def _span(seconds: float) -> str:
    """A length of time in words, as exact as a guess may be."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h" if seconds < 129_600 else f"{round(seconds / 86_400)} days"
