"""`rcb clean`: what killed processes left goes, what is in use stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from rcb_env.errors import SandboxUnavailable
from rcb_env.runs.store import RunStore
from rcb_env.sandbox import make
from rcb_env.sandbox.box import Box, BoxSettings
from rcb_env.sandbox.owners import LABEL, owner
from rcb_env.sandbox.podman_command import installed, podman
from rcb_env.view.index import Index
from tests.made_runs import finish, plan_of

_SCRATCH = """
import time
from rcb_env.sandbox.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""
_BOX = """
import time
from rcb_env.sandbox import make
from rcb_env.sandbox.box import Box, BoxSettings
box = Box(make("docker"), BoxSettings())
print(box._channel._container, flush=True)
time.sleep(600)
"""


def start(program: str, scratch: Path) -> tuple[subprocess.Popen[str], str]:
    """A process, and the line it says first."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.communicate()


def clean(scratch: Path, **environment: str) -> dict[str, Any]:
    """What `rcb clean` says."""
    done = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", "clean", "--json"],
        env={
            **os.environ,
            "TMPDIR": str(scratch),
            "XDG_CACHE_HOME": str(scratch / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_folders_of_the_dead_go_and_those_of_the_living_stay_without_any_engine(
    tmp_path: Path,
) -> None:
    boxes = tmp_path / "cache" / "rcb-env" / "boxes"
    (boxes / "cpu-cut-short" / "lib").mkdir(parents=True)
    (boxes / "cpu-cut-short.lock").touch()
    (boxes / "cpu-whole").mkdir()
    (boxes / "cpu-whole" / "rcb-complete").touch()
    (boxes / "cpu-whole.lock").touch()
    alive, kept = start(_SCRATCH, tmp_path)
    dead, left = start(_SCRATCH, tmp_path)
    end(dead)
    try:
        told = clean(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
        assert sorted(told["folders"]) == sorted([left, str(boxes / "cpu-cut-short")])
        assert (told["engine"], told["containers"]) == (False, [])
        assert "no Docker engine answers" in told["trouble"]
        assert Path(kept, "file").exists()
        assert (boxes / "cpu-whole").exists()
    finally:
        end(alive)
    assert clean(tmp_path)["folders"] == [kept]
    assert clean(tmp_path)["folders"] == []


def test_containers_of_a_killed_driver_go_and_others_stay(docker_only: str, tmp_path: Path) -> None:
    """Case C026: after kill -9 a clean-up command removes what that run left. So may any driver that begins meanwhile."""
    box = Box(make(docker_only), BoxSettings())
    engine = docker.from_env()
    try:
        driver, orphan = start(_BOX, tmp_path)
        end(driver)
        clean(tmp_path)
        left = {container.id for container in engine.containers.list(all=True, ignore_removed=True)}
        assert orphan not in left
        assert orphan not in clean(tmp_path)["containers"]
        box.ping()
    finally:
        box.close()
        engine.close()


@pytest.fixture
def podman_image(tmp_path: Path) -> Iterator[str]:
    """An image of one empty folder: a container of it can be made and removed."""
    if not installed():
        pytest.skip("Podman is not installed")
    archive, image = tmp_path / "empty.tar", f"localhost/rcb-env-test-{tmp_path.name.lower()}"
    with tarfile.open(archive, "w"):
        pass
    try:
        podman("import", "--quiet", str(archive), image)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield image
    podman("rmi", "--force", image)


def test_podmans_containers_of_a_killed_driver_go_too_and_others_stay(
    podman_image: str, tmp_path: Path
) -> None:
    driver = subprocess.Popen(["sleep", "600"])
    gone = owner(driver.pid)
    end(driver)
    orphan, used = (
        podman("create", f"--label={LABEL}={whose}", podman_image, "none").strip()
        for whose in (gone, owner())
    )
    try:
        removed = clean(tmp_path)["containers"]
        assert used not in removed
        left = podman("ps", "--all", "--quiet", "--no-trunc").split()
        assert (orphan in left, used in left) == (False, True)
    finally:
        podman("rm", "--force", "--ignore", orphan, used)


def test_a_lost_engine_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", "clean"],
        env={**os.environ, "TMPDIR": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("no Docker containers were looked for: no Docker engine answers")


def test_the_indexes_of_the_viewer_go_and_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = plan_of({"A/x": 1})
    store = RunStore.create(tmp_path / "run", {"config": {"agent": "a"}, "plan": plan})
    finish(store, "A/x", "passed")
    index = Index(store)
    version = index.version()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    cache = str(tmp_path / "cache")
    assert clean(scratch, XDG_CACHE_HOME=cache)["indexes"] == [str(index.path)]
    assert list(index.path.parent.iterdir()) == []
    assert index.version() == version
    assert index.path.exists()
    assert store.finished()
