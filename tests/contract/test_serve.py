"""`rcb serve --mcp` and the real client of the ``mcp`` package, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from rcb_env.dataset.loading import load_dataset
from rcb_env.env.actions import TOOLS
from rcb_env.report.summary import summarize
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import RunStore

CHALLENGE = "llm-sci-use/independent-occurrences"  # computed with numpy: its boxes start at once
FILE = "src/occurrence.py"
SERVE = ["-m", "rcb_env.cli", "serve", CHALLENGE, "--mcp", "--sandbox", "bubblewrap"]
Play = Callable[[Client], Awaitable[None]]


def _stdio(play: Play, folder: Path, *options: str, env: Mapping[str, str] | None = None) -> None:
    """Start the server as a client does, and play."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[*SERVE, "--out", "run", *options],
        env=dict(env or os.environ),
        cwd=folder,
    )

    async def main() -> None:
        with (folder / "stderr").open("a") as errors:
            async with Client(stdio_client(server, errlog=errors)) as client:
                await play(client)

    asyncio.run(asyncio.wait_for(main(), 120))


async def _call(client: Client, tool: str, **arguments: Any) -> tuple[str, bool]:
    result = await client.call_tool(tool, arguments)
    return "".join(part.text for part in result.content), bool(result.is_error)  # type: ignore[union-attr]


def _episodes(folder: Path) -> list[dict[str, Any]]:
    return [line["episode"] for line in RunStore.open(folder).latest()]


async def _solve(client: Client) -> None:
    offered = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(offered) == [tool.name for tool in TOOLS]
    assert offered["write_region"].input_schema["required"] == ["code"]
    assert CHALLENGE.split("/")[1].replace("-", " ") in (client.instructions or "")
    prompt = await client.get_prompt("challenge")
    assert prompt.messages[0].content.text == client.instructions  # type: ignore[union-attr]

    text, error = await _call(client, "read_file", path=FILE)
    assert not error
    assert "TODO: Implement block" in text
    text, error = await _call(client, "read_file", path="../../etc/passwd")
    assert error
    assert "nothing outside the workspace" in text
    _, error = await _call(client, "no_such_tool")
    assert error
    reference = load_dataset().challenge(CHALLENGE).reference
    _, error = await _call(client, "write_region", code=reference)
    assert not error
    text, error = await _call(client, "run_tests")
    assert "Tests: passed" in text
    assert "9 test runs are left" in text
    text, error = await _call(client, "submit")
    assert not error
    assert "Submitted: passed." in text
    text, error = await _call(client, "run_tests")
    assert error
    assert "The episode is over (submitted, passed)" in text


def test_a_client_over_stdio_solves_a_challenge(tmp_path: Path) -> None:
    _stdio(_solve, tmp_path, "--client", "tester", "--max-steps", "20")
    (episode,) = _episodes(tmp_path / "run")
    assert (episode["status"], episode["end_reason"]) == ("passed", "submitted")
    assert (episode["agent"], episode["steps"], episode["test_runs"]) == ("mcp:client=tester", 6, 1)
    assert episode["usage"]["cost_usd"] is None
    store = RunStore.open(tmp_path / "run")
    (line,) = store.latest()
    records = list(JsonLines(store.folder / line["trajectory"]).read())
    assert [record["kind"] for record in records] == ["start", *["step"] * 6, "end"]
    assert summarize(store).score.pass_rate.value == 100.0
    assert "100.0" in (tmp_path / "stderr").read_text()


def test_a_client_that_leaves_is_graded_on_what_is_there_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    async def leave(client: Client) -> None:
        await _call(client, "write_region", code="    return x\n")

    async def spend(client: Client) -> None:
        for _ in range(2):
            await _call(client, "list_files")
        text, _ = await _call(client, "list_files")
        assert "The episode is over: steps spent" in text

    _stdio(leave, tmp_path, "--samples", "2", "--max-steps", "3", "--client", "tester")
    _stdio(spend, tmp_path)  # everything else is as it was
    episodes = _episodes(tmp_path / "run")
    assert [(e["sample"], e["status"], e["end_reason"]) for e in episodes] == [
        (0, "failed", "stopped"),
        (1, "no_change", "steps_spent"),
    ]
    assert {e["agent"] for e in episodes} == {"mcp:client=tester"}
    done = subprocess.run(
        [sys.executable, *SERVE, "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    assert "has all 2 results" in done.stderr


def test_a_client_is_shown_what_the_run_says(tmp_path: Path) -> None:
    async def look(client: Client) -> None:
        assert 'missing code "forward"' not in (client.instructions or "")
        files, _ = await _call(client, "list_files")
        assert [line.split()[0] for line in files.splitlines()[:-1]] == [FILE]
        text, _ = await _call(client, "read_file", path=FILE)
        assert "# TODO: Implement block\n" in text
        paper, _ = await _call(client, "read_paper")
        assert "[...]" in paper

    options = ("--no-hint", "--no-context", "--no-interface", "--paper", "sections")
    _stdio(look, tmp_path, "--samples", "2", *options)
    _stdio(look, tmp_path)  # as it was
    config = RunStore.open(tmp_path / "run").record["config"]
    kept = [config[name] for name in ("with_hint", "with_context", "interface", "paper")]
    assert kept == [False, False, False, "sections"]
    assert len(_episodes(tmp_path / "run")) == 2


def _bwrap(folder: Path, script: str) -> dict[str, str]:
    """An environment in which boxes are started by this script, which has the real program in $BWRAP."""
    program = folder / "bin" / "bwrap"
    program.parent.mkdir()
    real = shutil.which("bwrap")
    program.write_text(
        f'#!/bin/sh\nBWRAP={real}\ncase " $* " in *" --chdir /work "*) ;; *) exec $BWRAP "$@" ;; esac\n{script}\n'
    )
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


def test_a_client_that_never_comes_has_played_nothing_and_no_box_is_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *SERVE, "--out", "run"],
        cwd=tmp_path,
        env=_bwrap(tmp_path, f"echo started >>{tmp_path}/boxes"),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "no tool was called" in done.stderr
    assert _episodes(tmp_path / "run") == []
    assert not (tmp_path / "boxes").exists()


def test_a_client_that_only_looked_at_the_tools_gave_no_wrong_answer(tmp_path: Path) -> None:
    async def look(client: Client) -> None:
        await client.list_tools()
        await client.get_prompt("challenge")

    _stdio(look, tmp_path)
    assert _episodes(tmp_path / "run") == []
    _stdio(_solve, tmp_path)  # the challenge is still open
    (episode,) = _episodes(tmp_path / "run")
    assert episode["status"] == "passed"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_ends_the_server_is_graded_on_what_is_there(
    ending: signal.Signals, tmp_path: Path
) -> None:
    """Clients that leave send SIGTERM to a server they started, then SIGKILL; what was written was lost."""

    async def leave(client: Client) -> None:
        await _call(client, "write_region", code=load_dataset().challenge(CHALLENGE).reference)
        await _call(client, "run_tests")
        (server,) = _children_that_serve()
        os.killpg(server, ending)

    with contextlib.suppress(
        BaseExceptionGroup
    ):  # the client complains that the connection is lost
        _stdio(leave, tmp_path)
    _until((tmp_path / "run" / "episodes.jsonl").exists)
    (episode,) = _episodes(tmp_path / "run")
    assert (episode["status"], episode["end_reason"]) == ("passed", "stopped")


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)


def _children_that_serve() -> list[int]:
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = [pid for file in found for pid in file.read_text().split()]
    return [int(pid) for pid in children if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_boxes_start_in_the_background_and_a_call_that_waits_says_so(tmp_path: Path) -> None:
    """Boxes took minutes under load, and clients gave up before they were greeted."""
    env = _bwrap(tmp_path, f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nexec $BWRAP "$@"')
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert progress > 0
        assert total is None
        told.append(message or "")
        (tmp_path / "go").touch()

    async def play(client: Client) -> None:
        await client.list_tools()
        await _call(client, "write_region", code=load_dataset().challenge(CHALLENGE).reference)
        assert not (tmp_path / "go").exists()  # no box was waited for
        result = await client.call_tool("run_tests", {}, progress_callback=hear)
        assert not result.is_error
        await _call(client, "submit")

    _stdio(play, tmp_path, env=env)
    assert "run_tests is at work" in told
    (episode,) = _episodes(tmp_path / "run")
    assert episode["status"] == "passed"


def test_a_test_run_whose_call_was_cancelled_uses_up_nothing(tmp_path: Path) -> None:
    env = _bwrap(tmp_path, f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nexec $BWRAP "$@"')

    async def play(client: Client) -> None:
        await _call(client, "write_region", code="    return x\n")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client.call_tool("run_tests", {}), 2)
        (tmp_path / "go").touch()
        text, _ = await _call(client, "list_files")
        assert "[48 steps and 10 test runs are left.]" in text

    _stdio(play, tmp_path, env=env)
    (episode,) = _episodes(tmp_path / "run")
    assert episode["test_runs"] == 0


def test_a_client_over_http_that_falls_silent_has_left(tmp_path: Path) -> None:
    """A client that crashed left the server waiting for ever."""
    with _http(tmp_path, "--idle-seconds", "10") as (server, url):

        async def main() -> None:
            async with Client(url) as client:
                await _call(client, "write_region", code="    return x\n")

        asyncio.run(asyncio.wait_for(main(), 120))
        assert server.wait(timeout=60) == 0
    (episode,) = _episodes(tmp_path / "run")
    assert (episode["status"], episode["end_reason"]) == ("failed", "stopped")


@contextlib.contextmanager
def _http(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server over HTTP, and its address."""
    server = subprocess.Popen(
        [sys.executable, *SERVE, "--http", "0", "--out", "run", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        url = next(line.split()[1] for line in server.stderr if line.startswith("serving "))
        yield server, url
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def test_a_client_over_http_solves_a_challenge_and_the_server_ends(tmp_path: Path) -> None:
    with _http(tmp_path) as (server, url):
        assert url.startswith("http://127.0.0.1:")

        async def main() -> None:
            async with Client(url) as client:
                await _solve(client)

        asyncio.run(asyncio.wait_for(main(), 120))
        assert server.wait(timeout=30) == 0
    (episode,) = _episodes(tmp_path / "run")
    assert episode["status"] == "passed"


def test_time_runs_out_while_nobody_calls(tmp_path: Path) -> None:
    async def sleep(client: Client) -> None:
        await _call(client, "list_files")
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / "episodes.jsonl").exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        error = False
        while not error and time.monotonic() < deadline:
            text, error = await _call(client, "list_files")
        assert "wall time spent" in text

    _stdio(sleep, tmp_path, "--budget-seconds", "2")
    (episode,) = _episodes(tmp_path / "run")
    assert (episode["status"], episode["end_reason"]) == ("no_change", "wall_time_spent")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([CHALLENGE], "--mcp"),
        (["DyT/forwrd", "--mcp"], "DyT/forward"),
        ([CHALLENGE, "--mcp", "--http", "here"], "--http"),
        ([CHALLENGE, "--mcp", "--client", "a,b"], "--client"),
        ([CHALLENGE, "--mcp", "--papers", "minp"], CHALLENGE),
    ],
)
def test_a_mistake_gives_one_line(arguments: list[str], word: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", "serve", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("rcb: ")
    assert word in line
    assert json.dumps(done.stdout) == '""'
    assert list(tmp_path.iterdir()) == []
