"""Every kind of agent and of environment at the scopes file, paper and library: one paper, in real boxes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.scopes import scope_of
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.settings import Rules
from rcb_env.env.vector import ChallengeVectorEnv
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import ModelSettings, Task
from rcb_env.play.episode import play_episode
from rcb_env.play.registry import make_agent
from rcb_env.runs.store import RunStore
from tests.two_files import FILES

Server = Any  # its class lives in conftest.py, which cannot be imported from here
IDS = {"file": "small/src/scaling.py@file", "paper": "small@paper", "library": "small@library"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    """Two papers with the same code."""
    root = tmp_path_factory.mktemp("papers")
    for name in ("small", "twin"):
        write_paper(root / name, FILES)
    (root / "papers.yaml").write_text("name: tiny\npapers: [small, twin]\n")
    return root


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2) as made:
        yield made


@pytest.fixture(scope="module", params=IDS)
def dataset(request: pytest.FixtureRequest, folder: Path) -> Dataset:
    return load_dataset(f"{folder}@{request.param}")


@pytest.fixture
def challenge(dataset: Dataset) -> Challenge:
    return dataset.challenge(IDS[scope_of(dataset.name)])


def wrong(challenge: Challenge) -> str:
    assert "return x - 1" in challenge.reference
    return challenge.reference.replace("return x - 1", "return x + 1")


def reply(challenge: Challenge, answer: str) -> str:
    """An answer as a model writes it: a block for each part."""
    assert challenge.holes is not None
    codes = challenge.holes.split(answer)
    blocks = (
        f"```python\n{part.header}\n{codes[part.name]}```\n"
        for part in challenge.holes
        if part.name in codes
    )
    return "\n".join(["These are the parts.\n", *blocks])


def play(
    agent: str, challenge: Challenge, dataset: Dataset, grader: Grader, server: Server = None
) -> tuple[str, list[str]]:
    """The status of an episode, and the tools that were called."""
    tools: list[str] = []

    class Steps:
        def record(self, kind: str, payload: Any) -> None:
            if kind == "step":
                assert not payload["error"], payload
                tools.append(payload["action"]["tool"])

    rules = Rules(agent_sandbox="none")
    name = f"{agent}-{challenge.id}"  # nothing learnt from another test
    model = ModelSettings(name=name, base_url=server.url) if server else None
    env = ResearchCodeEnv(challenge.id, dataset=dataset, grader=grader, rules=rules)
    task = Task(challenge, seed=0, model=model, rules=rules)
    made = make_agent(agent, model=model.name if model else None)
    return play_episode(env, made, task, Steps()).status, tools


def test_agents_that_answer_in_replies_play_it(
    challenge: Challenge, dataset: Dataset, grader: Grader, model_server: Server
) -> None:
    right, faulty = reply(challenge, challenge.reference), reply(challenge, wrong(challenge))
    once, twice = ["write_region", "submit"], ["write_region", "run_tests", "write_region"]
    for agent, replies, status, used in (
        ("single-shot", [right], "passed", once),
        ("single-shot", [faulty], "failed", once),
        ("repair:rounds=1", [faulty, right], "passed", [*twice, "submit"]),
        ("best-of-n:n=2", [faulty, right], "passed", None),
    ):
        model_server.plays(*map(model_server.answer, replies))
        told = play(agent, challenge, dataset, grader, model_server)
        assert told[0] == status, (agent, told)
        assert used is None or told[1] == used, (agent, told)


def test_agents_that_call_tools_play_it(
    challenge: Challenge, dataset: Dataset, grader: Grader, model_server: Server
) -> None:
    edit = {"path": "src/scaling.py", "old": "return x + 1", "new": "return x - 1"}
    write = {"code": wrong(challenge)}
    tested: tuple[str, object] = ("run_tests", {})
    model_server.plays(
        model_server.calls(("read_file", {"path": "src/scaling.py"}), ("write_region", write)),
        model_server.calls(tested, ("replace", edit), tested),
        model_server.calls(("submit", {})),
    )
    status, tools = play("tools", challenge, dataset, grader, model_server)
    assert status == "passed"
    assert tools == [
        *("read_file", "write_region", "run_tests", "replace", "run_tests", "submit"),
    ]
    model_server.plays(
        model_server.answer("1. Multiply."),
        model_server.calls(("write_region", {"code": challenge.reference}), ("submit", {})),
    )
    assert play("plan", challenge, dataset, grader, model_server)[0] == "passed"


def test_agents_that_are_no_models_play_it(
    challenge: Challenge, dataset: Dataset, grader: Grader, tmp_path: Path
) -> None:
    files = {path: challenge.tree()[path].decode() for path in challenge.files}
    program = tmp_path / "write.py"
    program.write_text(
        "import pathlib\n"
        f"for path, text in {files!r}.items():\n    pathlib.Path(path).write_text(text)\n"
    )
    for agent, status in (
        ("reference", "passed"),
        ("noop", "no_change"),
        ("simulated:skill=1", "passed"),
        ("simulated:skill=0", "failed"),
        (f"command:{sys.executable} {program}", "passed"),
    ):
        told = play(agent, challenge, dataset, grader)
        assert told[0] == status, (agent, told)


def test_a_vector_plays_it(challenge: Challenge, dataset: Dataset, grader: Grader) -> None:
    envs = ChallengeVectorEnv(3, challenge=challenge.id, dataset=dataset, grader=grader)
    envs.reset(seed=0)
    codes = (challenge.reference, wrong(challenge), "")
    envs.step([{"tool": "write_region", "arguments": {"code": code}} for code in codes])
    _, _, _, _, infos = envs.step([{"tool": "run_tests", "arguments": {}}] * 3)
    assert list(infos["tests"]["status"]) == ["passed", "failed", "no_change"]
    _, rewards, *_ = envs.step([{"tool": "submit", "arguments": {}}] * 3)
    assert list(rewards) == [1.0, 0.0, 0.0]
    envs.close()


def test_a_client_plays_it_over_mcp(challenge: Challenge, folder: Path, tmp_path: Path) -> None:
    words = ["-m", "rcb_env.cli", "serve", challenge.id, "--mcp", "--dataset", str(folder)]
    server = StdioServerParameters(
        command=sys.executable, args=[*words, "--out", "run"], env=dict(os.environ), cwd=tmp_path
    )

    async def main() -> None:
        with (tmp_path / "stderr").open("a") as errors:
            async with Client(stdio_client(server, errlog=errors)) as client:
                assert "src/scaling.py" in (client.instructions or "")
                await client.call_tool("write_region", {"code": wrong(challenge)})
                told = await client.call_tool("run_tests", {})
                assert "Tests: failed" in str(told.content)
                await client.call_tool("write_region", {"code": challenge.reference})
                await client.call_tool("submit", {})

    asyncio.run(asyncio.wait_for(main(), 120))
    (line,) = RunStore.open(tmp_path / "run").latest()
    assert (line["episode"]["challenge"], line["episode"]["status"]) == (challenge.id, "passed")


def test_a_run_of_many_episodes_plays_libraries(
    folder: Path, tmp_path: Path, model_server: Server
) -> None:
    library = load_dataset(f"{folder}@library").challenge("small@library")
    model_server.plays(model_server.answer(reply(library, library.reference)))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rcb_env.cli", "run", "--dataset", str(folder)),
            *("--scope", "library", "--agent", "single-shot", "--samples", "3", "--workers", "2"),
            *("--model", "m", "--base-url", model_server.url, "--out", "ran"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [*RunStore.open(tmp_path / "ran").latest()]
    assert sorted(line["episode"]["challenge"] for line in lines) == [
        *["small@library"] * 3,
        *["twin@library"] * 3,
    ]
    assert {line["episode"]["status"] for line in lines} == {"passed"}


def test_in_containers_a_reference_passes_and_nothing_is_no_change(docker_only: str) -> None:
    with Grader(docker_only) as grader:
        for scope in IDS:
            of_scope = load_dataset(f"bundled@{scope}")
            for name in ("DyT", "minp"):
                one = of_scope.paper(name).challenges[0]
                assert grader.grade(one, one.reference, final=True).passed, one.id
                assert grader.grade(one, "", final=True).status == "no_change", one.id
