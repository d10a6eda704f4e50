"""`rcb suggest`: which parts of a file would make good challenges."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo

if TYPE_CHECKING:
    from rcb_env.author.suggest import Proposal


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--apply",
    "numbers",
    multiple=True,
    callback=options.split_commas,
    metavar="1,3",
    help="Write tags for these proposals into FILE.",
)
@options.as_json
def suggest(file: Path, numbers: tuple[str, ...], as_json: bool) -> None:
    """Propose regions of FILE, best first, and the files that agents should see beside it.

    It proposes functions, loops, conditionals and `with` blocks. It shows their lines of code and how many small faults
    can be made in them: if little can go wrong in a region, it hardly tells agents apart. INSIDE is the number of the
    proposal around it. Choose for yourself and write the hints yourself: the proposals are a start.
    """
    from rcb_env.author.suggest import context, paper_folder, proposals, tagged, to_annotate
    from rcb_env.errors import UsageError

    text = file.read_bytes().decode("utf-8", "surrogateescape")
    found = proposals(text, path=str(file))
    needed = context(file)
    written = []
    left = ""
    if numbers:
        left = to_annotate(file)
        valid = {str(number): one for number, one in enumerate(found, start=1)}
        if wrong := [number for number in numbers if number not in valid]:
            raise UsageError(
                f"there is no proposal {', '.join(wrong)}; `rcb suggest {file}` numbers them"
            )
        written = [valid[number] for number in numbers]
        new = tagged(text, written, path=str(file))
        file.write_bytes(new.encode("utf-8", "surrogateescape"))
    if as_json:
        told = [{"number": n, **dataclasses.asdict(one)} for n, one in enumerate(found, start=1)]
        applied = [one.name for one in written]
        answer = {"file": str(file), "paper": str(paper_folder(file)), "proposals": told}
        more = {"context": needed, "applied": applied, "to_annotate": left}
        echo(json.dumps({**answer, **more}))
        return
    if written:
        for one in written:
            echo(f"tagged {file}:{one.start}: {one.name}")
        if left:
            echo(f"add {left} to annotated in {paper_folder(file) / 'paper.yaml'}")
    else:
        _print_table(found)
    echo(f"\ncontext: [{', '.join(needed)}]")


def _print_table(found: tuple[Proposal, ...]) -> None:
    if not found:
        echo("nothing to propose: no function, loop, conditional or with block of fitting size")
        return
    rows = [["#", "PLACE", "LINES", "FAULTS", "KIND", "INSIDE", "NAME"]]
    for number, one in enumerate(found, start=1):
        inside = "" if one.inside is None else str(one.inside)
        place = f"{one.start}-{one.end}"
        rows.append(
            [str(number), place, str(one.lines), str(one.faults), one.kind, inside, one.name]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        echo("  ".join(cells).rstrip())
