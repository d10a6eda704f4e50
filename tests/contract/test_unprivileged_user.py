"""Everything works for a user who is nobody in particular, and leaves that user's files only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_env.sandbox import images

NOBODY = 65534
CHECKOUT = Path(__file__).parents[2]
FILES = {
    "src/small.py": """def double(x):
    # <paper2code name="double">
    return 2 * x
    # </paper2code name="double">
""",
    # These tests edit what was put there for them, and leave files of their own.
    "tests/cases.py": """import os, py_compile
from rcb_env.cases import case

@case(seeds=1)
def doubles(tree, rng):
    with open("src/small.py", "a") as source:
        source.write("# edited\\n")
    os.mkdir("out")
    open("out/numbers.txt", "w").close()
    py_compile.compile("src/small.py", doraise=True)
    return tree.load("small").double(2.0), sorted(os.listdir("src")), os.listdir("out")
""",
}


def engine_socket() -> Path:
    """The local socket of the engine in use, where members of its group may write into it."""
    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not address.startswith("unix://"):
        pytest.skip("the engine is not on a local socket, so it does not matter who asks")
    path = Path(address.removeprefix("unix://")).resolve()
    if path.stat().st_mode & 0o060 != 0o060:
        pytest.skip("only root may use the engine's socket")
    return path


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of that user's own; pytest's temporary folders are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="rcb-user-"))
    yield folder
    shutil.rmtree(folder)


def test_a_whole_run_of_an_unprivileged_user(
    maker_name: str, home: Path, write_paper: Callable[..., Path]
) -> None:
    """Case C028: nothing that root owns and the user cannot remove is left, nor anything that the tests wrote.

    With bubblewrap the boxes are in user namespaces; with Docker the user is in the group that may use the engine.
    """
    if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"):
        pytest.skip("only root, with util-linux, can become somebody else")
    groups = "--clear-groups"
    # In a mount namespace the user is shown the checkout, its environment and what boxes are made with, wherever they are.
    shown = {CHECKOUT: "checkout", Path(sys.prefix): "venv"}
    if maker_name == "docker":
        engine = engine_socket()
        groups = f"--groups {engine.stat().st_gid}"
        shown[engine] = "docker.sock"
        (home / "docker.sock").touch()
    else:
        shown[images.realise("cpu").prefix.parent] = ".cache/rcb-env/boxes"
        (home / ".cache" / "rcb-env" / "boxes").mkdir(parents=True)
    for folder in ("work", "scratch", "checkout", "venv"):
        (home / folder).mkdir()
    written = {path for path in write_paper(home / "small", FILES).rglob("*") if path.is_file()}
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    mounts = [f"mount --rbind '{place}' '{home / name}'" for place, name in shown.items()]
    python_home = Path(sys.base_prefix).resolve()
    for closed in reversed(python_home.parents):
        if (
            not closed.stat().st_mode & 0o001
        ):  # a Python in root's home, say: nothing else of that folder is shown
            held = f"'{home}/held'"
            mounts += [f"mkdir {held}", f"mount --bind '{python_home}' {held}"]
            mounts += [f"mount -t tmpfs -o mode=0755 none '{closed}'", f"mkdir -p '{python_home}'"]
            mounts += [f"mount --bind {held} '{python_home}'"]
            break
    user = f"setpriv --reuid {NOBODY} --regid {NOBODY} {groups} --bounding-set=-all"
    python = f"{home}/venv/bin/python"
    run = f"run --agent reference --dataset {home}/small --sandbox {maker_name} --out run --json"
    script = [*mounts, f"cd '{home}/work'", f"exec {user} {python} -P -m rcb_env.cli {run}"]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(script)],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home / "scratch"),
            "DOCKER_HOST": f"unix://{home}/docker.sock",
            "PYTHONPATH": f"{home}/checkout:{home}/checkout/agents",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["planned"] == told["states"]["passed"] == 1
    assert "permi" not in done.stderr.lower()
    made = list((home / "work").rglob("*"))
    assert any(path.name == "episodes.jsonl" for path in made)
    assert {path.lstat().st_uid for path in made} == {NOBODY}
    assert list((home / "scratch").iterdir()) == []
    left = {path for path in (home / "small").rglob("*") if path.is_file()}
    assert left == written
    removed = subprocess.run(
        [*user.split(), "rm", "-r", str(home / "work" / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (removed.returncode, removed.stderr) == (0, "")
