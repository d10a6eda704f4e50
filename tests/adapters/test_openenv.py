"""A real OpenEnv server on loopback, and OpenEnv's own client."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from openenv.cli._validation import validate_running_environment

from rcb_env import ResearchCodeEnv, UsageError, load_dataset
from rcb_env.adapters.openenv import ChallengeAction, ChallengeClient, application, main
from rcb_env.env.settings import Rules, Shown, settings_of

CHALLENGE = "DyT/forward"
CODE = load_dataset().challenge(CHALLENGE).reference


@contextlib.contextmanager
def served(*words: str) -> Iterator[str]:
    command = [sys.executable, "-m", "rcb_env.adapters.openenv", "--port", "0", "--papers", "DyT"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found
            yield found[0]
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served("--reward", "cases:step_cost=0.125", "--sessions", "3") as found:
        yield found


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


def test_a_client_beyond_the_last_place_is_told_so_by_name(url: str) -> None:
    """It was disconnected without a word, as soon as it sent something after the server had closed."""

    async def crowd() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                client = await stack.enter_async_context(ChallengeClient(base_url=url))
                await client.reset(challenge=CHALLENGE)
            late = await stack.enter_async_context(ChallengeClient(base_url=url))
            assert late._ws is not None
            await late._ws.wait_closed()
            with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
                await late.reset(challenge=CHALLENGE)

    asyncio.run(crowd())


def test_a_client_beyond_the_last_place_waits_where_that_is_set() -> None:
    async def two(url: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with ChallengeClient(base_url=url) as first:
                await first.reset(challenge=CHALLENGE)
                late = ChallengeClient(base_url=url, message_timeout_s=300)
                await stack.enter_async_context(late)
                coming = asyncio.ensure_future(late.reset(challenge=CHALLENGE))
                await first.step(ChallengeAction(tool="list_files"))
                assert late._ws is not None
                # A ping behind a message that nobody took was not answered, and the client gave up after 40 s.
                await asyncio.wait_for(await late._ws.ping(), 300)
                assert not coming.done()
            assert "forward" in (await coming).observation.text

    with served("--sessions", "1", "--wait", "300") as url:
        asyncio.run(two(url))


def test_http_requests_without_an_episode_are_refused_in_words(url: str) -> None:
    """A step ended as an error 500."""
    action = {"action": {"tool": "submit", "arguments": {}}}
    told = requests.post(f"{url}/step", json=action, timeout=60)
    assert told.status_code == 409
    assert "/ws" in told.json()["detail"]
    told = requests.post(f"{url}/reset", json={"challenge": "DyT/forwards"}, timeout=60)
    assert told.status_code == 422
    assert "DyT/forward" in told.json()["detail"]


def test_the_server_keeps_to_the_protocol(url: str) -> None:
    report = validate_running_environment(url, timeout_s=60)
    assert report["passed"], report


def test_every_setting_of_the_environment_is_an_option_of_the_server() -> None:
    of_python_only = {"challenge", "grader", "render_mode", "shown", "rules", "settings", "self"}
    wanted = set(inspect.signature(ResearchCodeEnv.__init__).parameters) - of_python_only
    wanted |= {
        each.name for noun in (Shown, Rules) for each in settings_of(noun) if each.is_keyword
    }
    assert wanted <= {option.name for option in main.params}


FOLDER = Path(__file__).parents[2] / "examples" / "environments" / "rcb_openenv"


def test_the_folder_of_the_environment_is_what_openenv_validates(tmp_path: Path) -> None:
    """The lock is written by ``uv lock`` from the index that its user has; the validator looks only whether there is one."""
    folder = shutil.copytree(FOLDER, tmp_path / FOLDER.name)
    (folder / "uv.lock").touch()
    command = "from openenv.cli.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "validate", ".", "--verbose"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[NO]" not in done.stdout
    served = subprocess.run(
        [sys.executable, "-m", "server.app", "--help"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "--sessions" in served.stdout, served.stderr
