"""For other programs: a run as one JSON object, or a CSV of its planned episodes; challenges as a CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

from rcb_env.report.items import Item, ItemAnalysis
from rcb_env.report.summary import RunSummary, plan_of
from rcb_env.runs.store import RunStore

COLUMNS = (
    "challenge",
    "paper",
    "file",
    "lines",
    "sample",
    "agent",
    "model",
    "status",
    "error_class",
    "end_reason",
    "steps",
    "test_runs",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cost_usd",
    "wall_s",
    "attempt",
    "message",
    "trajectory",
)


def to_json(summary: RunSummary, *, indent: int | None = 2) -> str:
    """Everything about a run as one JSON object."""
    return json.dumps(summary.full(), indent=indent)


def to_csv(store: RunStore) -> str:
    """One row for each planned (challenge, sample), missing ones included.

    Cells are plain values; a message that would make a spreadsheet run a formula is quoted.

    Raises:
        StoreError: the run cannot be read.
    """
    rows: dict[tuple[str, int], dict[str, object]] = {
        (entry.challenge, entry.sample): {
            "challenge": entry.challenge,
            "paper": entry.paper,
            "lines": entry.lines,
            "sample": entry.sample,
            "status": entry.status,
        }
        for entry in plan_of(store)
    }
    for line in store.latest():
        episode = line["episode"]
        verdict = episode.get("verdict") or {}
        row = rows.setdefault((episode["challenge"], episode["sample"]), {})
        row.update({name: episode[name] for name in COLUMNS if name in episode})
        row.update({k: v for k, v in (episode.get("usage") or {}).items() if k in COLUMNS})
        row.update(
            error_class=verdict.get("error_class"),
            message=_cell(str(episode.get("error") or verdict.get("message") or "")),
            model=_name(episode.get("model")),
            attempt=line.get("attempt"),
            trajectory=line.get("trajectory"),
        )
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows.values())
    return out.getvalue()


def items_csv(found: ItemAnalysis) -> str:
    """One row for each challenge, as `rcb items` orders them; what is not known is an empty cell."""
    out = io.StringIO(newline="")
    names = [field.name for field in dataclasses.fields(Item)]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for item in found.items:
        writer.writerow({**dataclasses.asdict(item), "challenge": _cell(item.challenge)})
    return out.getvalue()


def _name(model: object) -> object:
    return model.get("name") if isinstance(model, dict) else model


def _cell(text: str) -> str:
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
