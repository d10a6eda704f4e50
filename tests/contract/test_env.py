"""The environment with a real grader: what Gymnasium demands, and what an episode means."""

from __future__ import annotations

import copy
import dataclasses
import io
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import rcb_env
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Dataset
from rcb_env.env.actions import ToolCall
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.feedback import FEEDBACK_LEVELS, report, tell
from rcb_env.errors import UsageError
from rcb_env.grading.grader import CaseResult, Grader, Verdict

SOURCE = '''"""Small things to implement."""

import torch


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    # <paper2code name="scale">
    return x * factor + 1
    # </paper2code name="scale">


def shift(x: torch.Tensor) -> torch.Tensor:
    # <paper2code name="shift">
    return x - 1
    # </paper2code name="shift">
'''
CASES = """
import torch
from rcb_env.cases import case

@case(seeds=2)
def scales(tree, rng):
    print("printed by a case")
    return tree.load("small").scale(rng.torch.normal(3, 4), 2.5)

@case(seeds=1)
def shifts(tree, rng):
    return tree.load("small").shift(rng.torch.normal(5))
"""
RIGHT = {"tool": "write_region", "arguments": {"code": "    return x * factor + 1\n"}}
WRONG = {"tool": "write_region", "arguments": {"code": "    return x * factor\n"}}
RUN_TESTS = {"tool": "run_tests", "arguments": {}}
SUBMIT = {"tool": "submit", "arguments": {}}
LOOK = {"tool": "list_files", "arguments": {}}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    files = {"src/small.py": SOURCE, "src/odd.py": "# é ∇ 🙂\t\r\n", "tests/cases.py": CASES}
    return write_paper(tmp_path_factory.mktemp("papers") / "small", files)


@pytest.fixture(scope="module")
def dataset(root: Path) -> Dataset:
    return load_dataset(root)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


@pytest.fixture
def env(dataset: Dataset, grader: Grader) -> ResearchCodeEnv:
    return make(dataset, grader)


def make(dataset: Dataset, grader: Grader, **settings: Any) -> ResearchCodeEnv:
    challenge = settings.pop("challenge", "small/scale")
    return ResearchCodeEnv(challenge, dataset=dataset, grader=grader, **settings)


def play(env: ResearchCodeEnv, *actions: Any) -> list[Any]:
    """Reset, then do all actions; every observation must lie in its space."""
    observation, _ = env.reset()
    assert observation in env.observation_space
    results = []
    for action in actions:
        results.append(env.step(action))
        assert results[-1][0] in env.observation_space
    return results


# --- Gymnasium --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_checker_of_gymnasium_finds_nothing(root: Path, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("rcb/Challenge-v0", challenge="small/scale", dataset=str(root))
        env.action_space.seed(seed)
        check_env(env.unwrapped)
        env.close()


def test_the_checker_of_gymnasium_finds_nothing_in_any_bundled_challenge(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed, challenge in enumerate(load_dataset().challenges):
            env = gymnasium.make("rcb/Challenge-v0", challenge=challenge.id)
            env.action_space.seed(seed)
            check_env(env)
            env.close()
    capsys.readouterr()


def test_the_checker_finds_nothing_where_no_engine_answers(root: Path) -> None:
    """Case C063: nothing is asked of the engine before something is graded, and other boxes take its place."""
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    script = f"""
import gymnasium, rcb_env
from gymnasium.utils.env_checker import check_env
from rcb_env.grading import shared as sharing
for seed in range(4):
    env = gymnasium.make("rcb/Challenge-v0", challenge="small/scale", dataset={str(root)!r})
    env.action_space.seed(seed)
    check_env(env.unwrapped)
assert next(iter(sharing._graders.made.values())).sandbox == "bubblewrap"  # so tests were run
env = gymnasium.make("rcb/Challenge-v0", challenge="small/scale", sandbox="docker", dataset={str(root)!r})
env.reset()
env.step({LOOK})
env.step({RIGHT})
try:
    env.step({SUBMIT})
except rcb_env.errors.SandboxUnavailable as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "DOCKER_HOST": f"unix://{root}/nothing"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no Docker engine answers" in done.stdout.splitlines()[-1]


def test_the_environment_is_made_by_id_after_importing_the_package_in_either_order() -> None:
    make = "gymnasium.make('rcb/Challenge-v0', challenge='DyT/forward').close()"
    for script in (
        f"import gymnasium, rcb_env; {make}",
        f"import rcb_env, gymnasium; {make}",
        "import gymnasium; gymnasium.make('rcb_env:rcb/Challenge-v0', challenge='DyT/forward')",
    ):
        subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_importing_the_package_loads_gymnasium_and_nothing_heavy() -> None:
    script = "import sys, rcb_env; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.split())
    assert "gymnasium" in loaded
    heavy = {
        "docker",
        "openai",
        "torch",
        "tiktoken",
        "pydantic",
        "yaml",
        "rcb_env.env.environment",
        "regex",
        "rcb_env.env.vector",
    }
    assert not loaded & heavy


PUBLIC = """
TOOLS ActionSpace Agent AgentError Arrival BudgetSpent Budgets Challenge ChallengeVectorEnv
ChatMessages Curriculum Dataset DiscreteChoice EnvSnapshot Episode Extracted Grader HistoryWindow Masked
ModelError ModelRefusedRequest ModelSettings Mutant NoAnswer Paper PaperError RcbError Recorder
ResearchCodeEnv RewardSpec Rules SandboxError SandboxUnavailable Shown StoreError Task TextSpace
TokenBudget Tool ToolCall ToolText Turn Usage UsageError Verdict Worth agent_names challenges_of extract load_dataset make_agent
mutants parse play_episode reward_spec rewards_of tool_schemas without_credentials
"""


def test_the_public_names_are_these_and_each_exists() -> None:
    """A name that goes or comes changes what users may rely on: change this list on purpose."""
    assert rcb_env.__all__ == PUBLIC.split()
    for name in rcb_env.__all__:
        assert getattr(rcb_env, name) is not None
    assert set(rcb_env.__all__) <= set(dir(rcb_env))
    with pytest.raises(AttributeError, match="no attribute 'Grder'"):
        _ = rcb_env.Grder


def test_a_step_before_reset_or_after_the_end_is_refused(env: ResearchCodeEnv) -> None:
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(LOOK)
    play(env, SUBMIT)
    with pytest.raises(ResetNeeded, match="over"):
        env.step(LOOK)
    play(env, LOOK)


def test_closing_twice_is_fine_and_ends_the_episode(env: ResearchCodeEnv) -> None:
    play(env, LOOK)
    env.close()
    env.close()
    with pytest.raises(ResetNeeded):
        env.step(LOOK)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"challenge": "small/scael"}, "Did you mean small/scale"),
        ({"feedback": "message"}, "Did you mean messages"),
        ({"render_mode": "rgb_array"}, "render mode"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_test_runs": -1}, "max_test_runs is -1"),
        ({"max_text_chars": 10}, "max_text_chars is 10"),
        ({"max_steps": "9"}, "max_steps is '9'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    dataset: Dataset, grader: Grader, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(dataset, grader, **settings)


def test_a_sandbox_that_does_not_exist_is_refused_before_anything_is_graded(
    dataset: Dataset,
) -> None:
    with pytest.raises(UsageError, match="unknown sandbox 'dokcer'"):
        ResearchCodeEnv(dataset=dataset, sandbox="dokcer")


# --- which challenge ---------------------------------------------------------------------------


def drawn(env: gymnasium.Env[Any, Any], seed: int, count: int = 12, **options: Any) -> list[str]:
    """The challenges of a reset with a seed and of those after it."""
    first = env.reset(seed=seed, options=options or None)[1]["challenge"]
    return [first, *(env.reset(options=options or None)[1]["challenge"] for _ in range(count - 1))]


def test_without_a_challenge_each_reset_draws_one_from_the_seed_alone() -> None:
    env, twin = (gymnasium.make("rcb/Challenge-v0", papers=["DyT", "minp"]) for _ in range(2))
    assert drawn(env, 3) == drawn(twin, 3) == drawn(env, 3)
    assert drawn(env, 3) != drawn(env, 4)
    names = set(drawn(env, 5, 60))
    assert {name.partition("/")[0] for name in names} == {"DyT", "minp"}
    assert len(names) > 10
    observation, info = env.reset(seed=6)
    assert env.unwrapped.challenge.id == info["challenge"]  # type: ignore[attr-defined]
    assert env.unwrapped.challenge.hint in observation["text"]  # type: ignore[attr-defined]


def test_options_choose_for_one_episode(dataset: Dataset, grader: Grader) -> None:
    env = ResearchCodeEnv(papers="DyT")
    other = next(one.id for one in load_dataset().challenges if one.paper.id == "minp")
    assert set(drawn(env, 1, 3, challenge=other)) == {other}
    assert set(drawn(env, 1, 3, challenges=["DyT/forward", other], papers="minp")) == {other}
    assert set(drawn(env, 1, 3, challenges=["DyT/forward"])) == {"DyT/forward"}
    long = set(drawn(env, 1, 40, min_lines=5))
    assert long
    lines = {one.id: one.lines for one in load_dataset().challenges}
    assert all(lines[name] >= 5 and name.startswith("DyT/") for name in long)
    assert {name.partition("/")[0] for name in drawn(env, 1, 5)} == {"DyT"}
    fixed = make(dataset, grader)
    assert drawn(fixed, 1, 2, challenge="small/shift") == ["small/shift"] * 2
    assert drawn(fixed, 1, 2) == ["small/scale"] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chalenge": "small/scale"}, "Did you mean challenge"),
        ({"challenge": "small/scael"}, "Did you mean small/scale"),
        ({"challenge": "small/scale", "papers": "small"}, "leave out papers"),
        ({"challenge": 7}, "challenge is 7"),
        ({"papers": []}, "papers is"),
        ({"min_lines": "3"}, "min_lines is '3'"),
        ({"min_lines": 1000}, "at least 1000 lines"),
        ({"min_lines": 8, "max_lines": 9}, "8 to 9 lines"),
    ],
)
def test_an_option_that_cannot_be_is_refused_and_the_episode_goes_on(
    env: ResearchCodeEnv, options: dict[str, Any], message: str
) -> None:
    play(env, RIGHT)
    with pytest.raises(UsageError, match=message):
        env.reset(options=options)
    assert env.step(SUBMIT)[1] == 1.0


def test_a_specification_with_paths_and_tuples_goes_through_json() -> None:
    folder = Path(__file__).parents[2] / "papers" / "DyT"
    env = gymnasium.make("rcb/Challenge-v0", dataset=folder, papers=("DyT",))
    assert env.spec is not None
    read = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert read == env.spec
    twin = gymnasium.make(read)
    assert twin.reset(seed=3)[1] == env.reset(seed=3)[1]


def test_a_specification_goes_through_json() -> None:
    env = gymnasium.make(
        "rcb/Challenge-v0",
        papers=["DyT"],
        min_lines=2,
        feedback="full",
        reward={"outcome": "cases", "step_cost": 0.5},
        max_steps=7,
    )
    assert env.spec is not None
    read = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert read == env.spec
    twin = gymnasium.make(read)
    assert twin.spec == env.spec
    for seed in range(3):
        assert twin.reset(seed=seed)[1] == env.reset(seed=seed)[1]
    assert twin.step(LOOK)[1] == env.step(LOOK)[1] == -0.5


def test_times_are_told_under_one_key_where_they_are_asked_for(
    dataset: Dataset, grader: Grader
) -> None:
    plain, timed = make(dataset, grader), make(dataset, grader, timings=True)
    for one, other in zip(
        play(plain, RIGHT, RUN_TESTS, SUBMIT), play(timed, RIGHT, RUN_TESTS, SUBMIT), strict=True
    ):
        times = other[4].pop("timings")
        assert times["step_s"] > 0
        assert one == other
    assert times["final"]["total_s"] > 0


# --- an episode -------------------------------------------------------------------------------


def test_the_first_observation_tells_the_task(env: ResearchCodeEnv) -> None:
    observation, info = env.reset()
    for part in ('"scale"', "src/small.py lines 7-8", "50 steps", "10 test runs", "write_region"):
        assert part in observation["text"]
    assert (observation["steps_left"], observation["test_runs_left"]) == (50, 10)
    assert info["challenge"] == "small/scale"
    assert not info["error"]
    assert not info["tests"]
    assert not info["verdict"]


def test_a_right_region_is_rewarded_when_it_is_submitted_and_not_before(
    env: ResearchCodeEnv,
) -> None:
    wrote, tested, submitted = play(env, RIGHT, RUN_TESTS, SUBMIT)
    assert wrote[1:4] == (0.0, False, False)
    assert tested[1:4] == (0.0, False, False)
    assert tested[4]["tests"]["passed"] == tested[4]["tests"]["total"] == 3
    assert tested[4]["tests"]["status"] == "passed"
    assert submitted[1:4] == (1.0, True, False)
    assert submitted[4]["verdict"]["status"] == "passed"
    assert Verdict.from_dict(submitted[4]["verdict"]).passed
    assert env.verdict is not None
    assert env.verdict.timings
    assert "timings" not in submitted[4]["verdict"]


def test_a_wrong_region_is_told_where_it_fails_and_gets_nothing(env: ResearchCodeEnv) -> None:
    _, tested, submitted = play(env, WRONG, RUN_TESTS, SUBMIT)
    assert "- scales: 0 of 2 passed" in tested[0]["text"]
    assert "values differ" in tested[0]["text"]
    assert not tested[4]["error"]
    assert submitted[1:4] == (0.0, True, False)


def test_the_untouched_region_is_no_change(env: ResearchCodeEnv) -> None:
    tested, submitted = play(env, RUN_TESTS, SUBMIT)
    assert tested[4]["tests"]["status"] == "no_change"
    assert "holds no code" in tested[0]["text"]
    assert submitted[4]["verdict"]["status"] == "no_change"


def test_spent_steps_truncate_and_grade_what_is_there(dataset: Dataset, grader: Grader) -> None:
    env = make(dataset, grader, max_steps=2)
    first, last = play(env, RIGHT, LOOK)
    assert first[2:4] == (False, False)
    assert last[1:4] == (1.0, False, True)
    assert "No steps are left" in last[0]["text"]
    assert "src/small.py" in last[0]["text"]
    assert last[0]["steps_left"] == 0
    (only,) = play(make(dataset, grader, max_steps=1), SUBMIT)
    assert only[2:4] == (True, False)


def test_a_test_run_beyond_the_budget_is_an_error_and_runs_nothing(
    dataset: Dataset, grader: Grader
) -> None:
    env = make(dataset, grader, max_test_runs=1)
    _, first, second = play(env, WRONG, RUN_TESTS, RUN_TESTS)
    assert first[0]["test_runs_left"] == 0
    assert "no test runs are left" in second[0]["text"]
    assert second[4]["error"]
    assert not second[4]["tests"]
    assert second[0]["steps_left"] == 47


@pytest.mark.parametrize(
    "action",
    [
        {"tool": "multi_tool_use.parallel", "arguments": {"tool_uses": [LOOK, SUBMIT]}},
        {"tool": "bash", "arguments": {"command": "ls"}},
        {"tool": "Edit", "arguments": {}},
        {"tool": "", "arguments": {}},
        "I think the code is fine now.",
        None,
        7,
        [LOOK, SUBMIT],
        {"tool": "read_file", "arguments": {"path": "src/nothing.py"}},
        {"tool": "read_file", "arguments": {}},
        {"tool": "replace", "arguments": {"old": "import torch", "new": ""}},
    ],
)
def test_an_odd_action_is_an_error_observation_and_uses_up_a_step(
    env: ResearchCodeEnv, action: Any
) -> None:
    """Cases C057 and C063: a made-up tool was reported as bad parameters, or raised."""
    ((observation, reward, terminated, truncated, info),) = play(env, action)
    assert info["error"]
    assert observation["steps_left"] == 49
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_made_up_tools_end_at_the_step_limit(dataset: Dataset, grader: Grader) -> None:
    """Case C057: a model that repeats an unknown name must reach the end of its steps."""
    env = make(dataset, grader, max_steps=3)
    *_, last = play(env, *[{"tool": "bash", "arguments": {}}] * 3)
    assert last[2:4] == (False, True)
    assert last[4]["error"]
    assert "write_region" in last[0]["text"]


def test_observations_with_any_text_fit_and_long_ones_are_cut_with_a_mark(
    dataset: Dataset, grader: Grader
) -> None:
    """Case C063: newlines, blanks, tabs, letters of any alphabet, emoji, nothing, and too much."""
    env = make(dataset, grader, max_text_chars=300)
    long = {"tool": "write_region", "arguments": {"code": "    # é∇🙂\t \n" * 100 + "    \ud800"}}
    read = {"tool": "read_file", "arguments": {"path": "src/small.py"}}
    odd = {"tool": "read_file", "arguments": {"path": "src/odd.py"}}
    empty = {"tool": "write_region", "arguments": {"code": ""}}
    results = play(env, long, read, odd, empty, RUN_TESTS, env.action_space.sample())
    assert "cut here: " in results[1][0]["text"]
    assert "é ∇ 🙂\t" in results[2][0]["text"]


def test_a_tool_call_object_is_an_action_too(env: ResearchCodeEnv) -> None:
    ((observation, *_),) = play(env, ToolCall("list_files"))
    assert "src/small.py" in observation["text"]


def test_the_paper_is_readable_or_not_part_of_the_task(dataset: Dataset, grader: Grader) -> None:
    paper = {"tool": "read_paper", "arguments": {}}
    ((shown, *_),) = play(make(dataset, grader), paper)
    assert "add one" in shown["text"]
    env = make(dataset, grader, with_paper=False)
    ((refused, *_, info),) = play(env, paper)
    assert info["error"]
    assert "read_paper shows" not in env.reset()[0]["text"]
    assert "not part" in refused["text"]


def test_the_same_actions_give_the_same_observations_and_infos(env: ResearchCodeEnv) -> None:
    actions = [WRONG, RUN_TESTS, {"tool": "undo"}, RIGHT, RUN_TESTS, SUBMIT]
    assert play(env, *actions) == play(env, *actions)


def test_a_sandbox_that_fails_ends_the_episode_without_a_score(dataset: Dataset) -> None:
    grader = Grader()
    env = make(dataset, grader)
    grader.close()  # from here on it has no boxes
    for action in (RUN_TESTS, SUBMIT):
        _, last = play(env, RIGHT, action)
        assert last[1:4] == (0.0, False, True)
        assert last[4]["verdict"]["status"] == "infra_error"
        assert not last[4]["tests"]


# --- feedback ---------------------------------------------------------------------------------

VERDICT = Verdict(
    "failed",
    cases=(
        CaseResult("a", 1, "passed"),
        CaseResult("a", 2, "failed", "the values differ", "expected 7"),
        CaseResult("b", 3, "error", "NameError: no name"),
    ),
    error_class="name",
    message="a: the values differ",
    notes=("a note",),
    stdout="printed",
    timings={"total_s": 1.0},
)
REVEALED = {  # the lowest level that tells it
    "1 of 3": "counts",
    "- b: 0 of 1": "names",
    "the values differ": "messages",
    "NameError": "messages",
    "a note": "messages",
    "printed": "messages",
    "expected 7": "full",
}


@pytest.mark.parametrize("level", FEEDBACK_LEVELS)
def test_each_feedback_level_tells_what_it_says_and_no_more(level: Any) -> None:
    tests = report(VERDICT, level)
    text = tell(tests)
    assert "failed" in text
    for part, lowest in REVEALED.items():
        allowed = FEEDBACK_LEVELS.index(level) >= FEEDBACK_LEVELS.index(lowest)
        assert (part in text) == allowed
        if part not in ("1 of 3", "- b: 0 of 1"):
            assert (part in str(tests)) == allowed
    assert ("total" in tests) == (level != "outcome")
    assert "total_s" not in str(tests)
    assert "seed" not in str(tests)


@pytest.mark.parametrize(
    ("printed", "left_out"),
    [
        ("a" * 1000 + "b" * 1000, 0),
        ("a" * 1000 + "é" * 7 + "b" * 1000, 14),
        ("a" * 5000 + "\n[… 70000 bytes left out …]\n" + "b" * 5000, 78_000),
        (  # the first mark is printed by the tests themselves, in 28 bytes
            f"{'a' * 4000}\n[… 1 bytes left out …]\n{'a' * 972}\n[… 70000 bytes left out …]\n{'b' * 5000}",
            78_000,
        ),
    ],
)
def test_long_output_is_told_by_both_ends_and_one_count_of_what_is_left_out(
    printed: str, left_out: int
) -> None:
    """Case C023: only the tail was told, with nothing of how much there was before it."""
    text = tell(report(dataclasses.replace(VERDICT, stdout=printed), "messages"))
    shown = text.partition("--- stdout ---\n")[2]
    mark = f"\n[… {left_out} bytes left out …]\n" if left_out else ""
    assert shown == "a" * 1000 + mark + "b" * 1000


def test_feedback_reaches_the_agent_at_the_level_that_was_asked_for(
    dataset: Dataset, grader: Grader
) -> None:
    _, told = play(make(dataset, grader, feedback="outcome"), WRONG, RUN_TESTS)
    assert told[0]["text"] == "Tests: failed."
    assert told[4]["tests"] == {"status": "failed"}
    _, told = play(make(dataset, grader, feedback="full"), WRONG, RUN_TESTS)
    assert "printed by a case" in told[0]["text"]
    assert any(case["detail"] for case in told[4]["tests"]["cases"])


# --- rendering --------------------------------------------------------------------------------


def test_ansi_gives_a_text_without_control_sequences(dataset: Dataset, grader: Grader) -> None:
    env = make(dataset, grader, render_mode="ansi")
    assert "no episode" in (env.render() or "")
    play(env, {"tool": "search", "arguments": {"pattern": "\x1b[31m"}})
    frame = env.render()
    assert frame is not None
    assert "step 1/50" in frame
    assert "> search(" in frame
    assert "\x1b" not in frame


def test_human_prints_every_step_even_where_stdout_knows_ascii_only(
    dataset: Dataset, grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    env = make(dataset, grader, render_mode="human")
    play(env, {"tool": "read_file", "arguments": {"path": "src/odd.py"}})
    assert env.render() is None
    assert raw.getvalue().count(b"small/scale  step") == 2
    assert b"\\xe9" in raw.getvalue()
    assert make(dataset, grader).render() is None


# --- forks, copies, processes -----------------------------------------------------------------


def test_a_snapshot_forks_an_episode(dataset: Dataset, grader: Grader) -> None:
    env, twin = make(dataset, grader), make(dataset, grader)
    play(env, WRONG)
    kept = env.snapshot()
    observation, info = twin.restore(kept)
    assert observation["steps_left"] == 49
    assert twin.step(RIGHT)[4]["code_hash"] != info["code_hash"]
    assert twin.step(SUBMIT)[1] == 1.0
    assert env.step(SUBMIT)[1] == 0.0
    env.restore(kept)
    env.step({"tool": "undo"})
    assert env.step(RIGHT)[0]["steps_left"] == 47
    with pytest.raises(UsageError, match="small/scale"):
        make(dataset, grader, challenge="small/shift").restore(kept)
    with pytest.raises(UsageError, match="larger"):
        make(dataset, grader, max_test_runs=0).restore(dataclasses.replace(kept, test_runs=1))
    with pytest.raises(ResetNeeded):
        make(dataset, grader).snapshot()


def test_an_environment_can_be_copied_and_pickled_before_and_during_an_episode(
    root: Path, env: ResearchCodeEnv
) -> None:
    """Case C067: a client or a lock inside the environment could be neither copied nor pickled."""
    for one in (env, ResearchCodeEnv("small/scale", dataset=str(root))):
        for copied in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert play(copied, RIGHT, SUBMIT)[-1][1] == 1.0
        play(one, RIGHT)
        for copied in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert copied.step(SUBMIT)[1] == 1.0
        assert one.step(WRONG)[0]["steps_left"] == 48


def test_a_grader_given_to_make_is_used(root: Path, grader: Grader) -> None:
    env = gymnasium.make(
        "rcb/Challenge-v0", challenge="small/scale", dataset=str(root), grader=grader
    )
    env.reset()
    env.step(RIGHT)
    assert env.step(SUBMIT)[1] == 1.0
    env.close()


def work(grader: Grader) -> tuple[int, int]:
    """How many boxes a grader has, and how often they have run something."""
    boxes = [box for pool in grader._fleet._pools.values() for box in pool._all]
    return len(boxes), sum(box.runs for box in boxes)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_each_autoreset_mode_yields_one_verdict_per_episode(
    dataset: Dataset, grader: Grader, mode: AutoresetMode
) -> None:
    """Case C065: since 1.0 the final info is not where people look, and verdicts were lost.

    Also: a vector environment merges infos key by key and breaks where one holds a dict and
    another one None. Without autoreset a step after the end starts no box and no test run.
    """
    envs = SyncVectorEnv(
        [
            lambda: make(dataset, grader, max_steps=3),
            lambda: make(dataset, grader, challenge="small/shift", max_steps=3),
        ],
        autoreset_mode=mode,
    )
    _, infos = envs.reset()
    verdicts: list[tuple[str, str]] = []
    wrong = {"tool": "write_region", "arguments": {"code": "    return x"}}
    script = [(RIGHT, wrong), (SUBMIT, RUN_TESTS), (LOOK, SUBMIT), (LOOK, LOOK)]
    done = [False, False]
    for actions in script:
        if mode is AutoresetMode.DISABLED and any(done):
            before = work(grader)
            with pytest.raises(ResetNeeded):
                envs.envs[done.index(True)].step(SUBMIT)
            assert work(grader) == before
            envs.reset(options={"reset_mask": np.array(done)})
        _, rewards, terminated, truncated, infos = envs.step(actions)
        done = [bool(a or b) for a, b in zip(terminated, truncated, strict=True)]
        last = infos.get("final_info", {}) if mode is AutoresetMode.SAME_STEP else infos
        statuses = last.get("verdict", {})
        for n in range(2):
            if statuses and statuses.get("_status", [False, False])[n]:
                assert done[n]
                assert rewards[n] == (statuses["status"][n] == "passed")
                verdicts.append((str(last["challenge"][n]), str(statuses["status"][n])))
    envs.close()
    assert verdicts == [("small/scale", "passed"), ("small/shift", "failed")]


def test_worker_processes_have_boxes_of_their_own_and_text_in_shared_memory_is_refused(
    root: Path, env: ResearchCodeEnv
) -> None:
    """Case C067: environments by id and by factory, in workers started by spawn and by fork."""
    play(env, RIGHT, SUBMIT)  # this process has boxes already

    def by_id() -> Any:
        return gymnasium.make(
            "rcb_env:rcb/Challenge-v0", challenge="small/scale", dataset=str(root)
        )

    def by_factory() -> Any:
        return ResearchCodeEnv("small/scale", dataset=str(root))

    def inherited() -> Any:
        return env  # with a grader of the parent, which a child must not use

    with pytest.raises(ValueError, match="shared_memory"):
        AsyncVectorEnv([by_id])
    methods = [
        name for name in ("spawn", "fork") if name in multiprocessing.get_all_start_methods()
    ]
    for method in methods:
        makers = [by_id, by_factory] if method == "spawn" else [by_id, inherited]
        with warnings.catch_warnings():
            # Newer Pythons warn of any fork while threads run.
            warnings.simplefilter("ignore", DeprecationWarning)
            envs = AsyncVectorEnv(makers, shared_memory=False, context=method)
        envs.reset(seed=1)
        envs.step((RIGHT, WRONG))
        _, rewards, terminated, _, infos = envs.step((SUBMIT, SUBMIT))
        assert list(rewards) == [1.0, 0.0]
        assert all(terminated)
        assert list(infos["verdict"]["status"]) == ["passed", "failed"]
        envs.close()
    assert play(env, RIGHT, SUBMIT)[-1][1] == 1.0
    assert os.getpid() == env._verdicts.pid
