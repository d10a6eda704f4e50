"""Many environments at once, with a real grader: every mode, without a barrier, and with boxes that die."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.vector import Arrival, ChallengeVectorEnv
from rcb_env.errors import SandboxUnavailable, UsageError
from rcb_env.grading.grader import Grader

SOURCE = """def scale(x, factor):
    # <paper2code name="scale">
    return x * factor + 1
    # </paper2code name="scale">


def shift(x):
    # <paper2code name="shift">
    return x - 1
    # </paper2code name="shift">
"""
CASES = """
from rcb_env.cases import case

@case(seeds=2)
def scales(tree, rng):
    return tree.load("small").scale(rng.numpy.normal(size=3), 2.5)

@case(seeds=1)
def shifts(tree, rng):
    return tree.load("small").shift(rng.numpy.normal(size=3))
"""
BROKEN_CASES = CASES.replace("2.5)", "2.5, 'too many')")
RIGHT = {"tool": "write_region", "arguments": {"code": "    return x * factor + 1\n"}}
WRONG = {"tool": "write_region", "arguments": {"code": "    return x * 3\n"}}
RUN_TESTS = {"tool": "run_tests", "arguments": {}}
SUBMIT = {"tool": "submit", "arguments": {}}
LOOK = {"tool": "read_file", "arguments": {"path": "src/odd.txt"}}
ODD = "# é ∇ 🙂\t\r\n"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Dataset:
    """The papers "small", and "broken", whose reference fails: nothing of it can be graded."""
    root = tmp_path_factory.mktemp("set")
    (root / "papers.yaml").write_text("name: two\ntitle: Two\npapers: [small, broken]\n")
    for id, cases in (("small", CASES), ("broken", BROKEN_CASES)):
        files = {"src/small.py": SOURCE, "src/odd.txt": ODD, "tests/cases.py": cases}
        write_paper(root / id, files)
    return load_dataset(root)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2) as made:
        yield made


@pytest.fixture
def settings(dataset: Dataset, grader: Grader) -> dict[str, Any]:
    return {"challenge": "small/scale", "dataset": dataset, "grader": grader}


def work(grader: Grader) -> tuple[int, int]:
    """How many boxes a grader has, and how often they have run something."""
    boxes = [box for pool in grader._fleet._pools.values() for box in pool._all]
    return len(boxes), sum(box.runs for box in boxes)


def same(one: Any, other: Any) -> bool:
    """Whether two results of vector environments are equal, arrays and all."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and all(map(same, one.tolist(), other.tolist()))
    return bool(one == other)


@pytest.mark.parametrize("mode", ["SameStep", AutoresetMode.SAME_STEP])
def test_it_is_what_make_vec_makes_and_its_specification_goes_through_json(mode: Any) -> None:
    envs = gymnasium.make_vec(
        "rcb/Challenge-v0", num_envs=3, papers=("DyT",), autoreset_mode=mode, max_steps=4
    )
    assert isinstance(envs, ChallengeVectorEnv)
    assert envs.spec is not None
    twin = gymnasium.make_vec(EnvSpec.from_json(envs.spec.to_json()))
    assert (twin.num_envs, twin.spec) == (3, envs.spec)
    assert same(envs.reset(seed=5), twin.reset(seed=5))
    observations, infos = envs.reset(seed=5)
    assert observations in envs.observation_space
    assert infos["challenge"].tolist() != envs.reset(seed=50)[1]["challenge"].tolist()
    envs.close()
    envs.close()
    twin.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_it_gives_what_one_after_the_other_gives_and_one_verdict_per_episode(
    settings: dict[str, Any], mode: AutoresetMode
) -> None:
    """Case C065: two episodes of different length, in every mode, against Gymnasium's own vector.

    Without autoreset a step after the end starts no box and no test run.
    """
    settings = {**settings, "max_steps": 3}
    threads = ChallengeVectorEnv(2, autoreset_mode=mode, **settings)
    serial = SyncVectorEnv([lambda: ResearchCodeEnv(**settings)] * 2, autoreset_mode=mode)
    first, second = threads.reset(seed=1), serial.reset(seed=1)
    assert same(first, second)
    apart = {"reset_mask": np.array([False, True]), "challenge": "small/shift"}
    assert same(threads.reset(options=apart.copy()), serial.reset(options=apart.copy()))
    verdicts = []
    script = [(RIGHT, LOOK), (SUBMIT, RUN_TESTS), (LOOK, WRONG), (WRONG, LOOK), (SUBMIT, SUBMIT)]
    done = np.zeros(2, np.bool_)
    for actions in script:
        if mode is AutoresetMode.DISABLED and done.any():
            before = work(settings["grader"])
            with pytest.raises(ResetNeeded, match="environment"):
                threads.step((SUBMIT, SUBMIT))
            with pytest.raises(ResetNeeded, match="environment"):
                threads.send(int(done.argmax()), SUBMIT)
            assert work(settings["grader"]) == before
            mask = {"reset_mask": done}
            assert same(threads.reset(options=mask), serial.reset(options=dict(mask)))
        one, other = threads.step(actions), serial.step(actions)
        assert same(one, other)
        observations, rewards, terminated, truncated, infos = one
        assert observations in threads.observation_space
        done = terminated | truncated
        final = infos.get("final_info", {}) if mode is AutoresetMode.SAME_STEP else infos
        has = final.get("verdict", {}).get("_status", np.zeros(2, np.bool_))
        assert has.tolist() == done.tolist()
        verdicts += [
            (final["challenge"][n], final["verdict"]["status"][n]) for n in np.flatnonzero(has)
        ]
        assert not rewards[~done].any()
    assert verdicts == [
        ("small/scale", "passed"),
        ("small/shift", "failed"),
        ("small/scale", "failed"),
        ("small/scale", "no_change"),
    ]
    threads.close()
    serial.close()


def test_texts_arrive_as_they_are(settings: dict[str, Any]) -> None:
    envs = ChallengeVectorEnv(3, **settings)
    envs.reset()
    observations, *_ = envs.step([LOOK, {"tool": "search", "arguments": {"pattern": "é"}}, None])
    assert isinstance(observations["text"], tuple)
    assert "é ∇ 🙂\t" in observations["text"][0]
    assert "é ∇ 🙂" in observations["text"][1]
    assert observations["steps_left"].tolist() == [49, 49, 49]
    assert observations in envs.observation_space
    envs.close()


def test_each_environment_goes_on_by_itself_without_waiting_for_the_slowest(
    settings: dict[str, Any],
) -> None:
    slow = {"tool": "write_region", "arguments": {"code": "    import time; time.sleep(1)\n"}}
    envs = ChallengeVectorEnv(2, **settings)
    envs.reset(seed=0)
    envs.step([slow, RIGHT])
    envs.send(0, RUN_TESTS)
    for _ in range(3):
        envs.send(1, LOOK)
        assert envs.recv(20).index == 1
    with pytest.raises(UsageError, match="environment 0 has a step under way"):
        envs.send(0, LOOK)
    with pytest.raises(UsageError, match="under way"):
        envs.step([LOOK, LOOK])
    with pytest.raises(TimeoutError):
        envs.recv(0.001)
    assert envs.recv(30).index == 0
    with pytest.raises(UsageError, match="send one first"):
        envs.recv()
    envs.send(1, SUBMIT)
    arrival = envs.recv(30)
    assert (arrival.index, arrival.reward, arrival.terminated) == (1, 1.0, True)
    envs.send(1, SUBMIT)  # next-step autoreset: it starts the next episode
    arrival = envs.recv()
    assert isinstance(arrival, Arrival)
    assert (arrival.reward, arrival.info["verdict"], arrival.terminated) == (0.0, {}, False)
    assert "About 1 line(s)" in arrival.observation["text"]
    with pytest.raises(UsageError, match="no environment 2"):
        envs.send(2, LOOK)
    envs.close()


def test_a_box_that_is_killed_is_replaced_and_its_episode_goes_on(
    settings: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """In bubblewrap, whose boxes are children of this process."""
    try:
        grader = Grader("bubblewrap", workers=2)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    request.addfinalizer(grader.close)
    envs = ChallengeVectorEnv(2, **{**settings, "grader": grader})
    envs.reset()
    envs.step([RIGHT, WRONG])
    assert envs.step([RUN_TESTS, RUN_TESTS])[4]["tests"]["status"].tolist() == ["passed", "failed"]
    assert _kill_boxes() >= 2
    statuses = envs.step([RUN_TESTS, RUN_TESTS])[4]["tests"]["status"].tolist()
    assert statuses == ["passed", "failed"]
    assert envs.step([SUBMIT, SUBMIT])[1].tolist() == [1.0, 0.0]
    envs.close()


def test_what_cannot_be_graded_ends_as_infra_and_the_others_go_on(
    settings: dict[str, Any],
) -> None:
    envs = ChallengeVectorEnv(2, **settings)
    envs.reset()
    envs.reset_one(1, options={"challenge": "broken/scale"})
    envs.step([RIGHT, RIGHT])
    _, rewards, terminated, truncated, infos = envs.step([RUN_TESTS, RUN_TESTS])
    assert truncated.tolist() == [False, True]
    assert not terminated.any()
    assert infos["verdict"]["status"].tolist() == [None, "infra_error"]
    assert not rewards.any()
    assert envs.step([SUBMIT, LOOK])[1].tolist() == [1.0, 0.0]
    envs.close()


def test_a_mistake_of_the_caller_is_one_clear_line(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Did you mean SameStep"):
        ChallengeVectorEnv(2, autoreset_mode="same_step", **settings)
    with pytest.raises(UsageError, match="num_envs is 0"):
        ChallengeVectorEnv(0, **settings)
    envs = ChallengeVectorEnv(2, **settings)
    with pytest.raises(ResetNeeded):
        envs.step([LOOK, LOOK])
    envs.reset()
    with pytest.raises(UsageError, match="1 actions for 2"):
        envs.step([LOOK])
    with pytest.raises(UsageError, match="3 seeds for 2"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(UsageError, match="reset_mask"):
        envs.reset(options={"reset_mask": [False, False]})
    with pytest.raises(UsageError, match="Did you mean papers"):
        envs.reset(options={"paper": "small"})
    envs.set_attr("note", ["a", "b"])
    assert envs.get_attr("note") == ("a", "b")
    assert [one.steps for one in envs.call("snapshot")] == [0, 0]
    envs.close()


def test_text_in_shared_memory_is_refused_with_the_setting_to_use_instead() -> None:
    with pytest.raises(ValueError, match="add shared_memory=False"):
        gymnasium.make_vec(
            "rcb/Challenge-v0", 2, vectorization_mode="async", challenge="DyT/forward"
        )


def _kill_boxes() -> int:
    """Kill every box that this process has started."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            is_box = b"bwrap" in (process / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
        if parent == os.getpid() and is_box:
            os.kill(int(process.name), signal.SIGKILL)
            found += 1
    return found
