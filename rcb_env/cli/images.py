"""`rcb images`: the packages of boxes as Docker images, for the docker sandbox."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo


@click.group()
def images() -> None:
    """Build, list and remove the Docker images of boxes (bubblewrap needs none)."""


@images.command()
@click.argument("image", required=False)
@click.option(
    "--base", metavar="IMAGE", help="What to build on: an image with a Python 3.11 or newer."
)
def build(image: str | None, base: str | None) -> None:
    """Build an image, or those of the bundled papers, unless built already."""
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.sandbox import docker_images

    needed = {paper.image for paper in load_dataset().papers}
    for name in (image,) if image else sorted(needed):
        tag = docker_images.build(
            name,
            base=base or docker_images.DEFAULT_BASE,
            progress=lambda line: echo(line, err=True),
        )
        echo(tag)


@images.command("list")
@options.as_json
def list_images(as_json: bool) -> None:
    """List the images that are built, and whether the present lock files ask for them."""
    from rcb_env.sandbox import docker_images

    for image in docker_images.built():
        if as_json:
            echo(json.dumps(asdict(image)))
        else:
            old = "" if image.wanted else "  (old)"
            echo(f"{image.tag}  {image.digest[:19]}  {image.size_bytes / 1e6:.0f} MB{old}")


@images.command()
def prune() -> None:
    """Remove the images that no present lock file asks for."""
    from rcb_env.sandbox import docker_images

    for tag in docker_images.prune():
        echo(tag)
