"""Best of n, the simulated model in all roles, and a human behind a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
RIGHT = "    return x * factor + 1\n"
WRONG = "    return x * factor\n"
WORSE = "    return 0\n"


def fenced(code: str) -> str:
    return f"```python\n{code}```"


# --- best of n --------------------------------------------------------------------------------


def test_the_draw_that_passes_is_submitted(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WRONG), fenced(WORSE), fenced(RIGHT), fenced(WRONG))
    episode, records = play("best-of-n", server=model_server)
    assert (episode.status, episode.usage.calls, episode.test_runs) == ("passed", 3, 3)
    assert records.tools == [*(["write_region", "run_tests"] * 3), "submit"]
    bodies = [request["body"] for request in model_server.requests]
    assert {body["temperature"] for body in bodies} == {0.8}
    assert all(
        body["messages"] == bodies[0]["messages"] for body in bodies
    )  # know nothing of each other


def test_without_tests_the_majority_decides(play: Play, model_server: Server) -> None:
    other = "    # the same, said otherwise\n    return  x*factor + 1\n"
    model_server.plays(fenced(WRONG), fenced(RIGHT), fenced(WORSE), fenced(other))
    episode, records = play("best-of-n:tests=no", server=model_server)
    assert (episode.status, episode.code, episode.test_runs) == ("passed", RIGHT, 0)
    assert records.of("choice") == [{"draws": 4, "codes": 4, "score": 0.0}]


def test_equal_draws_are_tested_once(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WRONG))
    episode, records = play("best-of-n:n=3", server=model_server)
    assert (episode.status, episode.usage.calls, episode.test_runs) == ("failed", 3, 1)
    assert records.tools == ["write_region", "run_tests", "submit"]


def test_when_tests_are_spent_what_is_known_decides(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WORSE), fenced(WRONG), fenced(RIGHT), fenced(RIGHT))
    episode, _ = play("best-of-n", server=model_server, max_test_runs=1)
    assert (episode.status, episode.test_runs) == ("passed", 1)  # the majority of what is untested


def test_draws_without_code_are_passed_over(play: Play, model_server: Server) -> None:
    model_server.plays("No idea.", fenced(RIGHT))
    assert play("best-of-n:n=2", server=model_server)[0].passed
    model_server.plays("No idea.")
    episode, _ = play("best-of-n:n=2", server=model_server)
    assert (episode.status, episode.end_reason, episode.usage.calls) == ("invalid", "no_code", 2)


# --- the simulated model ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "tries"),
    [("single-shot", 1), ("best-of-n:n=3", 3), ("repair:rounds=1", 2), ("tools", 4)],
)
def test_the_simulated_model_gains_what_it_must(
    play: Play, model_server: Server, agent: str, tries: int
) -> None:
    """With skill s and k tries, of which the feedback tells the right one, 1 - (1 - s)^k pass."""
    skill, episodes = 0.4, 60
    named = {"name": f"simulated:skill={skill}"}
    played = [
        play(agent, server=model_server, settings=named, seed=seed)[0] for seed in range(episodes)
    ]
    expected = 1 - (1 - skill) ** tries
    # 3.3 standard deviations: one run in a thousand falls outside, and the seeds are fixed.
    margin = 3.3 * (expected * (1 - expected) / episodes) ** 0.5
    rate = sum(episode.passed for episode in played) / episodes
    assert abs(rate - expected) < margin
    assert {episode.end_reason for episode in played} == {"submitted"}
    assert model_server.requests == []


def test_a_simulated_tool_user_uses_tools(play: Play, model_server: Server) -> None:
    named = {"name": "simulated:skill=1"}
    for agent in ("tools", "plan"):
        episode, records = play(agent, server=model_server, settings=named)
        assert episode.passed
        assert records.tools == [
            *("list_files", "read_file", "write_region", "run_tests", "submit")
        ]


# --- a human ----------------------------------------------------------------------------------

PLAYED = """\
help
ls
read src/model.py 1 3
search 'alpha|gamma'
nonsense
read
{"tool": "read_paper", "arguments": {"start": 1, "end": 2}}
write
    return NotImplemented
.
test
undo
submit
"""


def test_a_challenge_is_played_through_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rcb_env.cli", "run", "--agent", "human"),
            *("--challenges", "DyT/forward", "--workers", "1", "--quiet", "--json"),
            *("--sandbox", "bubblewrap", "--out", str(tmp_path / "run")),
        ],
        input=PLAYED,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for shown in (
        "DyT/forward: write the missing part",
        "TODO: Implement block",
        "the region to write is in it",  # of ls
        "the argument 'path' (string) is missing",
        "the paper, lines 1-2",
        "Tests: failed",
        "took back the last edit",
        "test runs left]",
    ):
        assert shown in done.stdout
    assert '"no_change": 1' in done.stdout.splitlines()[-1]


def test_the_end_of_the_input_ends_the_episode(
    play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed = tmp_path / "typed"
    typed.write_text(f"write\n{RIGHT}.\n")
    with typed.open() as keys:
        monkeypatch.setattr(sys, "stdin", keys)
        episode, _ = play("human")
    assert (episode.status, episode.end_reason) == ("passed", "stopped")
