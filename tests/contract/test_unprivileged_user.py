"""Everything works for a user who is nobody in particular, and leaves that user's files only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_env.sandbox import images

NOBODY = 65534
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of that user's own; pytest's temporary folders are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="rcb-user-"))
    yield folder
    shutil.rmtree(folder)


def test_a_whole_run_of_an_unprivileged_user(home: Path) -> None:
    """Case C028: boxes in user namespaces; nothing that root owns and the user cannot remove is left."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"):
        pytest.skip("only root, with util-linux, can become somebody else")
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    boxes = images.realise("cpu").prefix.parent
    # In a mount namespace the user is shown the checkout, its environment and the packages of boxes, wherever they are.
    shown = {CHECKOUT: "checkout", Path(sys.prefix): "venv", boxes: ".cache/rcb-env/boxes"}
    for folder in ("", "work", "scratch", ".cache", ".cache/rcb-env", *shown.values()):
        (home / folder).mkdir(exist_ok=True)
        os.chown(home / folder, NOBODY, NOBODY)
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
    user = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --bounding-set=-all"
    python = f"{home}/venv/bin/python"
    run = "-m rcb_env.cli run --agent reference --papers DyT --sandbox bubblewrap --out run --json"
    script = [*mounts, f"cd '{home}/work'", f"exec {user} {python} -P {run}"]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(script)],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home / "scratch"),
            "PYTHONPATH": f"{home}/checkout:{home}/checkout/agents",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["planned"] == told["states"]["passed"] > 0
    made = list((home / "work").rglob("*"))
    assert any(path.name == "episodes.jsonl" for path in made)
    assert {path.lstat().st_uid for path in made} == {NOBODY}
    assert list((home / "scratch").iterdir()) == []
    removed = subprocess.run(
        [*user.split(), "rm", "-r", str(home / "work" / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (removed.returncode, removed.stderr) == (0, "")
