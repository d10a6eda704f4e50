"""The one actor of a node: it holds the node's boxes, and everybody on the node, or away from it, works through it.

Guarantees: there is one for each node and job, found by its name; it has no more boxes than the node has processors and
memory for. What goes wrong with a sandbox is told, not raised, so that a node that cannot run code is one line.
Not covered: which node gets what (`members.py`).
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray

from rcb_env import sandbox as sandboxes
from rcb_env.cluster.papers import Received, Sent
from rcb_env.dataset.papers import Challenge
from rcb_env.errors import RcbError, SandboxUnavailable
from rcb_env.grading.code import grading_code
from rcb_env.grading.grader import Grader
from rcb_env.play.record import Episode
from rcb_env.runs.plan import Job, RunConfig
from rcb_env.runs.playing import Player
from rcb_env.runs.spending import Limits
from rcb_env.runs.stored import EpisodeKey
from rcb_env.sandbox import images
from rcb_env.sandbox.machine import BOX_BYTES, boxes

NAMESPACE = "rcb-env"
"""Of the names of these actors."""
_KEYS = re.compile(r"_API_KEY$|_API_TOKEN$|^(OPENAI|ANTHROPIC|GOOGLE|GEMINI|AZURE)_")
_NICENESS = 5
_PLAYS = 256  # episodes at once, of all drivers
_ASKS = 64  # gradings that are under way or wait for a box


@dataclass(frozen=True)
class Software:
    """What must be the same on a driver and on every node.

    Attributes:
        rcb_env: its version, and the hash of the code that grades.
        python: version, without the last number.
        images: the hash of each image's packages.
    """

    rcb_env: str
    python: str
    images: Mapping[str, str]

    @classmethod
    def here(cls, names: Sequence[str]) -> Software:
        """What this process has, with these images."""
        return cls(
            f"{version('rcb-env')} ({grading_code()[:12]})",
            platform.python_version().rpartition(".")[0],
            {name: _digest(name) for name in names},
        )

    def differs_from(self, other: Software) -> str:
        """What is not the same there, in one line; "" when everything is."""
        pairs = {"rcb-env": (self.rcb_env, other.rcb_env), "Python": (self.python, other.python)}
        for name, digest in self.images.items():
            pairs[f"the image {name}"] = (digest[:12], other.images.get(name, "")[:12])
        told = (
            f"{what} {there}, the driver {here}"
            for what, (here, there) in pairs.items()
            if here != there
        )
        return next(told, "")


@dataclass(frozen=True)
class Ready:
    """What a node says of itself.

    Attributes:
        trouble: why it can run no code; "" when it can.
        boxes: as `Grader.describe` tells.
    """

    software: Software
    trouble: str = ""
    boxes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """An episode to be played.

    Attributes:
        limits: of the whole run, for everybody who plays.
    """

    config: RunConfig
    paper: Sent
    challenge: str
    sample: int
    seed: int
    key: EpisodeKey
    limits: Limits


@dataclass(frozen=True)
class Played:
    """What came of an order.

    Attributes:
        records: of the trajectory, each a kind and its payload.
        error: what would end every further episode too, in the place of an episode.
    """

    records: Sequence[tuple[str, Mapping[str, object]]]
    episode: Episode | None = None
    error: RcbError | None = None


@dataclass(frozen=True)
class Query:
    """A question to a grader.

    Attributes:
        method: of `Grader`.
        settings: of the boxes, as `Grader` takes them.
        options: of the method.
        wait: whether to wait for a box where all are in use.
    """

    method: str
    paper: Sent
    challenge: str
    options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    wait: bool = True


class Busy:
    """The answer to a query that would have had to wait."""


class _Notes:
    """The records of a trajectory, to be sent."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Mapping[str, object]]] = []

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        """Keep one."""
        self.records.append((kind, payload))


class Node:
    """Boxes of a node, and what works with them.

    Args:
        sandbox: a maker's name, or "auto": what this node can.
        processors: of the node, as the cluster counts them.
        memory: likewise, in bytes.
    """

    def __init__(self, sandbox: str, processors: float, memory: float) -> None:
        _take_priority()
        self._sandbox = sandbox
        self._boxes = max(1, boxes(most=int(min(processors, memory // BOX_BYTES))))
        self._graders: dict[tuple[tuple[str, Any], ...], Grader] = {}
        self._papers = Received()
        self._warm: set[str] = set()  # content hashes
        self._lock = threading.Lock()
        self._asked = 0
        self._players = threading.local()

    def equip(self, variables: Mapping[str, str]) -> None:
        """Take over what model servers are reached with."""
        os.environ.update(variables)

    def ready(self, names: Sequence[str]) -> Ready:
        """Return once a box of every image has started, or with what is wrong."""
        software = Software.here(names)
        try:
            chosen, _ = sandboxes.choose(self._sandbox, names)
            maker = sandboxes.make(chosen)
            for name in names:
                maker.prepare(name, lambda _line: None)
            self._sandbox = chosen
            grader = self._grader({})
            grader.ready(names)
        except (RcbError, OSError) as error:
            return Ready(software, str(error) or type(error).__name__)
        return Ready(software, boxes=grader.describe(names))

    def ask(self, query: Query) -> Any:
        """What a grader answers; `Busy` where all boxes are in use and the query does not wait."""
        with self._lock:
            if not query.wait and self._asked >= self._boxes:
                return Busy()
            self._asked += 1
        try:
            challenge = self._challenge(query.paper, query.challenge)
            method = getattr(self._grader(query.settings), query.method)
            return method(challenge, **query.options)
        finally:
            with self._lock:
                self._asked -= 1

    def play(self, order: Order) -> Played:
        """Play an episode, whole."""
        notes = _Notes()
        try:
            challenge = self._challenge(order.paper, order.challenge)
            if order.config.model is not None:
                self._warm_up(order.paper, challenge)
            job = Job(challenge, order.sample, order.seed, order.key)
            episode = self._player(order).play(job, notes)
        except RcbError as error:
            return Played(notes.records, error=error)
        return Played(notes.records, episode)

    def close(self) -> None:
        """End every box."""
        with self._lock:
            graders = list(self._graders.values())
        for grader in graders:
            grader.close()

    def _player(self, order: Order) -> Player:
        """This thread's, for this run and paper: an agent keeps its connections."""
        key = (order.config, order.paper.content_hash)
        if getattr(self._players, "key", None) != key:
            dataset = self._papers.of(order.paper)
            self._players.player = Player(order.config, dataset, self._grader({}), order.limits)
            self._players.key = key
        player: Player = self._players.player
        return player

    def _warm_up(self, paper: Sent, challenge: Challenge) -> None:
        """Have boxes import what a paper needs while the first model thinks."""
        with self._lock:
            if paper.content_hash in self._warm:
                return
            self._warm.add(paper.content_hash)

        def grade() -> None:
            with contextlib.suppress(RcbError):  # whoever grades next is told
                self._grader({}).grade(challenge, challenge.reference, final=False)

        threading.Thread(target=grade, daemon=True).start()

    def _challenge(self, paper: Sent, name: str) -> Challenge:
        return self._papers.of(paper).challenge(name)

    def _grader(self, settings: Mapping[str, Any]) -> Grader:
        key = tuple(sorted(settings.items()))
        with self._lock:
            if key not in self._graders:
                self._graders[key] = Grader(self._sandbox, workers=self._boxes, **settings)
            return self._graders[key]


def _take_priority() -> None:
    """Have this process and its boxes give way to Ray's own only, where that is allowed: Ray starts workers at niceness 15."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICENESS)


def keys() -> dict[str, str]:
    """The variables of this process that model servers are reached with."""
    return {name: value for name, value in os.environ.items() if _KEYS.search(name)}


def _digest(image: str) -> str:
    try:
        return images.digest(image)
    except RcbError as error:  # it is not there
        return str(error)


def actor(node: Mapping[str, Any], sandbox: str) -> Any:
    """The handle of a node's actor for this job, which is started where there is none.

    Args:
        node: as `ray.nodes` tells of it.
        sandbox: what its boxes are made by.
    """
    has, job = node["Resources"], ray.get_runtime_context().get_job_id()
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        node["NodeID"], soft=False
    )
    return (
        ray.remote(num_cpus=0, concurrency_groups={"play": _PLAYS, "ask": _ASKS})(Node)
        .options(
            name=f"boxes-{job}-{node['NodeID']}",
            namespace=NAMESPACE,
            get_if_exists=True,
            scheduling_strategy=strategy,
        )
        .remote(sandbox, has.get("CPU", 1), has.get("memory", float("1e18")))
    )


def unavailable(nodes: Mapping[str, str], where: str) -> SandboxUnavailable:
    """The error for a cluster in which no node can run code.

    Args:
        nodes: why, by the name of the node.
        where: the cluster, as the user named it.
    """
    told = "; ".join(f"{name}: {why}" for name, why in nodes.items()) or "it has none"
    return SandboxUnavailable(
        f"no node of the cluster {where} can run code ({told})",
        fix="`rcb doctor` on a node says what it lacks",
    )
