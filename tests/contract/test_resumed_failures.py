"""A run in which a server said 200 and failed inside goes on where it failed: the command line, a real server.

What must never happen: that half an answer counts as the model's wrong one, in the report of the first session or
after the second; that the failure comes back out of the cache; that what was answered is paid for again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.papers import Dataset

Server = Any  # its class lives in conftest.py, which cannot be imported from here
RIGHT = "```python\n    return x * factor + 1\n```"
HALF = "```python\n    return x\n```"
FIELDS: dict[str, dict[str, Any]] = {
    "half an answer and an error": {
        "choices": [{"index": 0, "message": {"content": HALF}, "finish_reason": "error"}],
        "error": {"code": 502, "message": "upstream died"},
    },
    "an aborted answer": {
        "choices": [{"index": 0, "message": {"content": HALF}, "finish_reason": "abort"}]
    },
    "no choices": {"choices": None, "error": {"message": "no instance", "code": None}},
}


def failing(server: Server, kind: str) -> Callable[[Any], None]:
    body = {**server.completion(HALF), **FIELDS[kind]}
    return lambda exchange: exchange.send(200, body)


def rcb(*words: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit code, and the object that ends the output."""
    done = subprocess.run(
        [Path(sys.executable).with_name("rcb"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return done.returncode, told


def counts(told: dict[str, Any]) -> dict[str, int]:
    return {state: number for state, number in told["states"].items() if number}


@pytest.mark.parametrize(
    ("agent", "kind", "first"),
    [
        ("single-shot", "half an answer and an error", "answers"),
        ("single-shot", "no choices", "fails"),
        ("repair:rounds=2", "an aborted answer", "answers"),
    ],
)
def test_a_resumed_run_plays_again_what_a_server_failed_at(
    model_server: Server,
    small_papers: Dataset,
    tmp_path: Path,
    agent: str,
    kind: str,
    first: str,
) -> None:
    out, failure = tmp_path / "run", failing(model_server, kind)
    model_server.plays(*([RIGHT, failure] if first == "answers" else [failure]))
    code, told = rcb(
        *("run", "--agent", agent, "--samples", "3", "--model", "m", "--temperature", "0.7"),
        *("--base-url", model_server.url, "--model-retries", "0", "--workers", "1", "--json"),
        *("--dataset", small_papers.papers[0].root, "--out", out, "--cache", tmp_path / "cache"),
    )
    answered = first == "answers"
    assert counts(told) == ({"passed": 1} if answered else {}) | {"infra_error": 3 - answered}
    # A failed cell is no wrong answer: nothing failed, and all of it may still pass.
    assert told["pass_rate_bounds"] == pytest.approx([100 * answered / 3, 100])
    assert code == (0 if answered else 1)

    model_server.requests.clear()
    model_server.plays(RIGHT)
    code, told = rcb("run", "--resume", out, "--json")
    assert (code, counts(told), told["pass_rate"]) == (0, {"passed": 3}, 100.0)
    assert len(model_server.requests) == 3 - answered
    _, report = rcb("report", out, "--json")
    assert report["states"]["passed"] == 3
    assert report["states"]["infra_error"] == report["states"]["failed"] == 0
