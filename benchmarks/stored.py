"""Runs of many episodes on disk: how soon `rcb view` shows them, and what `rcb report --html` takes.

The episodes are real: `reference` and `noop` play a few challenges, and what they left is stored under as many sample
numbers as there are to be. The viewer and the report are the programs that a user starts, in processes of their own; pages
come over HTTP, and each kind of page is asked for by turns.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.measure import Result, Row
from rcb_env.dataset.loading import load_dataset
from rcb_env.runs import RunConfig, durable, open_run, run_experiment
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import keys

EPISODES = 20_000
PAPERS = ("DyT", "minp", "GPS", "LEN")
_AGENTS = ("reference", "noop")
_RCB = (sys.executable, "-m", "rcb_env.cli")


def run(*, quick: bool) -> Result:
    """Store the episodes, then look at them."""
    episodes, looks = (200, 2) if quick else (EPISODES, 30)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = folder / "runs"
        stored = _store(folder, made, episodes // 2)
        env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        began = time.perf_counter()
        with _viewer(made, env) as (viewer, address):
            start_s = time.perf_counter() - began  # indexes are made before it says its address
            pages = {
                "a page of all runs": "",
                "a page of one run": "run/reference",
                "a page of the episodes of one state": "run/noop?state=no_change",
                "an episode's page": _episode_of(address),
            }
            samples: dict[str, list[float]] = {what: [] for what in pages}
            for _ in range(looks):
                for what, page in pages.items():
                    samples[what].append(_look(address + page))
            viewer_mb = _most_mb(viewer.pid)
        report_s, report_mb = _report(made, folder / "report.html", env)
    figures = {
        "stored: rcb view started and indexes made, ms an episode": round(
            1000 * start_s / stored, 3
        ),
        "stored: memory of the viewer, MB": viewer_mb,
        "stored: rcb report --html, s": round(report_s, 2),
        "stored: memory of the report, MB": report_mb,
    }
    most = ("<= 300 ms", "<= 300 ms", "<= 300 ms", "<= 200 ms")
    return Result(
        "stored",
        f"{stored} stored episodes in two runs",
        rows=tuple(
            Row(what, tuple(taken), target=target)
            for (what, taken), target in zip(samples.items(), most, strict=True)
        ),
        figures=figures,
        targets=dict(zip(figures, ("<= 1", "<= 500", "<= 20", "<= 500"), strict=True)),
    )


def _store(folder: Path, made: Path, episodes: int) -> int:
    """Two runs of about so many episodes each; returns how many there are in all."""
    dataset = load_dataset()
    challenges = tuple(c.id for c in dataset.challenges if c.paper.id in PAPERS)[:40]
    count = 0
    for agent in _AGENTS:
        config = RunConfig(agent=agent, challenges=challenges)
        with open_run(config, folder / agent) as store:
            run_experiment(config, store)
        samples = range(-(-episodes // len(challenges)))
        _multiply(folder / agent, made / agent, samples)
        count += len(samples) * len(challenges)
    return count


def _multiply(played: Path, made: Path, samples: Sequence[int]) -> None:
    """A run like the one that was played, of more samples."""
    store = RunStore.open(played)
    record = json.loads((played / "run.json").read_bytes())
    record["plan"] = [{**entry, "samples": list(samples)} for entry in record["plan"]]
    (made / "trajectories").mkdir(parents=True)
    (made / "run.json").write_bytes(durable.dump(record))
    key = keys(record["config"])
    with (made / "episodes.jsonl").open("wb") as lines:
        for line in list(store.latest()):
            told: dict[str, Any] = line["episode"]
            for sample in samples:
                name = f"trajectories/{told['challenge'].replace('/', '_')}.{sample}.jsonl"
                shutil.copyfile(played / line["trajectory"], made / name)
                id = key(told["paper"], told["file"], told["challenge"], sample).id
                episode = {**told, "sample": sample}
                new = {**line, "key": id, "trajectory": name, "episode": episode}
                lines.write(durable.dump(new) + b"\n")


@contextmanager
def _viewer(runs: Path, env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`rcb view`, and its address."""
    command = [*_RCB, "view", str(runs), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"http://\S+", line):
                    yield process, found[0].rstrip("/") + "/"
                    break
        finally:
            process.terminate()


def _look(address: str) -> float:
    """Seconds until a page is there."""
    began = time.perf_counter()
    with urlopen(address) as answer:
        answer.read()
    return time.perf_counter() - began


def _episode_of(address: str) -> str:
    """The page of an episode from the middle of the list."""
    with urlopen(address + "run/noop") as answer:
        found = re.findall(r'href="/(episode/[^"]+)"', answer.read().decode())
    return str(found[len(found) // 2]).replace("&amp;", "&")


def _report(runs: Path, out: Path, env: dict[str, str]) -> tuple[float, float]:
    """Seconds, and the most memory in MB."""
    folders = [str(folder) for folder in sorted(runs.iterdir())]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*_RCB, "report", *folders, "--html", str(out)], stdout=subprocess.DEVNULL, env=env
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, "rcb report failed"
    return time.perf_counter() - began, round(used.ru_maxrss / 1000)


def _most_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return round(int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1000)
