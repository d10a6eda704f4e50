"""A box that dies under one environment of many: the step is tried once more, then the episode ends as infra."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import leaks
from rcb_env.dataset.papers import Dataset
from rcb_env.env.vector import ChallengeVectorEnv
from rcb_env.grading.grader import Grader

NAME = f"victim{os.getpid()}"
RIGHT = "    return x * factor + 1\n"
SLOW = (
    f"    import time; time.sleep(0.3)\n{RIGHT}"  # so that two boxes are at work at the same time
)
# The process that runs this one can be told from all others.
VICTIM = f"    with open('/proc/self/comm', 'w') as name: name.write('{NAME}')\n{SLOW}"
CODES = (VICTIM, SLOW, "    return x\n")
RESULTS = ["passed", "passed", "failed"]
RUN_TESTS = {"tool": "run_tests", "arguments": {}}


@pytest.fixture(scope="module")
def envs(maker_name: str, small_papers: Dataset) -> Iterator[ChallengeVectorEnv]:
    """Three environments, the boxes of which have run tests."""
    with Grader(maker_name, workers=2) as grader:
        made = ChallengeVectorEnv(
            3,
            challenge="small/scale",
            dataset=small_papers,
            grader=grader,
            autoreset_mode="Disabled",
        )
        made.reset()
        write(made)
        assert statuses(made.step([RUN_TESTS] * 3)) == RESULTS
        yield made
        made.close()


def test_a_step_whose_box_is_killed_once_is_tried_again_and_the_episode_goes_on(
    envs: ChallengeVectorEnv,
) -> None:
    with Killer(times=1) as killer:
        results = envs.step([RUN_TESTS] * 3)
    assert killer.killed == 1
    assert statuses(results) == RESULTS
    assert results[0]["test_runs_left"].tolist() == [8, 8, 8]
    assert not (results[2] | results[3]).any()


def test_an_episode_whose_boxes_are_killed_again_and_again_ends_as_infra_and_the_next_is_sound(
    envs: ChallengeVectorEnv,
) -> None:
    lose_boxes_again_and_again(envs)
    before, had = leaks.left(), boxes(envs)
    lose_boxes_again_and_again(envs)
    after, more = leaks.left(), boxes(envs) - had  # a second judge, where two had to wait
    # Two boxes died. An engine's client keeps a connection more, or one less.
    for what, of_a_box, spare in (
        ("descriptors", 3, 1),
        ("threads", 0, 0),
        ("child processes", 1, 0),
    ):
        assert after[what] <= before[what] + more * of_a_box + spare, what


def lose_boxes_again_and_again(envs: ChallengeVectorEnv) -> None:
    with Killer(times=10) as killer:
        observations, rewards, terminated, truncated, infos = envs.step([RUN_TESTS] * 3)
    assert killer.killed == 2
    assert truncated.tolist() == [True, False, False]
    assert not terminated.any()
    assert not rewards.any()
    assert infos["verdict"]["status"].tolist() == ["infra_error", None, None]
    verdict = envs.envs[0].verdict
    assert verdict is not None
    assert verdict.error_class is None
    assert "[The sandbox failed: " in observations["text"][0]
    assert "The episode ends without a score.]" in observations["text"][0]
    assert infos["tests"]["status"].tolist() == [None, "passed", "failed"]

    envs.reset(options={"reset_mask": np.array([True, False, False])})
    write(envs)
    assert statuses(envs.step([RUN_TESTS] * 3)) == RESULTS


def test_warm_boxes_that_all_lost_what_their_runs_are_forked_from_are_not_held_against_code(
    small_papers: Dataset,
) -> None:
    """The kernel ends processes when a machine is short of memory, and idle ones do not notice."""
    challenge = small_papers.challenge("small/scale")
    with Grader("bubblewrap", workers=2) as grader:
        with ThreadPoolExecutor(2) as both:
            slow = [both.submit(grader.grade, challenge, SLOW, final=False) for _ in range(2)]
        assert all(future.result().passed for future in slow)
        boxes = grader._fleet._pools["candidate", "cpu"]._all
        assert len(boxes) == 2
        for box in boxes:
            assert box.clean
            for runner in box._channel.children():  # type: ignore[attr-defined]
                for zygote in Path(f"/proc/{runner}/task/{runner}/children").read_text().split():
                    os.kill(int(zygote), signal.SIGKILL)
        verdict = grader.grade(challenge, RIGHT, final=False)
        assert verdict.passed, verdict


class Killer:
    """Kills, while the block lasts, the box in which the victim's tests run, each time a new one does, so many times."""

    def __init__(self, times: int) -> None:
        self.killed = 0
        self._times = times
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Killer:
        while any(victims()):  # of the last run, whose box is being cleaned
            time.sleep(0.01)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        done: set[int] = set()
        while self.killed < self._times and not self._over.is_set():
            for first in set(map(first_process, victims())) - done - {0}:
                done.add(first)
                os.kill(first, signal.SIGKILL)
                self.killed += 1
            time.sleep(0.01)


def victims() -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().strip() == NAME:
                yield int(entry.name)
        except OSError:
            continue


def first_process(pid: int) -> int:
    """The process above this one that is the first of its box; 0 if all are gone."""
    while pid > 1:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0
        told = dict(line.partition(":")[::2] for line in status.splitlines())
        if told["NSpid"].split()[-1] == "1":
            return pid
        pid = int(told["PPid"])
    return 0


def write(envs: ChallengeVectorEnv) -> None:
    envs.step([{"tool": "write_region", "arguments": {"code": code}} for code in CODES])


def boxes(envs: ChallengeVectorEnv) -> int:
    grader = envs.envs[0]._verdicts.grader
    assert grader is not None
    return sum(len(pool._all) for pool in grader._fleet._pools.values())


def statuses(results: tuple[Any, ...]) -> list[str]:
    found: list[str] = results[4]["tests"]["status"].tolist()
    return found
