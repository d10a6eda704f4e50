"""Three agents from npm and PyPI play a challenge in the box, as examples/outside-agents/play.sh starts them.

Each is installed once, into the user's cache. Where that is impossible, or there is no npm, the
tests are skipped. The other four agents are played by the same script, by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "outside-agents"
AGENTS = ("mini-swe-agent", "gemini-cli", "qwen-code")
_NOT_INSTALLED = 69
_RCB = Path(sys.executable).parent / "rcb"


def play(agent: str, out: Path, *, key: str = "scripted") -> dict[str, Any]:
    """What the report says of its run."""
    done = subprocess.run(
        [EXAMPLES / "play.sh", agent],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        env={**os.environ, "RCB": str(_RCB), "OUT": str(out), "MODEL_KEY": key},
    )
    if done.returncode == _NOT_INSTALLED:
        pytest.skip(done.stderr.strip().rpartition("\n")[2])
    assert done.returncode == (key != "scripted"), done.stdout + done.stderr
    assert f"command:{agent}.sh" in done.stdout
    told = subprocess.run(
        [_RCB, "report", "--json", out / agent], capture_output=True, text=True, check=True
    )
    report: dict[str, Any] = json.loads(told.stdout)
    return report


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_from_outside_solves_a_challenge_and_its_tokens_are_counted(
    agent: str, tmp_path: Path
) -> None:
    report = play(agent, tmp_path)
    assert report["states"]["passed"] == 1
    tokens = report["totals"]["tokens"]
    assert (tokens["prompt_tokens"], tokens["completion_tokens"]) == (200, 40)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_key_that_is_refused_is_no_wrong_answer(agent: str, tmp_path: Path) -> None:
    """Qwen-code calls it a success and ends with code 0; mini-swe-agent and Gemini CLI have codes of their own."""
    report = play(agent, tmp_path, key="refused")
    assert report["states"]["infra_error"] == 1
    (episode,) = (tmp_path / agent / "trajectories").rglob("*.attempt2.jsonl")
    assert "ended with code 75 and says that it could not work" in episode.read_text()


def test_an_agent_that_cannot_be_installed_is_one_line_and_a_code_of_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "npm").write_text("#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    (tmp_path / "npm").chmod(0o755)
    done = subprocess.run(
        [EXAMPLES / "play.sh", "codex"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "RCB": str(_RCB),
            "OUT": str(tmp_path / "out"),
            "AGENTS_FOLDER": str(tmp_path / "agents"),
        },
    )
    assert done.returncode == _NOT_INSTALLED
    assert done.stderr.splitlines()[-1].startswith(
        "play.sh: @openai/codex cannot be installed with npm"
    )
    assert not (tmp_path / "agents" / "codex" / "complete").exists()
