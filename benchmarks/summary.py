"""What a run of benchmarks comes to: one table, and one chart.

Both show only what was measured in that run; a part that was left out is left out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import envs, instead
from benchmarks.measure import Result, median, p99

_COLOURS = ("tab:blue", "tab:cyan", "tab:orange", "tab:red", "tab:brown", "tab:gray")


def table(results: Sequence[Result]) -> Table:
    """Steps of every way beside each other, then throughput."""
    found = {result.name: result for result in results}
    told = Table(title="In one run: milliseconds p50 / p99, then per second", title_justify="left")
    told.add_column("")
    ways = _ways(found)
    for way in ways:
        told.add_column(way, justify="right")
    for step in instead.STEPS:
        cells = []
        for way in ways:
            samples = _samples(found, way, step)
            cells.append(
                f"{1000 * median(samples):.2f} / {1000 * p99(samples):.2f}" if samples else "-"
            )
        if any(cell != "-" for cell in cells):
            told.add_row(step, *cells)
    if "envs" in found:
        told.add_section()
        for what, value in found["envs"].figures.items():
            told.add_row(what, f"{value:,.2f}", *[""] * (max(1, len(ways)) - 1))
    return told


def draw(results: Sequence[Result], path: Path) -> None:
    """The same as a picture; the suffix of the path says of which kind (.svg, .png).

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = {result.name: result for result in results}
    figure, (steps, scaling, graded) = plt.subplots(
        1, 3, figsize=(12, 4), layout="constrained", width_ratios=(3, 1.5, 1)
    )
    _steps(steps, found)
    if "envs" in found:
        _scaling(scaling, found["envs"])
        _graded(graded, found["envs"])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def _steps(axes: Any, found: dict[str, Result]) -> None:
    ways = _ways(found)
    width = 0.8 / max(1, len(ways))
    for place, way in enumerate(ways):
        bars = [
            (at, samples)
            for at, step in enumerate(instead.STEPS)
            if (samples := _samples(found, way, step))
        ]
        middle = [1000 * median(samples) for _, samples in bars]
        above = [1000 * p99(samples) - low for low, (_, samples) in zip(middle, bars, strict=True)]
        axes.bar(
            [at + (place - (len(ways) - 1) / 2) * width for at, _ in bars],
            middle,
            width,
            yerr=[[0.0] * len(above), above],
            label=way,
            color=_COLOURS[place % len(_COLOURS)],
            error_kw={"elinewidth": 0.8},
        )
    axes.set(yscale="log", ylabel="ms (bar: p50, line: to p99)", title="One step")
    axes.set_xticks(range(len(instead.STEPS)), instead.STEPS)
    if ways:
        axes.legend(fontsize="small", ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def _scaling(axes: Any, result: Result) -> None:
    numbers = [n for n in envs.NUMBERS if f"run_tests per second, {n} envs" in result.figures]
    rates = [result.figures[f"run_tests per second, {number} envs"] for number in numbers]
    axes.plot(numbers, rates, marker="o", color=_COLOURS[0])
    axes.set(
        xlabel="environments", ylabel="run_tests per second", title="Side by side", ylim=(0, None)
    )
    axes.set_xticks(numbers)


def _graded(axes: Any, result: Result) -> None:
    name = "graded completions per second"
    values = [
        result.figures[name],
        result.figures[f"{name}, a fresh interpreter and folder for each"],
    ]
    axes.bar(["rcb-env", "fresh\ninterpreters"], values, color=(_COLOURS[0], _COLOURS[-1]))
    axes.set(ylabel="per second", title="Graded completions")
    for place, value in enumerate(values):
        axes.annotate(f"{value:.1f}", (place, value), ha="center", va="bottom")


def _ways(found: dict[str, Result]) -> list[str]:
    if "instead" not in found:
        return []
    return list(dict.fromkeys(row.what.partition(": ")[0] for row in found["instead"].rows))


def _samples(found: dict[str, Result], way: str, step: str) -> tuple[float, ...]:
    rows = found["instead"].rows if "instead" in found else ()
    return next((row.samples_s for row in rows if row.what == f"{way}: {step}"), ())
