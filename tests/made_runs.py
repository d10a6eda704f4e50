"""Runs made by hand, line by line, of episodes that nobody played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rcb_env.play.agent import Usage
from rcb_env.play.record import Episode
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import EpisodeKey, keys

FILE = "src/x.py"


def plan_of(
    lines: Mapping[str, int],
    *,
    samples: Iterable[int] = (0,),
    files: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The plan of run.json: challenge id -> its lines. A paper is the first part of an id."""
    return [
        {
            "challenge": challenge,
            "paper": challenge.split("/")[0],
            "file": (files or {}).get(challenge, FILE),
            "lines": count,
            "content_hash": "h",
            "samples": list(samples),
        }
        for challenge, count in lines.items()
    ]


def key_of(
    config: Mapping[str, Any], challenge: str, sample: int = 0, *, file: str = FILE
) -> EpisodeKey:
    """The key of an episode in a run of this config."""
    return keys(config)(challenge.split("/")[0], file, challenge, sample)


def episode(
    challenge: str, status: str = "passed", *, sample: int = 0, **more: Any
) -> dict[str, Any]:
    """A finished episode; what is not given is of no matter."""
    graded = status not in ("invalid", "infra_error")
    made = Episode(
        challenge=challenge,
        paper=challenge.split("/")[0],
        file=FILE,
        sample=sample,
        seed=0,
        agent="agent",
        model="m",
        lines=1,
        content_hash="h",
        status=status,
        verdict={"status": status, "cases": [], "notes": []} if graded else None,
        end_reason="submitted",
        code="    return 1\n",
        code_hash="c",
        steps=2,
        test_runs=0,
        usage=Usage(),
        wall_s=1.5,
        started_at="2026-01-01T00:00:00+00:00",
    )
    return {**made.to_dict(), **more}


def finish(
    store: RunStore, challenge: str, status: str = "passed", *, sample: int = 0, **more: Any
) -> None:
    """Store an episode with a trajectory of one step."""
    entry = next(each for each in store.record["plan"] if each["challenge"] == challenge)
    key = key_of(store.record["config"], challenge, sample, file=entry["file"])
    with store.trajectory(key) as trajectory:
        trajectory.record("start", {"text": "write it"})
        trajectory.record(
            "step",
            {"action": {"tool": "submit", "arguments": {}}, "text": "done", "error": False},
        )
    store.append(key, episode(challenge, status, sample=sample, **more), trajectory)
