"""`python -m benchmarks.memory`: what warm boxes take, and many of them at once.

A warm worker is a box that holds torch and has run cases with it: the runner, and the processes that test runs are forked
from. Memory that they share counts once (PSS), and what is shared with other boxes in proportion; the column RSS counts
it in each process. Then so many boxes as asked for run cases at the same time, and each must answer.
"""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

import click
import docker
from rich.console import Console
from rich.table import Table

from rcb_env.errors import SandboxError
from rcb_env.runner import wire
from rcb_env.sandbox import AUTO, make
from rcb_env.sandbox.box import MIB, Box, BoxSettings, Limits, Maker, RunRequest

RUNNER = "rcb_env.runner.case_run"
PRELOAD = ("numpy", "numpy.random", "torch", RUNNER)
CASES = """
import torch
from rcb_env.cases import case

@case(seeds=1)
def learns(tree, rng):
    layer = torch.nn.Linear(256, 256)
    layer(rng.torch.normal(64, 256)).sum().backward()
    return float(layer.weight.grad.sum())
"""


@click.command()
@click.option("--boxes", default=16, show_default=True, help="How many at once.")
@click.option("--runs", default=5, show_default=True, help="Test runs of each.")
def main(boxes: int, runs: int) -> None:
    """Measure the memory of warm boxes, one alone and many at once."""
    console = Console(width=120)
    table = Table(
        "sandbox", "boxes", "PSS of one", "RSS of one", "started in", "answered", "failed"
    )
    for name in AUTO:
        try:
            maker = make(name)
            for number in (1, boxes):
                table.add_row(name, str(number), *_measure(maker, number, runs))
        except SandboxError as error:
            console.print(f"[dim]{name} is left out: {error}[/dim]")
    console.print(table)


def _measure(maker: Maker, number: int, runs: int) -> list[str]:
    started = time.monotonic()
    made: list[Box] = []
    errors: list[SandboxError] = []
    answers: list[bool] = []
    lock = threading.Lock()

    def start() -> None:
        try:
            box = Box(maker, BoxSettings())
            box.zygote("image", PRELOAD)
        except SandboxError as error:
            errors.append(error)
        else:
            with lock:
                made.append(box)

    def use(box: Box) -> None:
        sources = wire.pack({"sources": {"tests/cases.py": CASES}})
        cases = {"file": "src/x.py", "purpose": "final", "paper": "memory"}
        try:
            compiled = box.run("image", RunRequest(f"{RUNNER}:compiled", sources, Limits()))
            _, code = wire.unpack(io.BytesIO(compiled.result).read)
            request = RunRequest(f"{RUNNER}:run", wire.pack(cases, code), Limits())
            for _ in range(runs):
                run = box.run("image", request)
                header, _ = wire.unpack(io.BytesIO(run.result).read)
                with lock:
                    answers.append(header["error"] is None)
        except SandboxError as error:
            errors.append(error)

    try:
        _together([threading.Thread(target=start) for _ in range(number)])
        took = time.monotonic() - started
        if not made:
            raise errors[0]
        _together([threading.Thread(target=use, args=(box,)) for box in made])
        for box in made:
            box.ping()  # answered once the box has cleaned up and has its next process
        sizes = [_memory(_first_process(box)) for box in made]
    finally:
        for box in made:
            box.close()
    pss, rss = (max(size[column] for size in sizes) / MIB for column in (0, 1))
    good = answers.count(True)
    return [
        f"{pss:.0f} MiB",
        f"{rss:.0f} MiB",
        f"{took:.1f} s",
        f"{good}/{number * runs}",
        str(len(errors) + len(answers) - good),
    ]


def _together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _first_process(box: Box) -> int:
    channel = box._channel
    children = getattr(channel, "children", None)
    if children is not None:
        return int(children()[0])
    client = docker.from_env()
    try:
        found = client.api.inspect_container(channel._container)  # type: ignore[attr-defined]
        return int(found["State"]["Pid"])
    finally:
        client.close()


def _memory(pid: int) -> tuple[int, int]:
    """Bytes of a process and all below it: shared memory in proportion, and in each."""
    todo, pss, rss = [pid], 0, 0
    while todo:
        process = Path("/proc", str(todo.pop()))
        for line in (process / "smaps_rollup").read_text().splitlines():
            words = line.split()
            pss += int(words[1]) * 1024 if words[0] == "Pss:" else 0
            rss += int(words[1]) * 1024 if words[0] == "Rss:" else 0
        for task in (process / "task").iterdir():
            todo += map(int, (task / "children").read_text().split())
    return pss, rss


if __name__ == "__main__":
    main()
