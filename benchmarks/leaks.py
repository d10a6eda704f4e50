"""Many steps in one process: what they leave behind of memory, descriptors, threads and processes.

Episodes of sampled actions (most are wrong in some way), with a snapshot and a fork in each; now and then one is graded,
in real boxes. The environments of all sandboxes take turns. What a first part of the steps leaves is not counted: it fills
caches and starts boxes, which stay.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.spaces import ActionSpace

STEPS = 100_000
LIMIT_MB = 20.0  # after so many steps
_WARM_STEPS = 10_000
_EPISODE = 50  # steps
_GRADED_EVERY = 50  # episodes


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """What a hundred thousand steps leave behind."""
    steps = 2_000 if quick else STEPS
    figures = measure(steps, makers, warm_steps=steps if quick else _WARM_STEPS, papers=["DyT"])
    return Result(
        "leaks",
        "what many steps in one process leave behind",
        figures=figures,
        targets={
            what: f"< {allowed_mb(steps):g}" if what == "MB left" else "0"
            for what in figures
            if what.endswith(" left")
        },
    )


def allowed_mb(steps: int) -> float:
    """How much memory may grow in so many steps."""
    return LIMIT_MB * steps / STEPS


def measure(
    steps: int, makers: Sequence[str], *, warm_steps: int = _WARM_STEPS, **settings: Any
) -> dict[str, float]:
    """What so many steps leave behind, by what it is.

    Args:
        steps: how many, after the first ones.
        makers: sandboxes to use.
        warm_steps: how many come first and are not counted.
        settings: of the environments, see `ResearchCodeEnv`.
    """
    envs = [ResearchCodeEnv(sandbox=maker, max_steps=10**9, **settings) for maker in makers]
    walk(warm_steps, envs, seed=0)
    before = left()
    began = time.monotonic()
    walk(steps, envs, seed=1)
    seconds = time.monotonic() - began
    after = left()
    return {
        "steps": steps,
        "steps per second": steps / seconds,
        **{f"{what} left": after[what] - before[what] for what in after},
    }


def walk(steps: int, envs: Sequence[ResearchCodeEnv], *, seed: int) -> None:
    """Take so many steps, in episodes of challenges drawn from a seed."""
    actions = ActionSpace(seed)
    for env in envs:
        env.reset(seed=seed)
    for episode in range(steps // _EPISODE):
        env = envs[episode % len(envs)]
        env.reset()
        if episode % _GRADED_EVERY < len(envs):
            code = env.challenge.reference
            for tool, arguments in ("write_region", {"code": code}), ("run_tests", {}):
                env.step({"tool": tool, "arguments": arguments})
            env.step({"tool": "submit"})
            if env.verdict is None or not env.verdict.passed:
                raise RuntimeError(f"the reference of {env.challenge.id} has not passed")
            env.reset()
        lines = env.challenge.masked().text.count("\n")
        for number in range(_EPISODE):
            env.step(_valid(actions.sample(), env, lines))
            if number == _EPISODE // 2:
                env.restore(env.fork().snapshot())


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


def left() -> dict[str, float]:
    """What this process holds, after everything that can be given back was."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
    process = Path("/proc/self")
    pages = int((process / "statm").read_text().split()[1])
    return {
        "MB": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "descriptors": sum(1 for _ in (process / "fd").iterdir()),
        "threads": threading.active_count(),
        "child processes": sum(map(_children, (process / "task").iterdir())),
    }


def _children(thread: Path) -> int:
    try:
        return len((thread / "children").read_text().split())
    except OSError:  # the thread has just ended
        return 0
