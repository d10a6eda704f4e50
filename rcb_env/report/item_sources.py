"""Where the results that `rcb_env.report.items` analyses come from: run folders, or published results.

A run is one agent. Those of the public benchmark come with the package (`public_results.py`). Any other table is a CSV as the public benchmark's results are kept: one row for each challenge and model, with the
columns paper, file, start_tag_line (which tells two regions of a file apart), lines, model and passed (0 or 1). A model is
one agent there.

Guarantees: what has no verdict is in no share. What makes a comparison unfair (content that differs, an agent that is there
twice) is among the notes. A table is wrong as a whole, with the line to blame, or right.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rcb_env.errors import StoreError, UsageError, counted
from rcb_env.report import public_results
from rcb_env.report.items import ItemAnalysis, analyse
from rcb_env.report.scoring import OPEN_STATES, PASSED, fill_missing, grouped
from rcb_env.report.summary import plan_of
from rcb_env.runs.store import RunStore

COLUMNS = ("paper", "file", "start_tag_line", "lines", "model", "passed")


def of_runs(stores: Mapping[str, RunStore]) -> ItemAnalysis:
    """The challenges of some runs, each of which is one agent.

    Args:
        stores: two runs or more, open for reading, by the names they are given.

    Raises:
        StoreError: a run cannot be read.
        UsageError: a challenge has other code in two of them.
    """
    lines = lines_of(stores)
    shares: dict[str, dict[str, float]] = {}
    left_out = 0
    for name, store in stores.items():
        states = {
            (line["episode"]["challenge"], line["episode"]["sample"]): line["episode"]["status"]
            for line in store.latest()
        }
        try:
            rows = fill_missing(plan_of(store), states)
        except ValueError as error:
            raise StoreError(f"{store.folder}: {error}") from error
        graded = [row for row in rows if row.status not in OPEN_STATES]
        left_out += len(rows) - len(graded)
        shares[name] = {
            challenge: sum(row.status == PASSED for row in group) / len(group)
            for challenge, group in grouped(graded, lambda row: row.challenge).items()
        }
    return analyse(shares, lines, notes(stores, left_out))


def lines_of(stores: Mapping[str, RunStore]) -> dict[str, int]:
    """The lines of each challenge that the runs plan.

    Raises:
        UsageError: a challenge has other code in two of them.
    """
    lines: dict[str, int] = {}
    for name, store in stores.items():
        for entry in store.record["plan"]:
            challenge, count = entry["challenge"], entry["lines"]
            if lines.setdefault(challenge, count) != count:
                raise UsageError(
                    f"{challenge} has {counted(count, 'line')} in {name} and {lines[challenge]} in another"
                    " run: they were graded on different code; leave one of them out"
                )
    return lines


def of_table(path: str | Path) -> ItemAnalysis:
    """The challenges of a table of published results, in which each model is one agent.

    Raises:
        StoreError: there is no such file, or it cannot be read.
        UsageError: it is no such table, or holds one model only.
    """
    path = Path(path)
    shares: dict[str, dict[str, float]] = {}
    lines: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            absent = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if absent:
                raise UsageError(
                    f"{path} is no table of results: it has no column {', '.join(absent)}"
                )
            for row in reader:
                challenge = f"{row['paper']}/{row['file']}:{row['start_tag_line']}"
                solved = shares.setdefault(row["model"], {})
                count = row["lines"] or ""
                if row["passed"] not in ("0", "1") or not count.isdecimal() or len(count) > 9:
                    raise UsageError(
                        f"{path}:{reader.line_num}: passed must be 0 or 1, and lines a number"
                    )
                if challenge in solved or lines.setdefault(challenge, int(count)) != int(count):
                    raise UsageError(
                        f"{path}:{reader.line_num}: {challenge} stands there twice for a model, or has other lines above"
                    )
                solved[challenge] = float(row["passed"])
    except FileNotFoundError:
        raise StoreError(
            f"there is no file {path}; the published results that come with rcb-env are `rcb items {public_results.NAME}`"
        ) from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no table of results: {error}") from error
    if len(shares) < 2:
        raise UsageError(
            f"{path} holds {counted(len(shares), 'model')}: what a challenge tells of agents shows between two or more"
        )
    return analyse(shares, lines)


def of_published() -> ItemAnalysis:
    """The challenges of the public benchmark, in which each of its 32 models is one agent."""
    return analyse(
        {
            model: {row.challenge: float(row.status == PASSED) for row in rows}
            for model, rows in public_results.outcomes().items()
        },
        {row.challenge: row.lines for row in next(iter(public_results.outcomes().values()))},
    )


def notes(stores: Mapping[str, RunStore], left_out: int) -> list[str]:
    """What to know of some runs before their challenges are analysed.

    Args:
        stores: the runs, by their names.
        left_out: how many of their episodes have no verdict.
    """
    found = []
    if left_out:
        found.append(f"{counted(left_out, 'episode')} without a verdict are left out")
    configs = [store.record.get("config", {}) for store in stores.values()]
    times = Counter((str(each.get("agent")), str(each.get("model"))) for each in configs)
    twice = sum(count > 1 for count in times.values())
    if twice:
        found.append(
            f"{counted(twice, 'agent')} with more than one run here: each run counts as an agent of its own"
        )
    content: dict[str, set[object]] = {}
    for store in stores.values():
        for entry in store.record["plan"]:
            content.setdefault(entry["challenge"], set()).add(entry.get("content_hash"))
    changed = sorted(name for name, hashes in content.items() if len(hashes) > 1)
    if changed:
        found.append(
            f"{counted(len(changed), 'challenge')} with different content in some runs (prompt or tests), the first is"
            f" {changed[0]}"
        )
    return found
