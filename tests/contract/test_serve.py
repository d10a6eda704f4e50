"""`rcb serve --mcp` and the real client of the ``mcp`` package, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
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

CHALLENGE = "DyT/forward"
SERVE = ["-m", "rcb_env.cli", "serve", CHALLENGE, "--mcp", "--sandbox", "bubblewrap"]
Play = Callable[[Client], Awaitable[None]]


def _stdio(play: Play, folder: Path, *options: str) -> None:
    """Start the server as a client does, and play."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[*SERVE, "--out", "run", *options],
        env=dict(os.environ),
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
    assert CHALLENGE.split("/")[1] in (client.instructions or "")
    prompt = await client.get_prompt("challenge")
    assert prompt.messages[0].content.text == client.instructions  # type: ignore[union-attr]

    text, error = await _call(client, "read_file", path="src/dynamic_tanh.py")
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
        assert [line.split()[0] for line in files.splitlines()[:-1]] == ["src/dynamic_tanh.py"]
        text, _ = await _call(client, "read_file", path="src/dynamic_tanh.py")
        assert "# TODO: Implement block\n" in text
        paper, _ = await _call(client, "read_paper")
        assert "[...]" in paper

    options = ("--no-hint", "--no-context", "--paper", "sections")
    _stdio(look, tmp_path, "--samples", "2", *options)
    _stdio(look, tmp_path)  # as it was
    config = RunStore.open(tmp_path / "run").record["config"]
    kept = [config[name] for name in ("with_hint", "with_context", "paper")]
    assert kept == [False, False, "sections"]
    assert len(_episodes(tmp_path / "run")) == 2


def test_no_box_is_started_for_a_client_that_never_comes(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || echo started >>{tmp_path}/boxes\n'
    )
    (tmp_path / "bwrap").chmod(0o755)
    done = subprocess.run(
        [sys.executable, *SERVE, "--out", "run"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (episode,) = _episodes(tmp_path / "run")
    assert (episode["status"], episode["end_reason"]) == ("no_change", "stopped")
    assert not (tmp_path / "boxes").exists()


def test_a_client_over_http_solves_a_challenge_and_the_server_ends(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, *SERVE, "--http", "0", "--out", "run"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        url = ""
        for line in server.stderr:
            if line.startswith("serving "):
                url = line.split()[1]
                break
        assert url.startswith("http://127.0.0.1:")

        async def main() -> None:
            async with Client(url) as client:
                await _solve(client)

        asyncio.run(asyncio.wait_for(main(), 120))
        assert server.wait(timeout=30) == 0
    finally:
        server.kill()
        server.wait()
        server.stderr.close()
    (episode,) = _episodes(tmp_path / "run")
    assert episode["status"] == "passed"


def test_time_runs_out_while_nobody_calls(tmp_path: Path) -> None:
    async def sleep(client: Client) -> None:
        await _call(client, "list_files")
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / "episodes.jsonl").exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        text, error = await _call(client, "list_files")
        assert error
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
