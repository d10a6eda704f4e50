"""`rcb pull`: get a published data set into the user's cache."""

from __future__ import annotations

import click

from rcb_env.cli import completion
from rcb_env.cli.output import echo


@click.command()
@click.argument("name", metavar="NAME", shell_complete=completion.published)
@click.option(
    "--from",
    "source",
    metavar="PATH|URL",
    help="A mirror or a local clone to copy from.  [default: the data set's own repository]",
)
def pull(name: str, source: str | None) -> None:
    """Download a published data set (researchcodebench) once. Then --dataset NAME works everywhere.

    The copy is one pinned commit in your cache folder, checked to be what was published. If you pull again, rcb checks
    the copy and replaces it if it was changed.
    """
    from rcb_env.dataset.published import PUBLISHED
    from rcb_env.dataset.pull import pull as pull_now
    from rcb_env.errors import unknown

    if name not in PUBLISHED:
        raise unknown("data set", name, PUBLISHED)
    wanted = PUBLISHED[name]
    folder, fetched = pull_now(wanted, source, tell=lambda line: echo(line, err=True))
    held = f"{wanted.papers} papers, {wanted.challenges} challenges, {wanted.lines:,} lines"
    echo(f"{name}: {held}, in {folder}" + ("" if fetched else " (it was there already)"))
