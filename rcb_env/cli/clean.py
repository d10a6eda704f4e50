"""`rcb clean`: removes what runs that were killed have left on this machine.

Not covered: what a sandbox of somebody else's leaves.
"""

from __future__ import annotations

import json

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo
from rcb_env.errors import counted


@click.command()
@click.option(
    "--all",
    "of_everybody",
    is_flag=True,
    help="Also remove containers in use: those of runs under way, and of other machines that share the engine.",
)
@options.as_json
def clean(of_everybody: bool, as_json: bool) -> None:
    """Remove the containers and temporary folders of runs that were killed, and the indexes of `rcb view`.

    It looks for containers of Docker and of Podman. Runs under way keep theirs, unless you give --all. Run directories
    are never touched; `rcb view` makes indexes anew.
    """
    from rcb_env.errors import SandboxUnavailable
    from rcb_env.sandbox import docker, podman, podman_command, scratch
    from rcb_env.view.cache import remove_indexes

    removers = {"Docker": docker.remove_containers}
    if podman_command.installed():
        removers["Podman"] = podman.remove_containers
    containers: list[str] = []
    troubles: list[str] = []
    for name, remove in removers.items():
        try:
            containers += remove(of_everybody=of_everybody)
        except SandboxUnavailable as error:
            troubles.append(f"no {name} containers were looked for: {error}")
    folders = [str(folder) for folder in scratch.remove_leftovers()]
    indexes = [str(path) for path in remove_indexes()]
    if as_json:
        found = {"containers": containers, "folders": folders, "indexes": indexes}
        told = {**found, "engine": not troubles, "trouble": "; ".join(troubles)}
        echo(json.dumps(told))
        return
    for container in containers:
        echo(f"removed container {container[:12]}")
    for folder in folders:
        echo(f"removed folder {folder}")
    if indexes:
        echo(f"removed {counted(len(indexes), 'index file')} of rcb view")
    for trouble in troubles:
        echo(trouble, err=True)
    if not (containers or folders or indexes):
        echo("nothing to remove")
