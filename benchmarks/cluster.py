"""A Ray cluster of four nodes on this machine: what it adds to a run and to a grading, and what its driver takes.

All nodes share this machine's processors, so episodes that wait for a model are what tells how runs scale: each node plays
sixteen at once, as often on one node as on four. Gradings through a node's actor and in the process alternate. Needs the
extra `ray`.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, Row, median
from benchmarks.waiting import CALLS, CHALLENGE, model
from rcb_env.dataset.loading import load_dataset
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import ModelSettings
from rcb_env.runs import Progress, RunConfig, open_run, run_experiment

_SLOTS = 16  # episodes at once on each node
_RATIO = "cluster: wall time / waiting alone"
_SPEED = "cluster: four nodes as fast as one, times"
_CPU = "cluster: driver's CPU per finished episode, ms"
_MEMORY = "cluster: driver's memory for a plan of 100,000 episodes, MiB"
_BEYOND = "cluster: a grading through the node's actor, beyond one in the process, ms p50"
_NODE = {"num_cpus": 16, "memory": 4 << 30, "object_store_memory": 100 << 20}


class _Enough(Exception):
    """As many episodes have finished as were to be measured."""


def run(*, quick: bool) -> Result:
    """Start the cluster, and measure one thing after the other."""
    episodes, delay_s = (8, 0.2) if quick else (256, 2.0)
    rounds = -(-episodes // (4 * _SLOTS))
    figures: dict[str, float] = {}
    with _nodes(4) as address, tempfile.TemporaryDirectory() as folder, model(delay_s) as url:
        out = Path(folder)
        figures |= _driver(address, out / "many", 200 if quick else 3000)
        wall_s = _wall(address, out / "all", _config(url, episodes))
        figures[_RATIO] = round(wall_s / (rounds * CALLS * delay_s), 3)
        rows = _gradings(address, 20 if quick else 200)
        figures[_BEYOND] = round(1000 * (median(rows[0].samples_s) - median(rows[1].samples_s)), 2)
    with _nodes(1) as address, tempfile.TemporaryDirectory() as folder, model(delay_s) as url:
        one_s = _wall(address, Path(folder) / "one", _config(url, episodes // 4))
        figures[_SPEED] = round(4 * one_s / wall_s, 2)  # of four times the episodes
    return Result(
        name="cluster",
        about=f"4 nodes, {_SLOTS} of {episodes} episodes at once on each, {CALLS} replies of {delay_s:g} s in an episode",
        rows=rows,
        figures=figures,
        notes=(
            "With E ms of the driver for an episode and G ms of a core for a grading, 16 nodes of 16 cores make"
            " min(1000 / E, 256 * 1000 / G) episodes of one grading a second.",
        ),
        targets={
            _RATIO: "<= 1.3",
            _SPEED: ">= 3.6",
            _CPU: "<= 10",
            _MEMORY: "<= 1024",
            _BEYOND: "<= 3",
        },
    )


def _config(url: str, episodes: int) -> RunConfig:
    """So many episodes, a few at once on each node."""
    told = ModelSettings("slow", base_url=url, max_tokens=1000, context_tokens=128_000)
    return RunConfig(
        agent="tools",
        model=told,
        challenges=(CHALLENGE,),
        samples=episodes,
        workers=_SLOTS,
    )


def _wall(address: str, folder: Path, config: RunConfig) -> float:
    """Seconds that a run's episodes take, once its nodes are ready."""
    began = 0.0

    def tell(progress: Progress) -> None:
        nonlocal began
        if progress.last is None and not progress.between:
            began = time.perf_counter()

    _play(address, folder, config, tell)
    return time.perf_counter() - began


def _play(address: str, folder: Path, config: RunConfig, tell: Any) -> None:
    from rcb_env.cluster.connecting import connected
    from rcb_env.cluster.episodes import Cluster

    with (
        connected(address),
        Cluster(address, config, lambda _line: None) as place,
        open_run(config, folder, elsewhere=True) as store,
    ):
        run_experiment(config, store, progress=tell, elsewhere=place)


def _gradings(address: str, n: int) -> tuple[Row, Row]:
    """The same right answer, graded by a node's actor and in the process, by turns."""
    from rcb_env.cluster.connecting import connected
    from rcb_env.cluster.grader import NodeGrader

    challenge = load_dataset().challenge(CHALLENGE)
    with connected(address), NodeGrader() as there, Grader() as here:
        samples: dict[str, list[float]] = {"node": [], "process": []}
        graders = {"node": there, "process": here}
        for number in range(n + 10):
            for name, grader in graders.items():
                began = time.perf_counter()
                verdict = grader.grade(challenge, challenge.reference, final=False)
                assert verdict.passed, verdict
                if number >= 10:  # until then boxes warm up
                    samples[name].append(time.perf_counter() - began)
    return (
        Row("a grading through the node's actor", tuple(samples["node"])),
        Row("a grading in the process", tuple(samples["process"])),
    )


def _driver(address: str, folder: Path, enough: int) -> dict[str, float]:
    """What the driver takes while an agent that does nothing plays a plan of 100,000 episodes."""
    challenges = len(load_dataset().challenges)
    config = RunConfig(agent="noop", samples=100_000 // challenges + 1, workers=16)
    marks: list[float] = []
    before = _resident()

    def tell(progress: Progress) -> None:
        if progress.finished in (enough // 3, enough):
            marks.append(_cpu_s())
        if progress.finished >= enough:
            raise _Enough

    with suppress(_Enough):
        _play(address, folder, config, tell)
    cpu_s = (marks[-1] - marks[0]) / (enough - enough // 3)
    return {_CPU: round(1000 * cpu_s, 2), _MEMORY: round((_resident() - before) / 2**20, 1)}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def _nodes(number: int) -> Iterator[str]:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for _ in range(number):
            cluster.add_node(**_NODE)
        yield cluster.address
    finally:
        cluster.shutdown()
