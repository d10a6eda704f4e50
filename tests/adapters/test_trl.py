"""The real `GRPOTrainer` trains a tiny model, made here, on challenges."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from transformers.utils import get_json_schema

from rcb_env import TOOLS, Grader, UsageError, Verdict, load_dataset, tool_schemas
from rcb_env.adapters.trl import Episodes, environment_factory, rows

CHALLENGE = "DyT/forward"
CODE = load_dataset().challenge(CHALLENGE).reference


def tools(env: Episodes) -> dict[str, Any]:
    """As `GRPOTrainer` finds them."""
    return {
        name: getattr(env, name)
        for name, _ in inspect.getmembers(type(env), predicate=inspect.isfunction)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    }


def test_the_tools_of_the_trainer_are_those_of_the_environment() -> None:
    found = tools(environment_factory()())
    assert set(found) == {tool.name for tool in TOOLS}
    for schema in tool_schemas():
        wanted = schema["function"]
        made = get_json_schema(found[wanted["name"]])["function"]
        assert made["description"] == wanted["description"]
        properties = wanted["parameters"]["properties"]
        assert list(made["parameters"]["properties"]) == list(properties)
        assert made["parameters"].get("required", []) == wanted["parameters"]["required"]
        for name, told in made["parameters"]["properties"].items():
            assert told["type"] == properties[name]["type"]
            assert told["description"] == properties[name]["description"]


def test_a_rollout_is_graded_once_and_earns_the_declared_reward() -> None:
    env = environment_factory(reward="sparse:step_cost=0.125")()
    assert "forward" in env.reset(challenge=CHALLENGE, prompt=[{"role": "user", "content": ""}])
    use = tools(env)
    assert "wrote" in use["write_region"](code=CODE)
    assert "Tests: passed" in use["run_tests"]()
    assert use["submit"]() == "Submitted."
    assert "the episode is over" in use["run_tests"]()
    assert env.get_reward() == env.get_reward() == 1.0 - 3 * 0.125


class Meeting(Grader):
    """Grades no final answer before another one is there to be graded."""

    both = threading.Barrier(2, timeout=300)

    def grade(self, *args: Any, final: bool = False, **more: Any) -> Verdict:
        if final:
            self.both.wait()
        return super().grade(*args, final=final, **more)


def test_submits_of_one_step_are_graded_side_by_side() -> None:
    """The trainer calls the tools of its rollouts one after the other, so each waited for the one before."""
    with Meeting() as grader:
        make = environment_factory(grader=grader)
        rollouts = [(make(), CODE), (make(), "    return x\n")]
        for env, code in rollouts:
            env.reset(challenge=CHALLENGE)
            tools(env)["write_region"](code=code)
            assert tools(env)["submit"]() == "Submitted."
            assert "over" in tools(env)["run_tests"]()
        assert [env.get_reward() for env, _ in rollouts] == [1.0, 0.0]


def test_a_rollout_that_ends_without_a_submit_is_graded_as_it_stands() -> None:
    env = environment_factory()()
    env.reset(challenge=CHALLENGE)
    tools(env)["write_region"](code=CODE)
    assert env.get_reward() == 1.0
    env.reset(challenge=CHALLENGE)
    assert env.get_reward() == 0.0


def test_rows_name_the_challenge_so_that_a_group_plays_one() -> None:
    (row,) = rows([CHALLENGE])
    env = environment_factory(papers=["DyT"])()
    assert env.reset(**row) == env.reset(**row)
    with pytest.raises(UsageError):
        environment_factory(papers=["DyTT"])
