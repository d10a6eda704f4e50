"""Many steps in one process: how much memory, how many descriptors and processes are left behind.

    python benchmarks/leaks.py --steps 100000

Episodes of sampled actions (most are wrong in some way), with a snapshot and a fork in each and a
graded submission in every hundredth. Prints one JSON object; exits with 1 if memory grew by
20 MB or more, or if descriptors or child processes were left. The first tenth of the steps warms up.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from rcb_env.actions import ActionSpace
from rcb_env.env import ResearchCodeEnv

LIMIT_MB = 20.0
_GRADED_EVERY = 100  # episodes


def walk(steps: int, *, seed: int = 0, graded: bool = True) -> None:
    """Take so many steps, in episodes of challenges drawn from a seed."""
    env = ResearchCodeEnv(max_steps=10**9)
    env.reset(seed=seed)
    actions = ActionSpace(seed)
    taken = episodes = 0
    while taken < steps:
        env.reset()
        episodes += 1
        lines = env.challenge.masked().text.count("\n")
        for number in range(min(50, steps - taken)):
            env.step(_valid(actions.sample(), env, lines))
            if number == 25:
                env.restore(env.fork().snapshot())
        taken += 50
        if graded and episodes % _GRADED_EVERY == 0:
            env.step({"tool": "write_region", "arguments": {"code": env.challenge.reference}})
            env.step({"tool": "run_tests"})
            env.step({"tool": "submit"})
    env.close()


def _valid(action: dict[str, Any], env: ResearchCodeEnv, lines: int) -> dict[str, Any]:
    """No test runs, which would take hours; and every other path names a file that exists."""
    if action["tool"] in ("run_tests", "submit"):
        return {"tool": "undo", "arguments": {}}
    arguments = action["arguments"]
    if "path" in arguments and arguments.get("start", 0) % 2 == 0:
        start = min(arguments.get("start") or 1, lines)
        read = {"path": env.challenge.file, "start": start}
        return {"tool": "read_file", "arguments": read}
    return action


def resident_mb() -> float:
    """Memory of this process, after everything that can be given back was."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors() -> int:
    """Open files, sockets and pipes of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children() -> int:
    """Processes that this one has started and not waited for."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        count += len((task / "children").read_text().split())
    return count


def measure(steps: int, *, graded: bool = True) -> dict[str, float]:
    """What so many steps leave behind."""
    # A graded episode starts the boxes, which stay.
    walk(max(steps // 10, 50 * _GRADED_EVERY if graded else 50), graded=graded)
    memory, files, processes = resident_mb(), descriptors(), children()
    began = time.monotonic()
    walk(steps, seed=1, graded=graded)
    seconds = time.monotonic() - began
    return {
        "steps": steps,
        "steps_per_s": round(steps / seconds, 1),
        "grown_mb": round(resident_mb() - memory, 2),
        "descriptors_left": descriptors() - files,
        "processes_left": children() - processes,
    }


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--no-grading", action="store_true", help="never run code in a box")
    given = parser.parse_args()
    found = measure(given.steps, graded=not given.no_grading)
    sys.stdout.write(json.dumps(found) + "\n")
    clean = found["descriptors_left"] <= 0 and found["processes_left"] <= 0
    return 0 if found["grown_mb"] < LIMIT_MB and clean else 1


if __name__ == "__main__":
    sys.exit(main())
