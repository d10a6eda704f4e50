"""Live progress on stderr: two moving lines on a terminal, an occasional plain line elsewhere.

How far it is stays to be seen in a terminal of any usual width: what is cut is what is going on just now.
Thread-safe. Nothing is ever written to stdout, which belongs to results.
Not covered: what the numbers mean; callers say it in words.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rcb_env.cli.output import console, echo

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        self._shown = (-1, -1)
        self._bar: rich.progress.Progress | None = None
        self._row: rich.progress.TaskID | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import RenderableType
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar
            from rich.table import Column
            from rich.text import Text

            class TwoLines(Bar):
                def get_renderables(self) -> Iterator[RenderableType]:
                    yield self.make_tasks_table(self.tasks)
                    for task in self.tasks:
                        if now := task.fields["now"]:
                            yield Text(now, no_wrap=True, overflow="ellipsis")

            self._bar = TwoLines(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn(
                    "{task.fields[status]}",
                    markup=False,
                    table_column=Column(ratio=1, no_wrap=True),
                ),
                console=console(to_stderr=True),
                transient=True,
                expand=True,
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

    def update(self, status: str, done: int, total: int, now: str = "") -> None:
        """Say how far it is.

        Args:
            status: what came of it so far, in a few words.
            done: how many parts are finished.
            total: how many there are.
            now: what is going on just now, on one line.
        """
        with self._lock:
            if self._bar is not None:
                told: dict[str, Any] = {"status": status, "now": now}
                if self._row is None:
                    self._row = self._bar.add_task(self._title, total=total, **told)
                self._bar.update(self._row, completed=done, total=total, **told)
                return
            at = time.monotonic()
            finished = done == total and self._shown != (done, total)
            if finished or at - self._last_plain >= self._plain_every_s:
                self._last_plain = at
                self._shown = (done, total)
                words = "; ".join(filter(None, (status, now)))
                echo(f"{self._title}: {done}/{total} {words}".rstrip(), err=True)

    def note(self, line: str) -> None:
        """Print a line of its own, above the moving one."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False)
            else:
                echo(line, err=True)
