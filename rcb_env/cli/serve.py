"""`rcb serve`: an episode for an agent that lives elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import echo
from rcb_env.env.settings import Rules, Shown

if TYPE_CHECKING:
    from rcb_env.runs import RunConfig

_ADDRESS = re.compile(r"^(?:\[?(?P<host>[^\]]+?)\]?:)?(?P<port>\d{1,5})$")
_EARLIER_S = 60.0  # for the server of the client before, which may still be grading
_NAME = re.compile(r"^[\w.-]+$")


@click.command()
@click.argument("challenge", shell_complete=completion.challenges)
@click.option("--mcp", is_flag=True, help="Speak the Model Context Protocol over stdin and stdout.")
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="With --mcp: speak it over HTTP instead, at path /mcp. Port 0 means any free port.",
)
@click.option(
    "--idle-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=1800.0,
    show_default=True,
    help="With --http: a client that is silent for so long counts as gone.",
)
@click.option("--client", metavar="NAME", help="The agent's name in reports.")
@options.selection
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Episodes per challenge of the run. This command plays one of them.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")
@options.settings(Shown, Rules, ours=False)
@options.sandbox
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=completion.folders,
    help="The run's folder. A run that is already there is continued.  [default: runs/<time>-mcp]",
)
@options.quiet
@click.pass_context
def serve(context: click.Context, /, **given: Any) -> None:
    """Let an outside agent play CHALLENGE. An MCP server offers it the episode's actions as tools.

    The episode ends when the agent submits, when a budget is spent, or when the client leaves. It is stored in the
    run's folder like any other. With --papers or --challenges the run plans those challenges too: serve them one after
    the other with the same --out. What is not played counts as missing. rcb does not know what the client's model
    costs.
    """
    from rcb_env.cli.results import print_tables
    from rcb_env.cli.session import prepare_sandbox
    from rcb_env.cli.settings import with_record
    from rcb_env.errors import UsageError
    from rcb_env.report.summary import summarize
    from rcb_env.runs.plan import default_folder, open_run
    from rcb_env.serve import mcp, relay
    from rcb_env.serve.session import Session

    challenge = given["challenge"]
    if not given["mcp"]:
        raise UsageError("over which protocol? Add --mcp")
    address = _address(given["http"]) if given["http"] is not None else None
    if given["client"] is not None and not _NAME.match(given["client"]):
        raise UsageError(f"--client {given['client']!r}: write letters, digits, . _ and - only")
    mcp.require()
    if address is None:
        relay.outlive_the_client()
    folder = Path(given["out"]) if given["out"] else default_folder("mcp")
    going_on = (folder / "run.json").exists()
    if going_on:
        given = with_record(given, folder, context)
    config = _config(given, going_on)
    # Packages are installed when a client is there: it must not wait for them to be greeted.
    chosen, why = prepare_sandbox(config.sandbox, [_image(config, challenge)], install=False)
    with open_run(
        replace(config, sandbox=chosen), folder, resume=going_on, wait_s=_EARLIER_S
    ) as store:
        session = Session(replace(config, sandbox=chosen), store, challenge)
        echo(f"run: {store.folder}; sandbox: {chosen} ({why})", err=True)

        def listen() -> None:
            if address is None:
                mcp.serve_stdio(session)
            else:
                tell = lambda url: echo(f"serving {url}", err=True)  # noqa: E731
                mcp.serve_http(session, *address, given["idle_seconds"], tell)

        mcp.play_while_served(session, listen)
        if not session.played:
            echo(f"no tool was called: {challenge} is still open", err=True)
        if not given["quiet"]:
            print_tables([summarize(store)], brief=True, to_stderr=True)


def _address(text: str) -> tuple[str, int]:
    from rcb_env.errors import UsageError

    found = _ADDRESS.match(text)
    if found is None or int(found["port"]) > 65_535:
        raise UsageError(f"--http {text!r} is not an address; write 8000 or 127.0.0.1:8000")
    return found["host"] or "127.0.0.1", int(found["port"])


def _config(given: Mapping[str, Any], going_on: bool) -> RunConfig:
    from rcb_env.cli.settings import run_config
    from rcb_env.serve.session import VISITOR

    client = given["client"]
    if client is None and going_on:  # who played before plays on
        client = str(given.get("agent") or "").partition("client=")[2]
    challenges = given["challenges"]
    if not (challenges or given["papers"]):
        challenges = (given["challenge"],)
    agent = f"{VISITOR}:client={client}" if client else VISITOR
    return run_config({**given, "agent": agent, "challenges": challenges})


def _image(config: RunConfig, challenge: str) -> str:
    from rcb_env.errors import unknown
    from rcb_env.runs.plan import planned

    images = {c.id: c.paper.image for c, _ in planned(config)[1]}
    if challenge not in images:
        raise unknown("planned challenge", challenge, images, where="rcb list challenges")
    return images[challenge]
