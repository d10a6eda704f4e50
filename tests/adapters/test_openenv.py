"""A real OpenEnv server on loopback, and OpenEnv's own client."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rcb_env import ResearchCodeEnv, UsageError, load_dataset
from rcb_env.adapters.openenv import ChallengeAction, ChallengeClient, application

CHALLENGE = "DyT/forward"
CODE = load_dataset().challenge(CHALLENGE).reference


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "rcb_env.adapters.openenv", "--port", "0", "--papers", "DyT"]
    with subprocess.Popen(
        [*command, "--reward", "cases:step_cost=0.125"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found
            yield found[0]
        finally:
            server.terminate()


def actions() -> list[tuple[str, dict[str, Any]]]:
    return [
        ("read_file", {"path": "src/dynamic_tanh.py", "end": 5}),
        ("write_region", {"code": CODE}),
        ("run_tests", {}),
        ("no_such_tool", {}),
        ("submit", {}),
    ]


def test_a_client_gets_what_the_environment_itself_gives(url: str) -> None:
    env = ResearchCodeEnv(papers="DyT", reward="cases:step_cost=0.125")
    with ChallengeClient(base_url=url).sync() as client:
        expected, info = env.reset(options={"challenge": CHALLENGE})
        result = client.reset(challenge=CHALLENGE)
        assert result.observation.text == expected["text"]
        for tool, arguments in actions():
            expected, reward, terminated, truncated, info = env.step(
                {"tool": tool, "arguments": arguments}
            )
            result = client.step(ChallengeAction(tool=tool, arguments=arguments))
            told = result.observation
            assert told.text == expected["text"]
            assert told.steps_left == expected["steps_left"]
            assert told.test_runs_left == expected["test_runs_left"]
            assert result.reward == reward
            assert result.done == (terminated or truncated)
            assert told.truncated == truncated
            assert told.info == info
        assert result.done
        state = client.state()
    assert state.challenge == CHALLENGE
    assert state.code == CODE
    assert state.step_count == 5
    assert state.state_hash == info["state_hash"]


def test_sessions_are_apart_and_play_at_once(url: str) -> None:
    async def play(code: str) -> float:
        async with ChallengeClient(base_url=url) as client:
            await client.reset(challenge=CHALLENGE)
            await client.step(ChallengeAction(tool="write_region", arguments={"code": code}))
            result = await client.step(ChallengeAction(tool="submit"))
            return float(result.reward or 0.0)

    async def all_of_them() -> list[float]:
        return list(await asyncio.gather(*map(play, (CODE, "    return x\n", CODE))))

    right, wrong, again = asyncio.run(all_of_them())
    assert right == again == 0.875
    assert wrong < right


def test_the_seed_alone_says_which_challenge(url: str) -> None:
    with ChallengeClient(base_url=url).sync() as client:
        first = client.reset(seed=7).observation.info["challenge"]
        assert client.reset(seed=7).observation.info["challenge"] == first
    assert first.startswith("DyT/")


def test_wrong_settings_are_told_before_anybody_connects() -> None:
    with pytest.raises(UsageError, match="DyT"):
        application(papers=["DyTT"])
