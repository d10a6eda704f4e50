"""The examples do what their first lines say: with their defaults where these take seconds, else in small."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rcb_env.dataset.loading import load_dataset

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"


def run(name: str, *words: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def rates(told: str) -> tuple[float, float]:
    found = re.search(r"pass rate: ([\d.]+) in the first third, ([\d.]+) in the last", told)
    assert found, told
    return float(found[1]), float(found[2])


def test_reinforce_learns_which_completions_pass(tmp_path: Path) -> None:
    first, last = rates(run("reinforce.py", "--updates", "40", "--envs", "4", folder=tmp_path))
    assert last > first + 0.1
    assert last > 0.9
    assert "<svg" in (tmp_path / "runs" / "reinforce.svg").read_text()


def test_grpo_raises_the_pass_rate_of_a_model_that_calls_tools(tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    first, last = rates(run("trl_grpo.py", "--steps", "25", "--out", str(picture)))
    assert last > first
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_libraries_of_numbers_learn_which_completions_pass() -> None:
    for words in (("sb3_ppo.py", "--steps", "256"), ("torchrl_reinforce.py", "--updates", "16")):
        first, last = rates(run(*words))
        assert last > first
        assert last > 0.7


def test_best_first_search_repairs_faulty_code() -> None:
    assert run("best_first.py").splitlines()[-1].startswith("solved")


def test_a_scripted_model_solves_every_challenge_of_a_paper_through_verifiers() -> None:
    told = run("verifiers_eval.py")
    challenges = load_dataset().select(papers=["DyT"])
    assert told.count(": passed, 2 turns") == len(challenges) > 5
    assert f"mean reward 1.00 of {len(challenges)} episodes" in told


def test_openenv_plays_a_challenge() -> None:
    assert "reward 1.0" in run("openenv_play.py")
