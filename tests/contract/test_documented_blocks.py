"""Every block of code of the documentation runs as it is printed, alone, in a folder as its reader has it.

Shells and Pythons are real ones; models are asked at a server on loopback that answers with wrong code. The `rcb` of shells
is installed with two of the bundled papers, of each the regions of two files, so that "all challenges" are few. Finished runs lie
below runs/, except those that the block makes itself. A server that a block starts is left by Ctrl-C, as its reader leaves it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.contract.conftest import Exchange, ModelServer
from tests.documented_blocks import ROOT, RUN, Block, blocks

_BLOCKS = blocks()
_PAPERS = ("DyT", "minp")
_LONGEST_S = 900
_INTERRUPTED = 130
_EXPECTED = re.compile(r"#.*exit code (\d+)")


def _installed(folder: Path) -> Path:
    """A copy of the package with a few papers, to be put on the path."""
    shutil.copytree(
        ROOT / "rcb_env", folder / "rcb_env", ignore=shutil.ignore_patterns("__pycache__")
    )
    data = folder / "rcb_env" / "_data"
    shutil.copytree(ROOT / "images", data / "images")
    for paper in _PAPERS:
        shutil.copytree(ROOT / "papers" / paper, data / "papers" / paper)
        described = data / "papers" / paper / "paper.yaml"
        entry = yaml.safe_load(described.read_text())
        entry["context"] = [*entry.get("context", []), *entry["annotated"][2:]]
        entry["annotated"] = entry["annotated"][:2]
        described.write_text(yaml.safe_dump(entry, sort_keys=False))
    index = {"name": "bundled", "title": "Some papers", "papers": list(_PAPERS)}
    (data / "papers" / "papers.yaml").write_text(yaml.safe_dump(index))
    return folder


def _environment(installed: Path, home: Path, **more: str) -> dict[str, str]:
    """What a reader's shell has, with no key of whoever runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "RCB_"))}
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": cache,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(installed),
        "BROWSER": "true",
        **more,
    }


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installation, and a folder `reader` with runs; made once for all processes of the test run."""
    own = tmp_path_factory.getbasetemp()
    place = (own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) / "documented"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            made = place.with_suffix(".unfinished")
            reader = made / "reader"
            reader.mkdir(parents=True)
            words = "run --arms single-shot,repair:rounds=3 --model simulated:skill=0.5 --quiet --out runs/arms"
            done = subprocess.run(
                [sys.executable, "-m", "rcb_env.cli", *words.split()],
                cwd=reader,
                env=_environment(_installed(made / "installed"), reader),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            for record in (reader / "runs" / "arms").glob("*/run.json"):
                name = "repair" if "repair" in record.parent.name else "one-shot"
                shutil.copytree(record.parent, reader / "runs" / name)
            (reader / "examples").symlink_to(ROOT / "examples")
            made.rename(place)
    return place


def _model(exchange: Exchange) -> None:
    """Wrong code; by tools, where there are some, after a look at the paper."""
    asked = exchange.body
    offered = {tool["function"]["name"] for tool in asked.get("tools", ())}
    if not offered:
        ModelServer.answer("```python\npass\n```")(exchange)
    elif "read_paper" in offered and asked["messages"][-1]["role"] != "tool":
        ModelServer.calls(("read_paper", {}))(exchange)
    else:
        ModelServer.calls(("write_region", {"code": "pass\n"}), ("submit", {}))(exchange)


def _folder(block: Block, workshop: Path, folder: Path) -> Path:
    """What the reader of this block has in front of them."""
    folder = Path(shutil.copytree(workshop / "reader", folder / "reader", symlinks=True))
    words = shlex.split(block.commands, comments=True) if block.language != "python" else []
    for option, value in itertools.pairwise(words):
        if option == "--out":
            shutil.rmtree(folder / value, ignore_errors=True)
    for other in _BLOCKS:
        if other.page == block.page and other.file:
            (folder / other.file).write_text(other.text)
    return folder


def _command(block: Block, folder: Path) -> list[str]:
    if block.language == "python":
        script = folder / (block.file or "block.py")
        script.write_text(block.text)
        return [sys.executable, script.name]
    script = folder / "block.sh"
    # Like a person at a prompt, go on after a command that fails; say which one it was.
    script.write_text(f"trap 'echo $((LINENO - 1)) $? >>failed' ERR\n{block.commands}")
    return ["bash", "--norc", script.name]


def _leave(shell: int) -> None:
    """Ctrl-C for the command that a shell waits for."""
    for child in Path(f"/proc/{shell}/task/{shell}/children").read_text().split():
        os.kill(int(child), signal.SIGINT)


def _play(block: Block, folder: Path, environment: dict[str, str]) -> tuple[int, str, int]:
    """Exit code, what was said on stderr, and how many servers came up."""
    with (folder / "stdout").open("w") as stdout:
        shell = subprocess.Popen(
            _command(block, folder),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    ended = threading.Timer(_LONGEST_S, os.killpg, (shell.pid, signal.SIGKILL))
    ended.start()
    said, served = [], 0
    assert shell.stderr is not None
    with shell, shell.stderr:
        for line in shell.stderr:
            said.append(line)
            if line.startswith("serving http"):
                served += 1
                _leave(shell.pid)
    ended.cancel()
    return shell.returncode, "".join(said), served


@pytest.mark.parametrize(
    "block",
    [each for each in _BLOCKS if each.language in RUN and not each.reason],
    ids=lambda block: block.name,
)
def test_a_block_runs_as_it_is_printed(
    block: Block, workshop: Path, model_server: ModelServer, tmp_path: Path
) -> None:
    folder = _folder(block, workshop, tmp_path)
    model_server.plays(_model)
    address = {"OPENAI_BASE_URL": model_server.url, "OPENAI_API_KEY": "none"}
    installed = ROOT if block.language == "python" else workshop / "installed"
    environment = _environment(installed, folder, **address)
    code, said, served = _play(block, folder, environment)
    if "address already in use" in said:
        pytest.skip("somebody else listens where the block wants to")
    assert "Traceback" not in said, said
    if block.language == "python":
        assert code == 0, said
        return
    lines = block.commands.splitlines()
    file = folder / "failed"
    failed = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    left = Counter(status for _, status in failed)[str(_INTERRUPTED)]
    unexpected = [
        f"{lines[int(number) - 1]}: {status}"
        for number, status in failed
        if (found := _EXPECTED.search(lines[int(number) - 1])) is None or found[1] != status
        if status != str(_INTERRUPTED) or left > served
    ]
    assert unexpected == [], said
