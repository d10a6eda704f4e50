"""`rcb new`: start a paper."""

from __future__ import annotations

from pathlib import Path

import click

from rcb_env.cli.output import echo


@click.command()
@click.argument("paper")
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    default=Path("drafts"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the data set. It is made if there is none.",
)
def new(paper: str, dataset: Path) -> None:
    """Make a folder for a new paper with the id PAPER, and add it to the data set's papers.yaml.

    The folder holds every file a paper needs, and an example that passes its tests. `rcb check` lists what you still
    have to write. `rcb suggest` proposes regions of the paper's code. A run plays all papers of its data set, so keep
    an unfinished paper in a data set of its own.
    """
    from rcb_env.author.scaffold import create
    from rcb_env.dataset import bundled

    for path in create(paper, dataset):
        echo(f"wrote {path}")
    echo(f"\nWhat remains to be written: rcb check --dataset {dataset} {paper}")
    echo(f"Regions for its code:        rcb suggest {dataset / paper / 'src' / 'example.py'}")
    default = dataset.resolve() == bundled.folder("papers").resolve()
    chosen = "without --dataset" if default else f"with --dataset {dataset}"
    echo(f"It is listed and played already, finished or not: rcb list, rcb run {chosen}")
