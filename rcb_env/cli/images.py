"""`rcb images`: the packages of boxes as images, for the sandboxes docker and podman."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import ModuleType

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo

_sandbox = click.option(
    "--sandbox",
    type=click.Choice(("docker", "podman")),
    default="docker",
    show_default=True,
    help="Which of the two has the images.",
)


@click.group()
def images() -> None:
    """Build, list and remove images for boxes in Docker or Podman. bubblewrap needs none."""


@images.command()
@click.argument("image", required=False)
@click.option(
    "--base", metavar="IMAGE", help="The image to build on. It needs Python 3.11 or newer."
)
@_sandbox
def build(image: str | None, base: str | None, sandbox: str) -> None:
    """Build an image, or all images of the bundled papers, if they are not built yet."""
    from rcb_env.dataset.loading import load_dataset

    kept = _images(sandbox)
    needed = {paper.image for paper in load_dataset().papers}
    for name in (image,) if image else sorted(needed):
        tag = kept.build(
            name,
            base=base or kept.DEFAULT_BASE,
            progress=lambda line: echo(line, err=True),
        )
        echo(tag)


@images.command("list")
@_sandbox
@options.as_json
def list_images(sandbox: str, as_json: bool) -> None:
    """List the images that are built, and whether the current lock files need them."""
    for image in _images(sandbox).built():
        if as_json:
            echo(json.dumps(asdict(image)))
        else:
            old = "" if image.wanted else "  (old)"
            echo(f"{image.tag}  {image.digest[:19]}  {image.size_bytes / 1e6:.0f} MB{old}")


@images.command()
@_sandbox
def prune(sandbox: str) -> None:
    """Remove the images that no current lock file needs."""
    for tag in _images(sandbox).prune():
        echo(tag)


def _images(sandbox: str) -> ModuleType:
    from rcb_env.sandbox import docker_images, podman_images

    return podman_images if sandbox == "podman" else docker_images
