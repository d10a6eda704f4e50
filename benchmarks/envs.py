"""Steps per second against the number of environments, and graded completions per second.

`gymnasium.make_vec` with 1, 2, 4 and 8 environments; all of them run the tests of right code, or all of them read a file.
A graded completion is one episode of two steps: the code is written and submitted. Beside it the public harness's way of
the same: the files are copied into a folder for each completion and a fresh interpreter runs the tests there, as many at
once as there are processors.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium

import rcb_env
from benchmarks.measure import Result, median
from benchmarks.plain import Plain

CHALLENGE = "DyT/forward"
NUMBERS = (1, 2, 4, 8)
_MANY = 1_000_000


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Numbers of environments take turns, several times; the figures are medians."""
    numbers = (1, 2) if quick else NUMBERS
    rounds, least_s = (1, 0.3) if quick else (5, 2.0)
    maker = makers[0]
    challenge = rcb_env.load_dataset().challenge(CHALLENGE)
    read = {"tool": "read_file", "arguments": {"path": challenge.file}}
    envs = {number: _envs(number, maker, challenge.reference) for number in numbers}
    figures: dict[str, float] = {}
    for what, action in (("run_tests", {"tool": "run_tests"}), ("read_file", read)):
        rates: dict[int, list[float]] = {number: [] for number in numbers}
        for turn in range(rounds):
            for number in numbers[turn % len(numbers) :] + numbers[: turn % len(numbers)]:
                step = _stepper(envs[number], [action] * number)
                rates[number].append(number * _per_second(step, least_s))
        for number in numbers:
            figures[f"{what} per second, {number} envs"] = median(rates[number])
        figures[f"{what}: {numbers[-1]} envs over 1"] = median(
            [many / one for many, one in zip(rates[numbers[-1]], rates[1], strict=True)]
        )
    ours, theirs = [], []
    with Plain(challenge) as plain:
        for _ in range(rounds):
            ours.append(_completions(envs[numbers[-1]], challenge.reference, least_s))
            theirs.append(_fresh(plain, least_s))
    figures["graded completions per second"] = median(ours)
    figures["graded completions per second, a fresh interpreter and folder for each"] = median(
        theirs
    )
    figures["graded completions: times faster"] = median(
        [one / other for one, other in zip(ours, theirs, strict=True)]
    )
    for each in envs.values():
        each.close()
    return Result(
        "envs",
        f"{CHALLENGE} in {maker}, environments side by side",
        figures=figures,
        notes=(f"{os.cpu_count()} processors; the target is for two idle ones.",),
        targets={f"run_tests: {NUMBERS[-1]} envs over 1": ">= 1.7"},
    )


def _envs(number: int, maker: str, code: str) -> Any:
    envs = gymnasium.make_vec(
        rcb_env.ENV_ID,
        num_envs=number,
        challenge=CHALLENGE,
        sandbox=maker,
        max_steps=_MANY,
        max_test_runs=_MANY,
        autoreset_mode="Disabled",
    )
    envs.reset(seed=0)
    envs.step([{"tool": "write_region", "arguments": {"code": code}}] * number)
    for _ in range(3):  # imports are learnt, boxes are warm
        envs.step([{"tool": "run_tests"}] * number)
    return envs


def _stepper(envs: Any, actions: list[dict[str, Any]]) -> Callable[[], None]:
    def step() -> None:
        _, _, _, truncated, infos = envs.step(actions)
        if truncated.any() or infos["error"].any():
            raise RuntimeError("a step of the benchmark has failed")

    return step


def _per_second(job: Callable[[], None], least_s: float) -> float:
    done, started = 0, time.perf_counter()
    while (took := time.perf_counter() - started) < least_s:
        job()
        done += 1
    return done / took


def _completions(envs: Any, code: str, least_s: float) -> float:
    number = envs.num_envs
    write = {"tool": "write_region", "arguments": {"code": code}}

    def episode() -> None:
        envs.reset(seed=0)
        envs.step([write] * number)
        _, reward, _, _, _ = envs.step([{"tool": "submit"}] * number)
        if reward.sum() != number:
            raise RuntimeError("a completion of the benchmark has not passed")

    return float(number * _per_second(episode, least_s))


def _fresh(plain: Plain, least_s: float) -> float:
    def one() -> None:
        place = Path(tempfile.mkdtemp(prefix="rcb-benchmark-"))
        try:
            plain.fresh(shutil.copytree(plain.folder / "tree", place / "tree"))
        finally:
            shutil.rmtree(place)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        at_once = os.cpu_count() or 1

        def all_of_them() -> None:
            for each in [pool.submit(one) for _ in range(at_once)]:
                each.result()

        return at_once * _per_second(all_of_them, least_s)
