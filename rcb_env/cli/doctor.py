"""`rcb doctor`: what works on this machine, and the one command that gets what does not.

Nothing is believed that can be tried: a sandbox works if a box starts in it. Keys are reported as set or not, never shown.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import echo


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        works: None where it is neither good nor bad.
        fix: what to do to get it; "" where it is there.
    """

    name: str
    works: bool | None
    found: str
    fix: str = ""


@click.command()
@click.option(
    "--prepare",
    is_flag=True,
    help="Also install the packages of boxes now, if they are missing.",
)
@click.option(
    "--conformance",
    metavar="NAME|MODULE:CLASS",
    shell_complete=completion.sandboxes,
    help="Instead, test in real boxes whether this sandbox does all that a sandbox must do.",
)
@options.dataset
@options.quiet
@options.as_json
def doctor(
    prepare: bool, conformance: str | None, dataset: str, quiet: bool, as_json: bool
) -> None:
    """Check what works on this machine. Exit code 0 if at least one sandbox can run code."""
    from rcb_env import sandbox
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.sandbox.images import realise

    if conformance is not None:
        _conform(conformance, quiet=quiet, as_json=as_json)
        return
    images = sorted({paper.image for paper in load_dataset(dataset).papers})
    if prepare:
        for image in images:
            realise(image, lambda line: echo(line, err=True))
    sandboxes = [_sandbox(name, images) for name in sandbox.names()]
    findings = [_python(), *sandboxes, *_environments(images), *_keys()]
    able = any(finding.works for finding in sandboxes)
    if as_json:
        echo(json.dumps({"works": able, "findings": [asdict(one) for one in findings]}))
    elif not quiet or not able:
        for one in findings:
            mark = {True: "ok", False: "--", None: "  "}[one.works]
            echo(f"{mark:<3}{one.name + ':':<22}{one.found}")
            if one.fix:
                echo(f"{'':<25}to get it: {one.fix}")
        where = " and ".join(one.name for one in sandboxes if one.works)
        echo(f"\nCode can be run in {where}." if able else "\nNo sandbox works here yet.")
    if not able:
        raise click.exceptions.Exit(1)


def _conform(name: str, *, quiet: bool, as_json: bool) -> None:
    """Print the result of every check of one sandbox, as it comes.

    Raises:
        click.exceptions.Exit: with code 1: it does something else than every sandbox must.
    """
    from rcb_env.sandbox.conformance import conform

    outcomes: Counter[str] = Counter()
    for result in conform(name):
        outcomes[result.outcome] += 1
        if as_json:
            echo(json.dumps(asdict(result)))
        elif not quiet or result.outcome == "differs":
            found = f": {result.found}" if result.found else ""
            echo(f"{result.outcome:<10}{result.check}{found}")
    if not as_json:
        told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        echo(f"\n{name}: {told}.")
    if outcomes["differs"]:
        raise click.exceptions.Exit(1)


def _python() -> Finding:
    return Finding("Python", True, f"{platform.python_version()} at {sys.executable}")


def _sandbox(name: str, images: Sequence[str]) -> Finding:
    """Whether a box starts. Packages that are not installed yet are no obstacle; `--prepare` installs them."""
    from rcb_env import sandbox
    from rcb_env.errors import RcbError, SandboxUnavailable, blame
    from rcb_env.sandbox.box import Box, BoxSettings
    from rcb_env.sandbox.images import find

    try:
        maker = sandbox.find(name)()
        for image in images:
            if not maker.digest(image):
                maker.prepare(image, lambda _line: None)  # says how to get it
        if name != "bubblewrap" or find(images[0]):
            Box(maker, BoxSettings(image=images[0])).close()
    except SandboxUnavailable as error:
        return Finding(name, False, error.why, error.fix)
    except RcbError as error:
        return Finding(name, False, str(error))
    except Exception as error:  # noqa: BLE001 (of a maker that is somebody else's)
        return Finding(name, False, blame(error))
    return Finding(name, True, f"{maker.version}; a box starts")


def _environments(names: Sequence[str]) -> list[Finding]:
    from rcb_env.sandbox import images

    findings = []
    for image in names:
        built = images.find(image)
        name = f"packages of {image!r}"
        if built is None:
            found = f"not yet in {images.cache_folder()}; made on first use"
            findings.append(Finding(name, None, found, "rcb doctor --prepare"))
        else:
            findings.append(Finding(name, True, str(built.prefix)))
    return findings


def _keys() -> list[Finding]:
    from rcb_env.errors import without_credentials

    key = "OPENAI_API_KEY"
    found = (
        Finding(key, True, "set")
        if os.environ.get(key)
        else Finding(key, None, "not set", f"export {key}=… (only models behind an API need one)")
    )
    base_url = os.environ.get("OPENAI_BASE_URL")
    if not base_url:
        return [found]
    return [found, Finding("OPENAI_BASE_URL", None, without_credentials(base_url))]
