"""File actions per second in one process, with each sandbox; what they leave in its memory is told by `leaks.py`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from functools import partial

from benchmarks.measure import Result, median, take_turns
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.grading.grader import Grader

_EPISODE = 50  # steps
_LEAST = {"docker": 1_500, "bubblewrap": 2_500}  # per second


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Episodes of fifty file actions each; the sandboxes take turns, and their boxes have run the tests before."""
    episodes = 10 if quick else 400
    with contextlib.ExitStack() as stack:
        jobs = {
            _name(maker): (
                partial(_episode, _env(maker, stack.enter_context(Grader(maker)))),
                episodes,
            )
            for maker in makers
        }
        samples = take_turns(jobs)
    return Result(
        "steps",
        f"file actions in one process, {episodes} episodes of {_EPISODE}",
        figures={what: _EPISODE / median(samples_s) for what, samples_s in samples.items()},
        targets={_name(maker): f">= {least:,}" for maker, least in _LEAST.items()},
    )


def _name(maker: str) -> str:
    return f"{maker}: file actions per second, a reset every {_EPISODE} included"


def _env(maker: str, grader: Grader) -> ResearchCodeEnv:
    env = ResearchCodeEnv("DyT/forward", max_steps=_EPISODE + 1, sandbox=maker, grader=grader)
    env.reset()
    env.step({"tool": "write_region", "arguments": {"code": env.challenge.reference}})
    _, _, _, _, info = env.step({"tool": "run_tests"})
    if info["tests"].get("status") != "passed":
        raise RuntimeError(f"the reference of the benchmark has not passed: {info['tests']}")
    return env


def _episode(env: ResearchCodeEnv) -> None:
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
    env.reset()
    for action in itertools.islice(actions, _EPISODE):
        _, _, _, _, info = env.step(action)
        if info["error"]:
            raise RuntimeError("a file action of the benchmark is wrong")
