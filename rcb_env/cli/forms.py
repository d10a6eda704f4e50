"""Forms of a report beside tables in a terminal: one HTML file, charts as files, Markdown, LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rcb_env.cli import completion
from rcb_env.cli.output import echo

if TYPE_CHECKING:
    from rich.console import Console

    from rcb_env.report.sheet import Sheet
    from rcb_env.view.document import Section

_Command = TypeVar("_Command", bound=Callable[..., object])
_OPTIONS = (
    click.option(
        "--html",
        metavar="FILE",
        shell_complete=completion.files,
        help="Write one file with charts and tables that needs nothing else.",
    ),
    click.option(
        "--charts",
        metavar="DIR",
        shell_complete=completion.folders,
        help="Write the charts as SVG, PNG, PDF and Vega-Lite.",
    ),
    click.option("--markdown", is_flag=True, help="Print the tables as Markdown."),
    click.option(
        "--latex", is_flag=True, help="Print the tables as LaTeX, for the package booktabs."
    ),
)


def options(command: _Command) -> _Command:
    """The options of all forms."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def give(
    given: dict[str, Any],
    title: str,
    sheets: Callable[[], Sequence[Sheet]],
    sections: Callable[[Any], Sequence[Section]],
) -> bool:
    """Write and print the forms that were asked for; False: none was.

    Args:
        given: values of `options`.
        title: of the page.
        sheets: makes the tables.
        sections: makes tables and charts, by the module `rcb_env.view.document`.

    Raises:
        UsageError: a package for it is missing.
        StoreError: a file cannot be written.
    """
    html, folder = given["html"], given["charts"]
    if given["markdown"] or given["latex"]:
        from rcb_env.report.sheet import to_latex, to_markdown

        made = sheets()
        if given["markdown"]:
            echo(to_markdown(made), nl=False)
        if given["latex"]:
            echo(to_latex(made), nl=False)
    if html is not None or folder is not None:
        _with_charts(html, folder, title, sections)
    return bool(html or folder or given["markdown"] or given["latex"])


def _with_charts(
    html: str | None, folder: str | None, title: str, sections: Callable[[Any], Sequence[Section]]
) -> None:
    from rcb_env.errors import StoreError, UsageError

    try:
        from rcb_env.view import document, drawn
    except ImportError as error:
        raise UsageError(
            f"charts need the package {error.name}: install rcb-env[view], or use --markdown"
        ) from None
    made = sections(document)
    if html is not None:
        try:
            Path(html).write_text(document.html(title, made), "utf-8", "backslashreplace")
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreError(f"cannot write {html}: {why}; name another file") from error
        echo(f"wrote {html}", err=True)
    if folder is not None:
        charts = [chart for section in made for chart in section.charts]
        written = drawn.save(charts, folder)
        echo(f"wrote {len(written)} files to {folder}", err=True)


def show(shown: Console, sheets: Sequence[Sheet]) -> None:
    """Print sheets as tables in a terminal."""
    from rich.markup import escape
    from rich.table import Table

    for sheet in sheets:
        table = Table(title=escape(sheet.title), title_justify="left")
        for number, name in enumerate(sheet.columns):
            table.add_column(escape(name), justify="right" if number else "left", overflow="fold")
        for row in sheet.rows:
            table.add_row(*map(escape, row))
        shown.print(table)
        if sheet.note:
            shown.print(sheet.note, markup=False, highlight=False, soft_wrap=True)
