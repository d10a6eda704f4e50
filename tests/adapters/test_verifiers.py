"""The real `verifiers` plays challenges through its own endpoint, with a scripted model behind it."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf

from rcb_env import load_dataset

CHALLENGE = "DyT/forward"


def play(url: str, *, taskset: dict[str, Any] | None = None, **agent: Any) -> Any:
    """One episode; its one trace."""
    config = vf.resolve_env_config(
        {
            "taskset": {"id": "rcb-verifiers", "challenges": [CHALLENGE], **(taskset or {})},
            "agent": {"model": "scripted", **agent},
        }
    )
    env = vf.load_environment(config)
    client = vf.EvalClientConfig(base_url=url, api_key_var="RCB_NO_KEY")
    ctx = vf.ModelContext(model="scripted", client=client, sampling=vf.SamplingConfig())

    async def run() -> Any:
        async with env.serving():
            (task,) = list(env.taskset)
            return await env.run_episode(task, ctx)

    episode = asyncio.run(run())
    (trace,) = episode.traces
    return trace


def test_a_right_answer_earns_the_reward_and_leaves_a_whole_trace(model_server: Any) -> None:
    code = load_dataset().challenge(CHALLENGE).reference
    model_server.plays(
        model_server.calls(("write_region", {"code": code}), ("run_tests", {})),
        model_server.calls(("submit", {})),
    )
    trace = play(model_server.url)
    assert trace.ok, trace.errors
    assert trace.rewards["earned"].value == 1.0
    assert trace.metrics["cases_passed"] == 1.0
    assert trace.state.status == "passed"
    assert trace.num_turns == 2
    sent = model_server.requests[-1]["body"]
    assert [message["role"] for message in sent["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert "Tests: passed" in sent["messages"][-1]["content"]
    assert {tool["function"]["name"] for tool in sent["tools"]} >= {"write_region", "submit"}


def test_the_declared_reward_is_what_is_earned(model_server: Any) -> None:
    model_server.plays(model_server.calls(("submit", {})))
    trace = play(model_server.url, taskset={"reward": "sparse:step_cost=0.25"})
    assert trace.rewards["earned"].value == -0.25
    assert trace.state.status == "no_change"


def test_a_limit_of_verifiers_has_the_episode_graded_as_it_stands(model_server: Any) -> None:
    code = load_dataset().challenge(CHALLENGE).reference
    model_server.plays(
        model_server.calls(("write_region", {"code": code})),
        model_server.calls(("list_files", {})),
    )
    trace = play(model_server.url, max_turns=2)
    assert not trace.errors
    assert trace.state.status == "passed"
    assert trace.rewards["earned"].value == 1.0


def test_a_context_that_is_full_ends_an_episode_as_a_budget_does(model_server: Any) -> None:
    """It ended as ``provider_error`` without a reward, though the region held a right answer."""
    code = load_dataset().challenge(CHALLENGE).reference
    full = "This model's maximum context length is 4096 tokens, your messages have 5000."
    model_server.plays(
        model_server.calls(("write_region", {"code": code})),
        model_server.error(400, full, code="context_length_exceeded"),
    )
    trace = play(model_server.url)
    assert not trace.errors
    assert trace.is_truncated
    assert trace.state.status == "passed"
    assert trace.rewards["earned"].value == 1.0


def test_an_episode_that_the_machinery_fails_has_an_error_and_no_reward(
    model_server: Any,
) -> None:
    model_server.plays(model_server.status(400, {"error": {"message": "no"}}))
    trace = play(model_server.url)
    assert trace.errors
    assert not trace.rewards


def test_tasks_are_the_challenges_of_a_data_set() -> None:
    config = vf.resolve_env_config({"taskset": {"id": "rcb-verifiers", "papers": ["minp"]}})
    tasks = list(vf.load_environment(config).taskset)
    assert [task.data.id for task in tasks] == [
        challenge.id for challenge in load_dataset().select(papers=["minp"])
    ]
    assert "min-p truncation" in tasks[1].data.prompt


def test_an_unknown_paper_is_told_in_one_line() -> None:
    config = vf.resolve_env_config({"taskset": {"id": "rcb-verifiers", "papers": ["mimp"]}})
    with pytest.raises(Exception, match="minp"):
        list(vf.load_environment(config).taskset)


HUB = Path(__file__).parents[2] / "examples" / "environments" / "rcb_challenges"


def test_the_package_of_the_hub_installs_and_plays(model_server: Any, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", tmp_path, str(HUB)], check=True, timeout=600)
    model_server.plays(model_server.calls(("submit", {})))
    script = (
        "import rcb_challenges\n"
        "env = rcb_challenges.load_environment(papers=['DyT'], reward='sparse:step_cost=0.25')\n"
        "print(len(list(env.taskset)), type(env).__name__)\n"
    )
    paths = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout.split() == [
        str(len(load_dataset().select(papers=["DyT"]))),
        "ChallengeEnv",
    ], done.stderr
    words = ["rcb-challenges", "--env.taskset.challenges", json.dumps([CHALLENGE]), "--no-push"]
    words += ["--model", "scripted", "--client.base-url", model_server.url]
    words += ["--client.api-key-var", "RCB_NO_KEY", "--output-dir", str(tmp_path / "out")]
    command = "from verifiers.v1.cli.eval.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, *words],
        env={**os.environ, **paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(model_server.requests) == 1


def test_the_table_of_the_hubs_readme_is_that_of_the_arguments() -> None:
    from rcb_env.adapters.verifiers import ChallengesConfig

    rows = re.findall(r"^\| `(\w+)` \| .+? \| `(.+?)` \|", (HUB / "README.md").read_text(), re.M)
    own = {
        name: field.default
        for name, field in ChallengesConfig.model_fields.items()
        if name not in vf.TasksetConfig.model_fields
    }
    assert {name: ast.literal_eval(default) for name, default in rows} == own
