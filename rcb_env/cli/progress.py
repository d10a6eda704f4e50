"""Live progress on stderr: one moving line on a terminal, an occasional plain line elsewhere.

Thread-safe. Nothing is ever written to stdout, which belongs to results.
Not covered: what the numbers mean; callers say it in words.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rcb_env.cli.output import console, echo

if TYPE_CHECKING:
    import rich.progress

_PLAIN_EVERY_S = 10.0


class Progress:
    """How far something is. A context manager.

    Args:
        title: what is being done, in a word or two.
        plain_every_s: least time between plain lines.
    """

    def __init__(self, title: str, *, plain_every_s: float = _PLAIN_EVERY_S) -> None:
        self._title = title
        self._plain_every_s = plain_every_s
        self._last_plain = time.monotonic()
        self._shown = ("", -1, -1)
        self._bar: rich.progress.Progress | None = None
        self._row: rich.progress.TaskID | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[status]}", markup=False),
                console=console(to_stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, status: str, done: int, total: int) -> None:
        """Say how far it is.

        Args:
            status: what is going on, on one line.
            done: how many parts are finished.
            total: how many there are.
        """
        with self._lock:
            if self._bar is not None:
                if self._row is None:
                    self._row = self._bar.add_task(self._title, total=total, status=status)
                self._bar.update(self._row, completed=done, total=total, status=status)
                return
            now = time.monotonic()
            finished = done == total and self._shown[1:] != (done, total)
            if finished or now - self._last_plain >= self._plain_every_s:
                self._last_plain = now
                self._shown = (status, done, total)
                echo(f"{self._title}: {done}/{total} {status}".rstrip(), err=True)

    def note(self, line: str) -> None:
        """Print a line of its own, above the moving one."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False)
            else:
                echo(line, err=True)
