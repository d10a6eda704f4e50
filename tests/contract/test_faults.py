"""Runs of a hundred episodes in which things break: boxes, the engine, the driver, the disk.

Whatever breaks, every planned episode ends up stored with the verdict it deserves, once, if need be after a resume, and
nothing stays behind on the machine. The agent answers rightly in even samples and wrongly in odd ones, so a verdict that
a fault had falsified in either direction is seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from rcb_env.runs.durable import JsonLines
from rcb_env.sandbox.owners import LABEL, RUN_LABEL

REGIONS = ("double", "triple", "quadruple", "quintuple", "sextuple")
SAMPLES = 20
PLANNED = len(REGIONS) * SAMPLES
SOURCE = '"""Multiples."""\n' + "".join(
    f"""

def {name}(x: float) -> float:
    # <paper2code name="{name}">
    y = {factor}.0 * x
    return y
    # </paper2code name="{name}">
"""
    for factor, name in enumerate(REGIONS, 2)
)
FILES = {
    "src/multiples.py": SOURCE,
    "tests/cases.py": f"""
from rcb_env.cases import case

@case(seeds=1)
def multiples(tree, rng):
    module = tree.load("multiples")
    x = float(rng.numpy.normal())
    return [getattr(module, name)(x) for name in {REGIONS}]
""",
    "tests/checks.py": """
from rcb_env.cases import check

@check("multiples")
def four_is_twice_two(out, ref):
    assert abs(out[2] - 2 * out[0]) < 1e-9 or abs(ref[2] - 2 * ref[0]) < 1e-9
""",
}
AGENT = """
import time
from dataclasses import dataclass
from rcb_env import ToolCall

@dataclass(frozen=True)
class Alternating:
    uses_model = False

    def play(self, task):
        code = task.challenge.reference if task.sample % 2 == 0 else "    return 0.0 * x\\n"
        yield ToolCall("write_region", {"code": code})
        time.sleep(0.03)
        yield ToolCall("run_tests", {})
        yield ToolCall("submit", {})
"""
# The command line, with a shorter wait for an engine that went away.
RCB = """
from rcb_env.sandbox import engine
engine._BACK_AFTER_S = 5.0
from rcb_env.cli import main
main()
"""


class Machine:
    """A data set, one run directory, and an eye on everything that a run starts."""

    def __init__(self, root: Path, maker: str, write_paper: Callable[..., Path]) -> None:
        self.maker, self.papers, self.out = maker, root / "papers", root / "run"
        self.workers = 2
        self.scratch = root / "scratch"
        self.scratch.mkdir()
        write_paper(self.papers / "faults", FILES)
        (self.papers / "papers.yaml").write_text("name: faults\ntitle: Faults\npapers: [faults]\n")
        (self.papers / "agent_for_faults.py").write_text(AGENT)
        self._drivers: list[subprocess.Popen[str]] = []
        self._seen: set[tuple[int, str]] = set()
        self._mounts: set[str] = set()
        self._volumes = self.volumes()

    def start(self, *more: str) -> subprocess.Popen[str]:
        """The run, or its next session."""
        arguments = [
            "run",
            "--agent",
            "agent_for_faults:Alternating",
            "--dataset",
            str(self.papers),
        ]
        arguments += ["--samples", str(SAMPLES), "--workers", str(self.workers)]
        arguments += ["--sandbox", self.maker]
        arguments += ["--out", str(self.out), "--json", *more]
        driver = subprocess.Popen(
            [sys.executable, "-c", RCB, *arguments],
            env={**os.environ, "PYTHONPATH": str(self.papers), "TMPDIR": str(self.scratch)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, so that Ctrl-C can be sent to all of it
        )
        self._drivers.append(driver)
        return driver

    def stored(self) -> list[dict[str, Any]]:
        path = self.out / "episodes.jsonl"
        return list(JsonLines(path).read()) if path.exists() else []

    def wait_for(self, episodes: int, driver: subprocess.Popen[str]) -> None:
        """Until so many episodes are stored and boxes are at work; whatever runs then is noted."""
        wait_until(lambda: len(self.stored()) >= episodes, driver)
        wait_until(lambda: bool(self.runners()), driver)
        assert len(self.stored()) < PLANNED, "the fault would come too late"
        self._seen |= self.processes()

    def containers(self) -> list[Any]:
        """Those that drivers of this test own, dead ones included."""
        ours = {str(driver.pid) for driver in self._drivers}
        with contextlib.closing(docker.from_env()) as client:
            found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
            found = [c for c in found if c.labels[LABEL].split(" ")[2] in ours]
        assert {c.labels[RUN_LABEL] for c in found} <= {self.out.name}
        return found

    def volumes(self) -> set[str]:
        """Those of the engine, whoever made them: one without a name is left by its container."""
        if self.maker != "docker":
            return set()
        with contextlib.closing(docker.from_env()) as client:
            return {str(volume.id) for volume in client.volumes.list()}

    def runners(self) -> list[int]:
        """The first process of every box, as the host numbers it."""
        if self.maker == "docker":
            running = [c for c in self.containers() if c.attrs["State"]["Running"]]
            self._mounts |= {c.attrs["GraphDriver"]["Data"].get("MergedDir", "-") for c in running}
            return [int(c.attrs["State"]["Pid"]) for c in running]
        children = children_by_parent()
        outer = children.get(self._drivers[-1].pid, [])
        return [pid for box, _ in outer for pid, _ in children.get(box, [])]

    def zygotes(self) -> list[int]:
        """Those that every box has from its start."""
        children = children_by_parent()
        return [pid for runner in self.runners() for pid, _ in children.get(runner, [])[:1]]

    def processes(self) -> set[tuple[int, str]]:
        """Everything below the drivers and in the boxes, each with its start time."""
        children = children_by_parent()
        todo = [driver.pid for driver in self._drivers if driver.poll() is None] + self.runners()
        found: set[tuple[int, str]] = set()
        while todo:
            for child in children.get(todo.pop(), []):
                if child not in found:
                    found.add(child)
                    todo.append(child[0])
        return found

    def nothing_is_left(self) -> None:
        """No process, container, volume, mount or temporary folder."""
        deadline = time.monotonic() + 15
        while left := self._seen & {p for c in children_by_parent().values() for p in c}:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        if self.maker == "docker":
            assert self.containers() == []
            assert self.volumes() <= self._volumes
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
            mounted = {line.split()[4] for line in mounts.splitlines()}
            assert not self._mounts & mounted
        assert list(self.scratch.iterdir()) == []

    def every_episode_has_its_verdict_once(self) -> None:
        counts: Counter[str] = Counter()
        for line in self.stored():
            episode = line["episode"]
            if episode["status"] != "infra_error":
                counts[line["key"]] += 1
                wanted = "passed" if episode["sample"] % 2 == 0 else "failed"
                assert episode["status"] == wanted, episode
                assert wanted == "passed" or episode["verdict"]["error_class"] == "value", episode
        assert len(counts) == PLANNED
        assert set(counts.values()) == {1}


def children_by_parent() -> dict[int, list[tuple[int, str]]]:
    """Every living process, with its start time, below its parent; oldest first."""
    found: dict[int, list[tuple[int, str]]] = {}
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    return found


def wait_until(condition: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finish(driver: subprocess.Popen[str], code: int = 0) -> str:
    """What the driver said on its way out; it ends with this code, or by that signal.

    A second Ctrl-C may come when the run is over and the interpreter is on its way out.
    """
    out, errors = driver.communicate(timeout=90)
    assert driver.returncode in (code, 128 - code), errors
    assert "Traceback" not in errors
    if code == 0:
        told = json.loads(out.splitlines()[-1])
        assert (told["planned"], told["states"]["missing"]) == (PLANNED, 0)
    return errors


@pytest.fixture
def machine(maker_name: str, tmp_path: Path, write_paper: Callable[..., Path]) -> Iterator[Machine]:
    made = Machine(tmp_path, maker_name, write_paper)
    yield made
    for driver in made._drivers:
        if driver.poll() is None:
            driver.kill()
            driver.communicate()


def test_a_run_outlives_its_boxes(machine: Machine) -> None:
    """Runners, zygotes and containers are killed under it: the run ends well without any help."""
    driver = machine.start()
    machine.wait_for(10, driver)
    for pid in machine.runners():
        os.kill(pid, signal.SIGKILL)
    machine.wait_for(35, driver)
    for pid in machine.zygotes():
        os.kill(pid, signal.SIGKILL)
    machine.wait_for(60, driver)
    if machine.maker == "docker":
        for container in machine.containers():
            subprocess.run(["docker", "kill", container.id], check=False, capture_output=True)
    else:
        for box, _ in children_by_parent().get(driver.pid, []):
            os.kill(box, signal.SIGKILL)
    finish(driver)
    machine.every_episode_has_its_verdict_once()
    machine.nothing_is_left()


def test_a_driver_that_is_stopped_or_killed_loses_and_doubles_nothing(machine: Machine) -> None:
    """Case C026, and C073 with every signal: Ctrl-C twice, SIGTERM, kill -9, each time with a resume."""
    machine.workers = 3
    driver = machine.start()
    machine.wait_for(10, driver)
    os.killpg(driver.pid, signal.SIGINT)
    time.sleep(0.1)
    os.killpg(driver.pid, signal.SIGINT)
    assert "--resume" in finish(driver, 128 + signal.SIGINT)
    machine.nothing_is_left()
    before = machine.stored()

    driver = machine.start("--resume")
    machine.wait_for(35, driver)
    driver.terminate()
    assert "--resume" in finish(driver, 128 + signal.SIGTERM)
    machine.nothing_is_left()
    assert machine.stored()[: len(before)] == before
    assert {line["episode"]["status"] for line in machine.stored()} <= {"passed", "failed"}

    driver = machine.start("--resume")
    machine.wait_for(60, driver)
    driver.kill()
    driver.communicate()
    before = machine.stored()

    finish(machine.start("--resume"))
    assert machine.stored()[: len(before)] == before
    machine.every_episode_has_its_verdict_once()
    machine.nothing_is_left()


def test_a_full_disk_stops_a_run_and_room_lets_it_go_on(machine: Machine) -> None:
    """Case C071: a disk that is full is told as such, and no episode that it cut short counts."""
    machine.out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0755", "rcb-faults", str(machine.out)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        errors = finish(machine.start(), 2)
        assert "No space left on device; free some space, then resume the run" in errors
        before = machine.stored()
        assert 0 < len(before) < PLANNED
        machine.nothing_is_left()
        subprocess.run(["mount", "-o", "remount,size=64m", str(machine.out)], check=True)
        finish(machine.start("--resume"))
        assert machine.stored()[: len(before)] == before
        machine.every_episode_has_its_verdict_once()
        machine.nothing_is_left()
    finally:
        subprocess.run(["umount", "--lazy", str(machine.out)], check=True)


@pytest.mark.alone
def test_an_engine_that_stops_falsifies_no_verdict(
    docker_only: str, tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    """One that is started again is waited for; without one the run stops at once and can be resumed."""
    folder = os.environ.get("RCB_MAY_STOP_ENGINE")
    if not folder:
        pytest.skip("RCB_MAY_STOP_ENGINE names no engine that may be stopped; CI's own may")
    engine = str(Path(__file__).parents[2] / ".ci" / "engine")
    machine = Machine(tmp_path, docker_only, write_paper)
    driver = machine.start()
    try:
        machine.wait_for(15, driver)
        subprocess.run([engine, "stop", folder], check=True)
        subprocess.run([engine, "start", folder], check=True)
        machine.wait_for(50, driver)
        subprocess.run([engine, "stop", folder], check=True)
        assert "then resume the run" in finish(driver, 2)
    finally:
        driver.kill()
        subprocess.run([engine, "start", folder], check=True)
    finish(machine.start("--resume"))
    machine.every_episode_has_its_verdict_once()
    machine.nothing_is_left()
