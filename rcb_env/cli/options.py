"""Options that mean the same wherever they occur."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., object])


def split_commas(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """``--papers a,b --papers c`` is a, b and c; what names nothing is refused, as it would mean everything."""
    names: dict[str, None] = {}
    for value in values:
        named = [name.strip() for name in value.split(",") if name.strip()]
        if not named:
            raise click.BadParameter("it is empty; name at least one, or leave it out")
        names |= dict.fromkeys(named)
    return tuple(names)


dataset = click.option(
    "--dataset",
    default="bundled",
    show_default=True,
    metavar="NAME|FOLDER",
    help="The papers: `bundled`, `researchcodebench` (after `rcb pull`), or a folder with papers.yaml.",
)
papers = click.option(
    "--papers",
    multiple=True,
    callback=split_commas,
    metavar="A,B",
    help="Only challenges of these papers.",
)
challenges = click.option(
    "--challenges",
    multiple=True,
    callback=split_commas,
    metavar="X,Y",
    help="Only these challenges.",
)
as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="For scripts: JSON on stdout, everything else on stderr.",
)
extractor = click.option(
    "--extractor",
    type=click.Choice(("robust", "official")),
    default="robust",
    show_default=True,
    help="How code is found in replies: official is the public benchmark's rule.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Print only what is wrong, and progress.")
sandbox = click.option(
    "--sandbox",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Where code runs: auto, docker or bubblewrap; `rcb doctor` says what works here.",
)
workers = click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many episodes are played at once.",
)


def selection(command: _Command) -> _Command:
    """Add ``--dataset``, ``--papers`` and ``--challenges``."""
    return dataset(papers(challenges(command)))
