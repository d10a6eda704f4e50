"""The one way out to a terminal: everything `rcb` prints goes through `echo` or a `console`.

Guarantees: what control characters are in a text (from a model, a server, tested code, or a run folder from elsewhere) is
shown as an escape and does nothing to the terminal. Colours and progress bars are ours and still work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from rcb_env.report.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 140


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text to stdout or stderr."""
    click.echo(printable(str(text)), err=err, nl=nl)


def console(*, to_stderr: bool = False) -> Console:
    """A console for tables and progress, wide enough where there is no terminal to ask."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Safe(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable(segment.text), segment.style)

    made = Safe(stderr=to_stderr)
    return made if made.is_terminal else Safe(stderr=to_stderr, width=_WIDTH_WITHOUT_TERMINAL)
