"""`python -m benchmarks`: run benchmarks, print tables, write one JSON file."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from benchmarks import (
    actions,
    cluster,
    envs,
    folders,
    grading,
    instead,
    leaks,
    measure,
    oracle,
    scopes,
    steps,
    stored,
    summary,
    waiting,
)
from rcb_env.errors import RcbError, SandboxUnavailable
from rcb_env.sandbox import AUTO, make

NAMES = (
    "instead",
    "envs",
    "grading",
    "actions",
    "folders",
    "steps",
    "oracle",
    "scopes",
    "waiting",
    "stored",
    "cluster",
    "leaks",
)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(("all", *NAMES)))
@click.option("--quick", is_flag=True, help="A few samples of each, to see that all works.")
@click.option(
    "--sandbox",
    "makers",
    multiple=True,
    type=click.Choice(AUTO),
    help="Sandboxes to measure; all that work here when left out.",
)
@click.option(
    "--public",
    type=click.Path(path_type=Path),
    help="Folder of the public data set; the copy of `rcb pull` when left out.",
)
@click.option("--papers", default="", help="Papers of the public data set, by comma.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/benchmarks/times.json"),
    show_default=True,
    help="Where the JSON file goes.",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path),
    default=Path("runs/benchmarks/chart.svg"),
    show_default=True,
    help="Where the chart goes (.svg or .png).",
)
def main(
    names: tuple[str, ...],
    quick: bool,
    makers: tuple[str, ...],
    public: Path | None,
    papers: str,
    out: Path,
    chart: Path,
) -> None:
    """Measure NAMES, or everything ("all"): a table each, one for the whole, and a chart."""
    console = Console(width=150)
    before = measure.machine()
    usable = _usable(makers or AUTO, console)
    results = []
    for name in NAMES if not names or "all" in names else dict.fromkeys(names):
        console.print(f"[dim]{name} ...[/dim]")
        if name == "instead":
            result = instead.run(usable, quick=quick)
        elif name == "envs":
            result = envs.run(usable, quick=quick)
        elif name == "grading":
            result = grading.run(usable, quick=quick)
        elif name == "actions":
            result = actions.run(usable, quick=quick)
        elif name == "folders":
            wanted = [paper for paper in papers.split(",") if paper]
            result = folders.run(public, wanted, quick=quick)
        elif name == "steps":
            result = steps.run(usable, quick=quick)
        elif name == "oracle":
            result = oracle.run(usable, quick=quick)
        elif name == "scopes":
            result = scopes.run(usable, quick=quick)
        elif name == "stored":
            result = stored.run(quick=quick)
        elif name == "leaks":
            result = leaks.run(usable, quick=quick)
        elif name == "cluster":
            if importlib.util.find_spec("ray") is None:
                console.print("cluster is left out: pip install 'rcb-env[ray]'", markup=False)
                continue
            result = cluster.run(quick=quick)
        else:
            result = waiting.run(quick=quick)
        results.append(result)
        for table in result.tables():
            console.print(table)
        for note in result.notes:
            console.print(f"  {note}", markup=False)
    for table in summary.tables(results):
        console.print(table)
    try:
        summary.draw(results, chart)
        console.print(f"drawn: {chart}", markup=False)
    except ImportError as error:
        console.print(f"no chart: {error}; pip install 'rcb-env[benchmarks]'", markup=False)
    after = measure.machine()["load_average_1min"]
    told = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": {**before, "load_average_1min_after": after},
        "sandboxes": {maker: make(maker).version for maker in usable},
        "results": [result.to_dict() for result in results],
    }
    load = before["load_average_1min"]
    console.print(f"load average of the machine: {load} before, {after} after (this run included)")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    console.print(f"written: {out}", markup=False)


def _usable(makers: tuple[str, ...], console: Console) -> tuple[str, ...]:
    from rcb_env.sandbox import docker_images

    found = []
    for maker in makers:
        try:
            make(maker)
            if maker == "docker" and not docker_images.digest("cpu"):
                raise SandboxUnavailable("its image is not built; run `rcb images build cpu`")
            found.append(maker)
        except RcbError as error:
            console.print(f"{maker} is left out: {error}", markup=False)
    return tuple(found)


if __name__ == "__main__":
    main()
