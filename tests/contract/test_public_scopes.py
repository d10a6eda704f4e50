"""All regions of a file or of a paper at once, in the public benchmark's layout: graded split and guarded, and played."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner

from rcb_env.cli.check import check
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.errors import UsageError
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import ModelSettings, Task
from rcb_env.play.episode import play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import make_agent

Server = Any  # its class lives in conftest.py, which cannot be imported from here
SCALING = '''"""Scaling."""


# <paper2code name="scale">
def scale(x, factor):
    """Multiply, then add one."""
    # <paper2code name="product">
    y = x * factor
    # </paper2code name="product">
    return y + 1
# </paper2code name="scale">


def shift(x, by):
    # <paper2code name="shift">
    return x - by
    # </paper2code name="shift">
'''
LAYERS = """from scaling import scale


class Twice:
    def __init__(self, factor):
        # <paper2code name="remember">
        self.factor = factor
        # </paper2code name="remember">

    def __call__(self, x):
        return scale(scale(x, self.factor), self.factor)
"""
SCALING_REF = """
def scale_ref(x, factor):
    y = x * factor
    return y + 1


def shift_ref(x, by):
    return x - by
"""
LAYERS_REF = """
from scaling_ref import scale_ref


class TwiceRef:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return scale_ref(scale_ref(x, self.factor), self.factor)
"""
SUITE = """
import unittest

import numpy as np

from layers import Twice
from layers_ref import TwiceRef
from scaling import scale, shift
from scaling_ref import scale_ref, shift_ref


class TestAll(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(7).normal(size=(3, 4))

    def test_scale(self):
        np.testing.assert_allclose(scale(self.x, 2.5), scale_ref(self.x, 2.5))

    def test_shift(self):
        np.testing.assert_allclose(shift(self.x, 0.5), shift_ref(self.x, 0.5))

    def test_twice(self):
        np.testing.assert_allclose(Twice(1.5)(self.x), TwiceRef(1.5)(self.x))
"""
# What keeps a suite from being split: it needs a module of its own that holds the answer.
PUBLISHED = """
def shift(x, by):
    return x - by


def shapes():
    return (3, 4)


def factors():
    return (1.0, 2.0)
"""
INDEX = """
- {id: split, title: Split, annotated_file_paths: [scaling.py, layers.py]}
- {id: guarded, title: Guarded, annotated_file_paths: [scaling.py, layers.py]}
"""
SCALE = 'def scale(x, factor):\n    """Multiply, then add one."""\n    y = x * factor\n    return y + 1\n'
RIGHT = {
    "scale": SCALE,
    "shift": "    return x - by\n",
    "remember": "        self.factor = factor\n",
}
WRONG = {**RIGHT, "shift": "    return x + by\n"}
EVIDENCE = ("split", "guarded")


def text(**codes: str) -> str:
    return "".join(f"# region: {name}\n{code}" for name, code in codes.items())


def reply(**codes: str) -> str:
    return "\n".join(f"```python\n# region: {name}\n{code}```" for name, code in codes.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("public")
    files = {
        "paper2code_paper.md": "Multiply {x}, add one, subtract.\n",
        "scaling.py": SCALING,
        "layers.py": LAYERS,
        "scaling_ref.py": SCALING_REF,
        "layers_ref.py": LAYERS_REF,
    }
    suites = {
        "split": {"paper2code_test.py": SUITE},
        "guarded": {"paper2code_test.py": f"import published\n{SUITE}", "published.py": PUBLISHED},
    }
    (root / "papers.yaml").write_text(INDEX)
    for paper, tests in suites.items():
        (root / paper).mkdir()
        for name, content in {**files, **tests}.items():
            (root / paper / name).write_text(content)
    return root


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return load_dataset(f"{folder}@paper")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


Play = Callable[..., tuple[Episode, list[str]]]


@pytest.fixture
def play(dataset: Dataset, grader: Grader, request: pytest.FixtureRequest) -> Play:
    """An agent's episode of the paper that is split, and the tools it used."""

    class Tools(list[str]):
        def record(self, kind: str, payload: Any) -> None:
            if kind == "step":
                self.append(payload["action"]["tool"])

    def run(agent: str, server: Server = None) -> tuple[Episode, list[str]]:
        model = server and ModelSettings(name=request.node.name, base_url=server.url)
        env = ResearchCodeEnv("split@paper", dataset=dataset, grader=grader)
        made = make_agent(agent, model=model.name if model else None)
        task, tools = Task(dataset.challenge("split@paper"), seed=0, model=model), Tools()
        return play_episode(env, made, task, tools), tools

    return run


def test_a_public_paper_has_the_scopes_file_and_paper_and_counts_each_line_once(
    folder: Path, dataset: Dataset
) -> None:
    files = load_dataset(f"{folder}@file")
    assert {one.id: one.lines for one in (*files.challenges, *dataset.challenges)} == {
        "split/scaling.py@file": 5,
        "split/layers.py@file": 1,
        "guarded/scaling.py@file": 5,
        "guarded/layers.py@file": 1,
        "split@paper": 6,
        "guarded@paper": 6,
    }
    assert dataset.challenge("split@paper").hint == "3 parts of 2 files"
    with pytest.raises(UsageError, match="write region, file or paper"):
        load_dataset(f"{folder}@library")


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_reference_passes_a_part_gets_a_part_of_the_tests_and_nothing_is_no_change(
    dataset: Dataset, grader: Grader, evidence: str
) -> None:
    one = dataset.challenge(f"{evidence}@paper")
    for final in (False, True):
        right = grader.grade(one, one.reference, final=final)
        assert (right.status, right.counts(), right.evidence) == ("passed", (3, 3), evidence)
        wrong = grader.grade(one, text(**WRONG), final=final)
        assert (wrong.status, wrong.counts(), wrong.evidence) == ("failed", (2, 3), evidence)
        assert grader.grade(one, "", final=final).status == "no_change"
    right = grader.grade(one, one.reference, final=True)
    assert right.notes == ()
    left_out = grader.grade(one, text(scale=RIGHT["scale"]), final=True)
    assert left_out.status == "failed"


def test_one_file_of_several_is_graded_too(folder: Path, grader: Grader) -> None:
    files = load_dataset(f"{folder}@file")
    one = files.challenge("split/layers.py@file")
    assert grader.grade(one, one.reference, final=True).proven
    assert not grader.grade(one, "        self.factor = 1\n", final=True).passed


def test_whoever_takes_one_of_several_regions_from_the_reference_is_found_out(
    dataset: Dataset, grader: Grader
) -> None:
    """Each region has canaries of its own, and a final score meets all of them."""
    stolen = "    import sys\n    return sys._getframe(1).f_globals['shift_ref'](x, by)\n"
    one: Challenge = dataset.challenge("guarded@paper")
    verdict = grader.grade(one, text(**{**RIGHT, "shift": stolen}), final=True)
    assert verdict.status == "tampered", verdict
    assert any("_getframe" in note for note in verdict.notes)


def test_agents_play_it_by_replies_and_by_tools(play: Play, model_server: Server) -> None:
    assert play("reference")[0].status == "passed"
    assert play("noop")[0].status == "no_change"
    model_server.plays(model_server.answer(reply(**RIGHT)))
    assert play("single-shot", model_server)[0].status == "passed"
    prompt = model_server.requests[0]["body"]["messages"][-1]["content"]
    assert "- remember: `layers.py` from line 6 on" in prompt
    assert "# TODO: Implement block" in prompt
    assert "x * factor" not in prompt
    model_server.plays(
        model_server.answer(reply(**WRONG)), model_server.answer(reply(shift=RIGHT["shift"]))
    )
    episode, tools = play("repair:rounds=1", model_server)
    assert (episode.status, tools) == (
        "passed",
        ["write_region", "run_tests", "write_region", "submit"],
    )
    model_server.plays(
        model_server.calls(("write_region", {"code": text(**WRONG)}), ("run_tests", {})),
        model_server.calls(("replace", {"path": "scaling.py", "old": "x + by", "new": "x - by"})),
        model_server.calls(("submit", {})),
    )
    episode, tools = play("tools", model_server)
    assert (episode.status, tools) == (
        "passed",
        ["write_region", "run_tests", "replace", "submit"],
    )


def test_the_share_of_the_suites_tests_can_be_the_reward(folder: Path, grader: Grader) -> None:
    env = gymnasium.make(
        "rcb/Challenge-v0",
        challenge="split@paper",
        dataset=str(folder),
        reward="cases",
        grader=grader,
    )
    env.reset(seed=0)
    env.step({"tool": "write_region", "arguments": {"code": text(**WRONG)}})
    _, reward, *_ = env.step({"tool": "submit", "arguments": {}})
    assert float(reward) == pytest.approx(2 / 3)
    env.close()


def test_the_check_surveys_a_public_folder_at_a_scope(folder: Path) -> None:
    words = ["--dataset", str(folder), "--scope", "paper", "--no-cache", "--json"]
    done = CliRunner().invoke(check, words)
    assert done.exit_code == 0, done.output
    told = {one["paper"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert (told["split"]["passed"], told["split"]["split"]) == (1, 1)
    assert (told["guarded"]["passed"], told["guarded"]["split"]) == (1, 0)
    assert [finding["kind"] for finding in told["guarded"]["findings"]] == ["guarded"]
