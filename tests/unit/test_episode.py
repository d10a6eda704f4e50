"""The types around an episode, and agents by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.env.actions import ToolCall
from rcb_env.env.settings import Budgets, Shown
from rcb_env.errors import AgentError, UsageError, without_credentials
from rcb_env.play.agent import ModelSettings, NoAnswer, Task, Turn, Usage
from rcb_env.play.record import Episode
from rcb_env.play.registry import agent_label, agent_names, agent_settings, make_agent

EPISODE = Episode(
    challenge="small/one",
    paper="small",
    file="src/small.py",
    sample=2,
    seed=7,
    agent="repair:rounds=1",
    model="m",
    lines=3,
    content_hash="abc",
    status="passed",
    verdict={"status": "passed"},
    end_reason="submitted",
    code="    return '\ud800'\n",
    code_hash="def",
    steps=3,
    test_runs=1,
    usage=Usage(10, 5, 2, None, 1, estimated=True),
    wall_s=1.5,
    started_at="2025-01-01T00:00:00.000+00:00",
)


@dataclass(frozen=True)
class Outside:
    """An agent of somebody else."""

    words: str = "a"
    deep: tuple[int, ...] = field(default=(), init=False)

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        yield ToolCall("submit", {"text": task.hint + self.words})


class Plain:
    """An agent without settings, which needs a model."""

    uses_model = True

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        yield ToolCall("submit", {"text": task.hint})


# --- agents by name ---------------------------------------------------------------------------


def test_the_agents_that_come_along_are_registered() -> None:
    assert {
        *("best-of-n", "human", "noop", "plan", "reference", "repair", "simulated"),
        *("single-shot", "tools"),
    } <= set(agent_names())


@pytest.mark.parametrize(
    ("spec", "model", "settings"),
    [
        ("repair", "m", {"rounds": 3, "history": "continued"}),
        ("repair:rounds=5", "m", {"rounds": 5, "history": "continued"}),
        (" repair: rounds = 0 ,history=fresh", "m", {"rounds": 0, "history": "fresh"}),
        ("tools", "m", {"format_errors": 4, "repeats": 3}),
        (
            "best-of-n:n=8, tests=no",
            "m",
            {"n": 8, "temperature": 0.8, "tests": False, "stop": True},
        ),
        ("repair:5,history=fresh", "m", {"rounds": 5, "history": "fresh"}),
        ("simulated:skill=0.25", None, {"skill": 0.25}),
        ("noop", None, {}),
        ("single-shot", "m", {}),
    ],
)
def test_a_spec_names_an_agent_and_its_settings(
    spec: str, model: str | None, settings: dict[str, Any]
) -> None:
    assert agent_settings(make_agent(spec, model=model)) == settings


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        ("repair", "repair"),
        ("repair:rounds=3", "repair"),
        ("best-of-n:tests=no,n=2", "best-of-n:n=2,tests=false"),
        ("single-shot", "single-shot"),
    ],
)
def test_a_label_is_the_shortest_spec_of_the_same_agent(spec: str, label: str) -> None:
    agent = make_agent(spec, model="m")
    assert agent_label(agent) == label
    assert make_agent(label, model="m") == agent


def test_an_agent_of_ones_own_is_named_by_module_and_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_own_agents.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    depth: int = 1\n"
        "    def play(self, task):\n"
        "        yield None\n"
        "not_an_agent = 3\n"
    )
    (tmp_path / "my_broken_agents.py").write_text("import sys\nclass Mine\n    pass\n")
    (tmp_path / "my_faulty_agents.py").write_text("import sys\nsys.no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    agent = make_agent("my_own_agents:Mine:depth=4", model="m")
    assert agent_settings(agent) == {"depth": 4}
    assert agent_label(agent) == "my_own_agents:Mine:depth=4"
    make_agent("my_own_agents:Mine", model=None)  # says nothing of models: may have one or not
    for spec, says in (
        ("my_own_agents:not_an_agent", "not a usable agent"),
        ("my_own_agents:Other", "no class 'Other'"),
        ("my_missing_agents:Mine", "cannot be imported"),
        ("my_broken_agents:Mine", r"SyntaxError: expected ':' \(my_broken_agents\.py:2\)$"),
        ("my_faulty_agents:Mine", r"AttributeError: .*'no_such_name' \(my_faulty_agents\.py:2\)$"),
    ):
        with pytest.raises(UsageError, match=says):
            make_agent(spec, model=None)


@pytest.mark.parametrize("spec", ["repiar", "single_shot", "nop:x=1"])
def test_an_unknown_agent_is_told_with_near_names(spec: str) -> None:
    with pytest.raises(
        UsageError, match=r"unknown agent .* Did you mean (repair|single-shot|noop)"
    ):
        make_agent(spec, model="m")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("repair:turns=3", "no setting 'turns'; it has rounds, history"),
        ("noop:x=1", "no setting 'x'; it has none"),
        ("repair:rounds=many", "cannot take rounds=many: input should be a valid integer"),
        ("repair:rounds=-1", "cannot take rounds=-1: input should be greater than or equal to 0"),
        ("repair:history=both", "'continued' or 'fresh'"),
        ("repair:rounds", "write name=value"),
        ("repair:rounds=1,rounds=2", "given twice"),
        ("repair:1,2", "write name=value"),
        ("noop:1", "write name=value"),
        ("simulated:skill=2", "less than or equal to 1"),
    ],
)
def test_a_wrong_setting_is_named_with_the_valid_ones(spec: str, says: str) -> None:
    with pytest.raises(AgentError) as caught:
        make_agent(spec, model=None if spec.startswith(("noop", "sim")) else "m")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_agent_and_a_model_must_go_together() -> None:
    with pytest.raises(UsageError, match="'repair' needs a model: add --model"):
        make_agent("repair", model=None)
    with pytest.raises(UsageError, match="'noop' takes no model: leave out --model m"):
        make_agent("noop", model="m")


def test_settings_are_the_fields_that_can_be_set() -> None:
    assert agent_settings(Outside("b")) == {"words": "b"}
    assert agent_label(Outside("b")).endswith(":Outside:words=b")
    assert agent_settings(Plain()) == {}
    assert agent_label(Plain()).endswith(":Plain")


# --- usage, budgets, model settings -----------------------------------------------------------


def test_usage_adds_up_and_an_unknown_cost_stays_unknown() -> None:
    one, other = Usage(1, 2, 1, 0.5, 1), Usage(10, 20, 0, 0.25, 2, estimated=True)
    assert one + other == Usage(11, 22, 1, 0.75, 3, estimated=True)
    assert (one + other).tokens == 33
    assert (one + replace(other, cost_usd=None)).cost_usd is None
    assert Usage() + one == one


@pytest.mark.parametrize("limit", [{"tokens": 0}, {"cost_usd": -1.0}, {"wall_s": float("nan")}])
def test_a_budget_of_nothing_is_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"the budget {next(iter(limit))}"):
        Budgets(**limit)


@pytest.mark.parametrize(
    "setting",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"max_tokens": 0},
        {"context_tokens": 0},
        {"max_retries": -1},
        {"timeout_s": 0},
        {"input_usd_per_mtok": -1},
    ],
)
def test_a_model_setting_that_cannot_work_is_named(setting: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(setting))):
        ModelSettings("m", **setting)


def test_a_model_needs_a_name() -> None:
    with pytest.raises(UsageError, match="--model"):
        ModelSettings(" ")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a:b@h:1/v1", "http://h:1/v1"),
        ("http://k@h/v1?x=1", "http://h/v1?x=1"),
        ("http://h/v1", "http://h/v1"),
        ("http://[::1", "http://[::1"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
    assert ModelSettings("m", base_url=url).to_dict()["base_url"] == shown


# --- episodes and tasks -----------------------------------------------------------------------


def test_an_episode_comes_back_from_json_equal() -> None:
    stored = json.loads(json.dumps(EPISODE.to_dict()))
    assert Episode.from_dict(stored) == EPISODE
    assert Episode.from_dict({**stored, "of_a_later_version": 1}) == EPISODE
    assert EPISODE.passed


@pytest.mark.parametrize(
    "change", [{"usage": None}, {"usage": {"x": 1}}, {"end_reason": "bored"}, {"lines": ...}]
)
def test_what_is_no_episode_is_refused(change: dict[str, Any]) -> None:
    data = {**EPISODE.to_dict(), **change}
    with pytest.raises(ValueError, match="episode"):
        Episode.from_dict({key: value for key, value in data.items() if value is not ...})


def test_a_missing_answer_says_why() -> None:
    assert str(NoAnswer("no_code", "only a diff")) == "no_code: only a diff"
    assert NoAnswer("empty").reason == "empty"


@pytest.fixture
def challenge(tmp_path: Path, write_paper: Callable[..., Path]) -> Challenge:
    region = '# <paper2code name="{0}">\nx = "é"\n# </paper2code name="{0}">\n'
    files = {
        "paper.md": "The text.\n",
        "src/a.py": "# \udce9\n" + region.format("one"),
        "src/b.py": region.format("two"),
        "src/c.py": "c = 1\n",
        "src/d.py": "d = 1\n",
    }
    folder = write_paper(tmp_path / "small", files, context=["src/c.py"])
    return load_dataset(folder).challenge("small/one")


def test_a_task_shows_what_a_prompt_needs(challenge: Challenge) -> None:
    task = Task(challenge)
    assert (task.hint, task.file) == ("one", "src/a.py")
    assert list(task.context_files) == ["src/c.py", "src/b.py"]
    assert "paper2code" not in task.masked_file + "".join(task.context_files.values())
    assert '# TODO: Implement block "one"' in task.masked_file
    assert task.masked_file.encode().startswith("# \N{REPLACEMENT CHARACTER}\n".encode())
    assert task.paper_text == "The text.\n"
    assert replace(task, shown=Shown(paper="none")).paper_text == ""
