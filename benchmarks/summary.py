"""What a run of benchmarks comes to: two tables, and one chart.

Both show only what was measured in that run; a part that was left out is left out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import envs, folders, instead
from benchmarks.measure import Result, median, p99

_COLOURS = ("tab:blue", "tab:cyan", "tab:orange", "tab:red", "tab:brown", "tab:gray")


def tables(results: Sequence[Result]) -> list[Table]:
    """Steps of every way beside each other; then throughput, and all else that has a target."""
    found = {result.name: result for result in results}
    ways = _ways(found)
    steps = Table(title="In one run: milliseconds p50 / p99", title_justify="left")
    for heading in ("step", *ways, "to reach"):
        steps.add_column(heading, justify="right" if heading in ways else "left")
    for step in instead.STEPS:
        cells = [_cell(_samples(found, way, step)) for way in ways]
        if any(cells):
            steps.add_row(step, *(cell or "-" for cell in cells), instead.TARGETS[step])
    rest = Table(title="In the same run: ms p50 / p99, or a figure", title_justify="left")
    for heading in ("what", "value", "to reach"):
        rest.add_column(heading, justify="right" if heading == "value" else "left")
    for result in results:
        for row in result.rows:
            if row.target and result.name != "instead":
                rest.add_row(row.what, _cell(row.samples_s), row.target)
        for what, value in result.figures.items():
            if result.name == "envs" or what in result.targets or what.startswith(folders.ALL):
                rest.add_row(what, f"{value:,.2f}", result.targets.get(what, ""))
    return [told for told in (steps, rest) if told.row_count]


def _cell(samples: Sequence[float]) -> str:
    return f"{1000 * median(samples):.2f} / {1000 * p99(samples):.2f}" if samples else ""


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
        1, 3, figsize=(12, 4), layout="constrained", width_ratios=(3, 1.5, 1.2)
    )
    _steps(steps, found)
    if "envs" in found:
        _scaling(scaling, found["envs"])
    _graded(graded, found)
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
    looks = axes.twinx()
    for each, what, colour in ((axes, "run_tests", _COLOURS[0]), (looks, "read_file", _COLOURS[2])):
        rates = [result.figures[f"{what} per second, {number} envs"] for number in numbers]
        each.plot(numbers, rates, marker="o", color=colour)
        each.set_ylim(0, None)
        each.set_ylabel(f"{what} per second", color=colour)
    axes.set(xlabel="environments", title="Side by side")
    axes.set_xticks(numbers)


def _graded(axes: Any, found: dict[str, Result]) -> None:
    """Completions of a paper here, and of the public data set's folders where they were measured."""
    name = "graded completions per second"
    ours, theirs = {}, {}
    if "envs" in found:
        figures = found["envs"].figures
        ours[envs.CHALLENGE] = figures[name]
        theirs[envs.CHALLENGE] = figures[f"{name}, a fresh interpreter and folder for each"]
    if "folders" in found and found["folders"].figures:
        figures = found["folders"].figures
        ours["public folders"] = figures[f"{folders.ALL}: {folders.GRADED}, per second"]
        theirs["public folders"] = figures[f"{folders.ALL}: {folders.FRESH}, per second"]
    for shift, colour, label, values in (
        (-0.2, _COLOURS[0], "rcb-env", ours),
        (0.2, _COLOURS[-1], "fresh interpreters", theirs),
    ):
        places = [at + shift for at in range(len(values))]
        axes.bar(places, list(values.values()), 0.4, color=colour, label=label)
        for place, value in zip(places, values.values(), strict=True):
            axes.annotate(f"{value:.1f}", (place, value), ha="center", va="bottom")
    axes.set(ylabel="per second", title="Graded completions", yscale="log")
    axes.set_xticks(range(len(ours)), list(ours))
    if ours:
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.1))


def _ways(found: dict[str, Result]) -> list[str]:
    if "instead" not in found:
        return []
    return list(dict.fromkeys(row.what.partition(": ")[0] for row in found["instead"].rows))


def _samples(found: dict[str, Result], way: str, step: str) -> tuple[float, ...]:
    rows = found["instead"].rows if "instead" in found else ()
    return next((row.samples_s for row in rows if row.what == f"{way}: {step}"), ())
