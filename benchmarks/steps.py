"""File actions per second in one process, and what many of them do to its memory."""

from __future__ import annotations

import gc
import itertools
import resource
import time
from pathlib import Path

from benchmarks.measure import Result
from rcb_env.env import ResearchCodeEnv

_EPISODE = 50  # steps
_MIB = 1024 * 1024


def run(*, quick: bool) -> Result:
    """Episodes of fifty file actions each; memory is looked at after a tenth of them and at the end."""
    steps = 2_000 if quick else 100_000
    env = ResearchCodeEnv("DyT/forward", max_steps=_EPISODE + 1)
    code = env.challenge.reference
    actions = itertools.cycle(
        [
            {"tool": "list_files", "arguments": {}},
            {"tool": "read_file", "arguments": {"path": env.challenge.file}},
            {"tool": "search", "arguments": {"pattern": "def .*forward"}},
            {"tool": "write_region", "arguments": {"code": code}},
            {"tool": "undo", "arguments": {}},
        ]
    )
    before = 0.0
    took = 0.0
    for done in range(0, steps, _EPISODE):
        if done == steps // 10 // _EPISODE * _EPISODE:
            before = _resident_mib()
        started = time.perf_counter()
        env.reset()
        for _ in range(_EPISODE):
            _, _, _, _, info = env.step(next(actions))
            if info["error"]:
                raise RuntimeError("a file action of the benchmark is wrong")
        took += time.perf_counter() - started
    growth = _resident_mib() - before
    figures = {
        "steps": float(steps),
        "steps per second, a reset every 50 included": steps / took,
        "resident memory after a tenth, MiB": before,
        "growth until the end, MiB": growth,
        "growth per 10,000 steps, MiB": growth / (steps * 0.9) * 10_000,
        "largest resident memory, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    env.close()
    return Result("steps", "file actions in one process", figures=figures)


def _resident_mib() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / _MIB
