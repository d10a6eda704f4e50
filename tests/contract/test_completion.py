"""Tab completion, asked of real shells: what a person gets who presses the key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminals import terminal

# How a shell is started without anybody's settings, and what is put into one's own.
_SHELLS = {
    "bash": (("--norc", "--noprofile"), 'eval "$(rcb completion bash)"'),
    "zsh": (("-f",), 'autoload -Uz compinit; compinit -u -D; eval "$(rcb completion zsh)"'),
    "fish": (("--no-config",), "rcb completion fish | source"),
}


def _environment(home: Path) -> dict[str, str]:
    """Where `rcb` is the one under test."""
    (home / "bin").mkdir(exist_ok=True)
    rcb = home / "bin" / "rcb"
    rcb.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rcb_env.cli "$@"\n')
    rcb.chmod(0o755)
    return {"HOME": str(home), "PATH": f"{rcb.parent}:{os.environ['PATH']}", "PS1": "$ "}


@pytest.mark.parametrize("shell", _SHELLS)
def test_the_tab_key_completes_commands_options_agents_and_papers(
    shell: str, tmp_path: Path
) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    options, source = _SHELLS[shell]
    with terminal([path, *options], folder=tmp_path, environment=_environment(tmp_path)) as shown:
        shown.send(f"{source} && echo sou''rced\r")
        shown.until(lambda screen: "\nsourced" in screen)
        for keys, wanted in (
            ("rcb repo\t", "rcb report"),
            ("\x15rcb run --agent refer\t", "--agent reference"),
            ("--papers DyT,min\t", "--papers DyT,minp"),
            ("--scope lib\t", "--scope library"),
        ):
            shown.send(keys)
            shown.until(lambda screen, wanted=wanted: wanted in screen)  # type: ignore[misc]


def _asked(home: Path, *words: str, shell: str = "bash") -> list[str]:
    """What a shell is told of a command line whose last word is begun."""
    asked = {
        "COMP_WORDS": " ".join(words) if shell != "fish" else " ".join(words[:-1]),
        "COMP_CWORD": str(len(words) - 1) if shell != "fish" else words[-1],
        "_RCB_COMPLETE": f"{shell}_complete",
    }
    done = subprocess.run(
        [home / "bin" / "rcb"],
        env={**os.environ, **_environment(home), **asked},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_names_are_those_of_the_data_set_and_scope_on_the_command_line(tmp_path: Path) -> None:
    _environment(tmp_path)
    assert "plain,minp@open" in _asked(tmp_path, "rcb", "show", "--scope", "open", "mi")
    of_one = _asked(tmp_path, "rcb", "run", "--papers", "DyT", "--challenges", "DyT/forward,")
    assert of_one
    assert all(line.startswith("plain,DyT/forward,DyT/") for line in of_one)
    assert "plain,DyT/forward,DyT/forward" not in of_one, "it is there already"
    assert _asked(tmp_path, "rcb", "report", "ru") == ["dir,ru"]


def test_what_cannot_be_found_out_completes_to_nothing(tmp_path: Path) -> None:
    _environment(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "papers.yaml").write_text("papers: [")
    assert _asked(tmp_path, "rcb", "check", "--dataset", "broken", "x") == [""]
    assert _asked(tmp_path, "rcb", "trajectory", "nowhere", "x") == [""]
