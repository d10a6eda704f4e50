"""The examples for trainers say what is missing, at once and in one line; tests/adapters plays them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
NEEDED = {
    "trl_grpo.py": ("trl", "trl,examples"),
    "verifiers_eval.py": ("verifiers", "verifiers"),
    "openenv_play.py": ("openenv", "openenv"),
}


def run(name: str, *words: str, without: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """An example where a package cannot be imported."""
    block = f"import sys, runpy; sys.modules[{without!r}] = None; sys.argv = sys.argv[1:];"
    code = f"{block} sys.path.insert(0, {str(EXAMPLES)!r}); runpy.run_path(sys.argv[0], run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLES / name), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("name", NEEDED)
def test_help_needs_no_package_and_a_missing_one_is_one_line(name: str, tmp_path: Path) -> None:
    package, extra = NEEDED[name]
    assert run(name, "--help", without=package, folder=tmp_path).stdout.startswith("usage: ")
    done = run(name, without=package, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{name}: ")
    assert f"pip install 'rcb-env[{extra}]'" in line


def test_reinforce_learns_without_matplotlib_and_says_how_far_it_is(tmp_path: Path) -> None:
    options = ("--updates", "10", "--envs", "2", "--wrong", "1")
    done = run("reinforce.py", *options, without="matplotlib", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("the curve will not be drawn: matplotlib cannot be imported")
    assert "\nupdate 10 of 10: pass rate " in done.stdout
    assert last.startswith("pass rate: ")
    assert list(tmp_path.iterdir()) == []
