"""`rcb clean`: what runs that were killed have left on this machine."""

from __future__ import annotations

import json

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo


@click.command()
@click.option(
    "--all",
    "of_everybody",
    is_flag=True,
    help="Also containers in use: of runs under way, and of other machines on this engine.",
)
@options.as_json
def clean(of_everybody: bool, as_json: bool) -> None:
    """Remove containers and temporary folders that runs which were killed have left.

    Runs under way keep theirs, unless --all is given. Run directories are never touched.
    """
    from rcb_env.errors import SandboxUnavailable
    from rcb_env.sandbox import docker, scratch

    containers: list[str] = []
    trouble = ""
    try:
        containers = docker.remove_containers(of_everybody=of_everybody)
    except SandboxUnavailable as error:
        trouble = str(error)
    folders = [str(folder) for folder in scratch.remove_leftovers()]
    if as_json:
        found = {"containers": containers, "folders": folders, "engine": not trouble}
        echo(json.dumps({**found, "trouble": trouble}))
        return
    for container in containers:
        echo(f"removed container {container[:12]}")
    for folder in folders:
        echo(f"removed folder {folder}")
    if trouble:
        echo(f"no containers were looked for: {trouble}", err=True)
    if not containers and not folders:
        echo("nothing to remove")
