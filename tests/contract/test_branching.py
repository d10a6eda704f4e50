"""States of an episode: what a hash promises, what a replay repeats, what a fork shares."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import leaks
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.spaces import ActionSpace
from rcb_env.errors import UsageError
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
REWARD = "cases:shaping=0.5,gamma=0.9,step_cost=0.01,test_cost=0.1"
RUN_TESTS = {"tool": "run_tests", "arguments": {}}
SUBMIT = {"tool": "submit", "arguments": {}}
LOOK = {"tool": "list_files", "arguments": {}}
UNDO = {"tool": "undo", "arguments": {}}
RIGHT = {"tool": "write_region", "arguments": {"code": "    return x * factor + 1\n"}}
WRONG = {"tool": "write_region", "arguments": {"code": "    return x * 3\n"}}
# No replay may start boxes anew; what is generated comes a few dozen times.
quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Dataset:
    files = {"src/small.py": SOURCE, "src/odd.txt": "# é ∇ 🙂\t\r\n", "tests/cases.py": CASES}
    return load_dataset(write_paper(tmp_path_factory.mktemp("papers") / "small", files))


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


def make(dataset: Dataset, grader: Grader | None, **changes: Any) -> ResearchCodeEnv:
    given: dict[str, Any] = {"reward": REWARD, "max_steps": 15, "max_test_runs": 3}
    return ResearchCodeEnv(dataset=dataset, grader=grader, **{**given, **changes})


def played(env: ResearchCodeEnv, actions: Sequence[Any]) -> list[Any]:
    """The results of all actions, up to the end of the episode."""
    results: list[Any] = []
    for action in actions:
        results.append(env.step(action))
        if results[-1][2] or results[-1][3]:
            break
    return results


ODD = st.none() | st.integers() | st.text(max_size=20) | st.lists(st.booleans(), max_size=2)
EDGES = st.sampled_from([RIGHT, WRONG, UNDO, LOOK, RUN_TESTS, SUBMIT])


@quick
@given(
    seed=st.integers(0, 2**31),
    kinds=st.lists(st.one_of(st.just("sampled"), EDGES, EDGES, ODD), min_size=5, max_size=20),
)
def test_any_actions_stay_in_the_space_and_replay_equal(
    dataset: Dataset, grader: Grader, seed: int, kinds: list[Any]
) -> None:
    """Case C063, for whole episodes: sampled, useful and odd actions in any order."""
    space = ActionSpace(seed)
    actions = [space.sample() if kind == "sampled" else kind for kind in kinds]
    first, again = make(dataset, grader), make(dataset, grader)
    start = first.reset(seed=seed)
    assert start[0] in first.observation_space
    results = played(first, actions)
    for observation, reward, terminated, truncated, info in results:
        assert observation in first.observation_space
        assert isinstance(reward, float)
        assert not (terminated and truncated)
        assert bool(info["verdict"]) == (terminated or truncated)
        json.dumps(info)
    assert again.reset(seed=seed) == start
    assert played(again, actions) == results


STEPS = st.lists(st.sampled_from([RIGHT, WRONG, UNDO, LOOK, None, RUN_TESTS]), max_size=5)


@quick
@given(one=STEPS, other=STEPS, future=STEPS)
def test_the_same_hash_has_the_same_future(
    dataset: Dataset, grader: Grader, one: list[Any], other: list[Any], future: list[Any]
) -> None:
    envs = [make(dataset, grader, challenge="small/scale") for _ in range(2)]
    for env, actions in zip(envs, (one, other), strict=True):
        env.reset()
        played(env, actions)
    first, second = envs
    if first.state_hash == second.state_hash:
        for action in (*future, UNDO, UNDO, UNDO, SUBMIT):
            results = [env.step(action) for env in envs]
            assert results[0] == results[1]
            if results[0][2] or results[0][3]:
                break


def test_the_hash_knows_what_matters_and_nothing_else(dataset: Dataset, grader: Grader) -> None:
    def after(*actions: Any, **changes: Any) -> str:
        env = make(dataset, grader, **{"challenge": "small/scale", **changes})
        env.reset(seed=len(actions))
        env.charge(changes.pop("tokens", 0))
        results = played(env, actions)
        assert not results or results[-1][4]["state_hash"] == env.state_hash
        return env.state_hash

    other_look = {"tool": "search", "arguments": {"pattern": "x"}}
    assert after(LOOK, other_look) == after(WRONG, UNDO) == after(None, UNDO)
    assert after() == after(render_mode="ansi") == after(timings=True)
    different = [
        after(),
        after(LOOK),
        after(WRONG),
        after(RIGHT),
        after(LOOK, WRONG),
        after(RIGHT, WRONG),  # undo leads elsewhere
        after(RUN_TESTS),
        after(RIGHT, RUN_TESTS),  # the potential of the reward
        after(WRONG, RUN_TESTS),
        after(RIGHT, SUBMIT),
        after(WRONG, SUBMIT),
        after(challenge="small/shift"),
        after(max_steps=16),
        after(max_test_runs=2),
        after(with_paper=False),
        after(feedback="full"),
        after(max_text_chars=300),
        after(reward="sparse"),
    ]
    assert len(set(different)) == len(different)


@quick
@given(
    seed=st.integers(0, 2**31),
    past=STEPS,
    future=STEPS,
)
def test_a_snapshot_a_fork_and_a_copy_go_on_as_the_original_would(
    dataset: Dataset, grader: Grader, seed: int, past: list[Any], future: list[Any]
) -> None:
    env = make(dataset, grader)
    last = env.reset(seed=seed)
    for action in past:
        observation, _, terminated, truncated, info = env.step(action)
        last = observation, info
        assert not terminated
        assert not truncated
    kept = env.snapshot()
    twins = [env.fork(), copy.deepcopy(env), pickle.loads(pickle.dumps(env)), make(dataset, None)]
    for twin in twins[2:]:
        twin._verdicts.grader = grader
    assert twins[3].restore(pickle.loads(pickle.dumps(kept))) == last
    played(env, [WRONG, SUBMIT])  # the original goes its own way
    results = [played(twin, [*future, SUBMIT]) for twin in twins]
    assert results[0] == results[1] == results[2] == results[3]
    assert env.restore(kept) == last
    assert played(env, [*future, SUBMIT]) == results[0]
    draws = [twin.reset()[1]["challenge"] for twin in twins[:3]]
    assert len(set(draws)) == 1  # the generator of challenges was copied, too


def test_a_snapshot_of_other_files_or_another_challenge_is_refused(
    dataset: Dataset, grader: Grader, tmp_path: Path
) -> None:
    env = make(dataset, grader, challenge="small/scale")
    env.reset()
    kept = env.snapshot()
    drawing = make(dataset, grader)
    with pytest.raises(ResetNeeded, match="draws the challenge"):
        _ = drawing.challenge
    drawing.restore(kept)  # it draws from all, so it has this one
    assert drawing.challenge.id == "small/scale"
    for path, data in dataset.papers[0].files.items():
        target = Path(tmp_path, "small", path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.replace(b"shift", b"shove"))
    for path in ("paper.yaml", "paper.md", "tests/cases.py", "tests/checks.py"):
        target = Path(tmp_path, "small", path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(dataset.papers[0].root, path).read_bytes())
    other = make(load_dataset(tmp_path / "small"), grader)
    with pytest.raises(UsageError, match="other files or tests of small/scale"):
        other.restore(kept)
    with pytest.raises(TypeError, match=r"restore takes what snapshot\(\) .*, not 3$"):
        other.restore(3)  # type: ignore[arg-type]


def test_infos_and_observations_may_be_changed_by_the_caller(
    dataset: Dataset, grader: Grader
) -> None:
    env = make(dataset, grader, challenge="small/scale")
    env.reset()
    env.step(WRONG)
    *_, info = env.step(RUN_TESTS)
    kept = env.snapshot()
    info["tests"]["cases"].clear()
    assert env.restore(kept)[1]["tests"]["cases"]


def test_steps_leave_nothing_behind(maker_name: str) -> None:
    """A tenth of what `python -m benchmarks leaks` does, with a tenth of the memory; some are graded in real boxes."""
    steps = leaks.STEPS // 10
    found = leaks.measure(
        steps, [maker_name], warm_steps=5_000, challenge="llm-sci-use/independent-occurrences"
    )
    assert found["steps"] == steps
    assert found["MB left"] < leaks.allowed_mb(steps) == 2.0
    assert found["descriptors left"] <= 0
    assert found["threads left"] <= 0
    assert found["child processes left"] <= 0
