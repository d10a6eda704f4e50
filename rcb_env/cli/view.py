"""`rcb view`: runs in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from rcb_env.cli import completion
from rcb_env.cli.output import echo


@click.command()
@click.argument("folder", metavar="[DIR]", default="runs", shell_complete=completion.folders)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8700,
    show_default=True,
    help="Where to listen; 0 takes a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Any that others can reach asks for the token that is printed with it.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open it in a browser.")
def view(folder: str, port: int, host: str, open_browser: bool) -> None:
    """Show the runs of DIR in a browser, live while they go.

    DIR (by default runs) is a run, or a folder that holds some, up to four folders deep. Pages: all runs, one run with its episodes, an
    episode step by step, a challenge, two runs compared, runs by challenge, and challenges as items. Nothing is changed.
    """
    from rcb_env.errors import UsageError

    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder; name a run, or a folder that holds some")
    try:
        from rcb_env.view import app
        from rcb_env.view.catalog import Catalog
    except ImportError as error:
        raise UsageError(
            f"the viewer needs the package {error.name}: install rcb-env[view]"
        ) from None

    def tell(line: str) -> None:
        echo(line, err=True)
        if open_browser and line.startswith("serving "):
            webbrowser.open(line.removeprefix("serving "))

    app.serve(Catalog(folder), host, port, tell)
