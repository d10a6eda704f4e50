"""Many episodes that wait for a slow model: how close the run comes to the waiting alone.

A model of our own, in a process of its own, takes its time for every reply and plays a tool user:
it reads the file some times, writes the right code, runs the tests and submits. What is measured is
the whole run of `rcb_env.runs` as `rcb run` does it: agents, HTTP, records on disk, boxes and
grading. Beside the wall time, the processor time of the driver for each model call, everything
included that the driver does between two calls; boxes are processes of their own and not in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from rcb_env.dataset.loading import load_dataset
from rcb_env.play.agent import ModelSettings
from rcb_env.runs import RunConfig, open_run, run_experiment
from rcb_env.runs.store import RunStore

CHALLENGE = "DyT/forward"
CALLS = 10  # of each episode
_RATIO, _CPU = "wall time / waiting alone", "driver's CPU per model call, ms"
_TARGETS = {_RATIO: "<= 1.3", _CPU: "<= 10"}


def run(*, quick: bool) -> Result:
    """Play the episodes, all at once."""
    episodes, delay_s = (4, 0.2) if quick else (64, 2.0)
    with model(delay_s) as url, tempfile.TemporaryDirectory() as folder:
        config = RunConfig(
            agent="tools",
            model=ModelSettings("slow", base_url=url, max_tokens=1000, context_tokens=128_000),
            challenges=(CHALLENGE,),
            samples=episodes,
            workers=episodes,
        )
        # Boxes and imports are warm in any run but a very short one.
        _play(RunConfig(agent="reference", challenges=(CHALLENGE,)), Path(folder) / "warm")
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        passed, calls = _play(config, Path(folder) / "run")
        wall_s = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ideal_s = CALLS * delay_s
    return Result(
        name="waiting",
        about=f"{episodes} episodes at once, {CALLS} replies of {delay_s:g} s each",
        figures={
            "wall time, s": round(wall_s, 2),
            "waiting alone, s": ideal_s,
            _RATIO: round(wall_s / ideal_s, 3),
            _CPU: round(1000 * cpu_s / calls, 2),
            "model calls": calls,
            "episodes that passed": passed,
        },
        notes=(
            "The episodes keep step with each other, so all gradings come at the same instants.",
        ),
        targets=_TARGETS,
    )


def _play(config: RunConfig, folder: Path) -> tuple[int, int]:
    with open_run(config, folder) as store:
        run_experiment(config, store)
    episodes = [line["episode"] for line in RunStore.open(folder).latest()]
    passed = sum(episode["status"] == "passed" for episode in episodes)
    return passed, sum(episode["usage"]["calls"] for episode in episodes)


# --- the model --------------------------------------------------------------------------------


@contextlib.contextmanager
def model(delay_s: float) -> Iterator[str]:
    """The address of the model, which answers until the end of the block."""
    command = [sys.executable, "-m", "benchmarks.waiting", str(delay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _reply(body: Mapping[str, Any], code: str) -> dict[str, Any]:
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn < CALLS - 2:
        calls = [("read_file", {"path": "src/dynamic_tanh.py", "start": 1 + turn})]
    elif turn == CALLS - 2:
        calls = [("write_region", {"code": code}), ("run_tests", {})]
    else:
        calls = [("submit", {})]
    made = [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for number, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {
        "id": "slow",
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    }


async def _serve(delay_s: float) -> None:
    code = load_dataset().challenge(CHALLENGE).reference

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.partition("content-length:")[2].split("\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                await asyncio.sleep(delay_s)
                data = json.dumps(_reply(body, code)).encode()
                head_out = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(head_out.encode() + data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
