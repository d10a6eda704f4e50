"""The nodes of a cluster as a driver sees them: who is there, who can run code, who has room.

Guarantees:
- A node that joins is used within seconds, and one that is gone is not asked again. A node whose process ended is tried
  anew, some times.
- A node whose software differs from the driver's, or whose sandbox does not work, is named once, with the reason, and not
  used. When no node is left that works or may come to work, whoever waits gets one error with all reasons.
- When `close` returns, no thread of its own or with a lease asks Ray any more, which would end the whole process once Ray is
  shut down.
- Who works on a paper prefers nodes that did so before, as long as they have room.
Not covered: what is done on a node (`node.py`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import ray

from rcb_env.cluster.node import Ready, Software, actor, keys, unavailable
from rcb_env.errors import SandboxUnavailable

LOST = (
    ray.exceptions.RayActorError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.ObjectLostError,
)
"""What Ray raises where a node or its actor is gone."""
NODES = 32
"""That a cluster may grow to while something goes on: so many times what a node does at once is under way at most."""
_LOOK_S = 1.0
_END_S = 20.0  # for calls that are under way when their actors are killed
_STARTS = 5  # of a node's process, before it is given up
_COLD = 0.25  # how much fuller a node may be that knows the paper


@dataclass
class Member:
    """A node that is there.

    Attributes:
        name: for people.
        state: "new" is still to be tried, as is one whose process ended; "gone" has left the cluster.
        trouble: why it is not used.
        actor: of one that works, or is tried.
        ready: what it said of itself.
        in_use: how many things it does for this driver.
        papers: content hashes of what it has worked on.
        starts: of its process, for this driver.
    """

    id: str
    name: str
    state: Literal["new", "tried", "working", "refused", "gone"] = "new"
    trouble: str = ""
    actor: Any = None
    ready: Ready | None = None
    in_use: int = 0
    papers: set[str] = field(default_factory=set)
    starts: int = 0


class Members:
    """All nodes, kept up to date while it is open. Thread-safe.

    Args:
        where: the cluster, as the user named it.
        sandbox: what boxes are made by.
        room: how much a node does at once for this driver.
        tell: is told of nodes that come and go, a line each.
    """

    def __init__(self, where: str, sandbox: str, room: int, tell: Callable[[str], None]) -> None:
        self._where = where
        self._sandbox = sandbox
        self._room = room
        self._tell = tell
        self._images: Sequence[str] = ()
        self._members: dict[str, Member] = {}
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._calls = 0  # under way, of whoever asks Ray
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="rcb-cluster")

    def open(self, images: Sequence[str]) -> None:
        """Begin to watch; returns once the first node works.

        Raises:
            SandboxUnavailable: none does.
        """
        self._images = sorted(set(images))
        self._watcher.start()
        with self._changed:
            while not self._working():
                self._refuse_if_hopeless()
                self._changed.wait()

    @contextlib.contextmanager
    def lease(self, paper: str) -> Iterator[Member]:
        """Room on a node, as soon as there is some.

        Args:
            paper: content hash of what is to be worked on.

        Raises:
            SandboxUnavailable: no node works any more.
        """
        with self._changed:
            self._refuse_if_over()
            while not (free := [m for m in self._working() if m.in_use < self._room]):
                self._refuse_if_hopeless()
                self._changed.wait()
            member = min(
                free, key=lambda m: m.in_use / self._room + _COLD * (paper not in m.papers)
            )
            member.in_use += 1
            member.papers.add(paper)
            self._calls += 1
        try:
            yield member
        finally:
            with self._changed:
                member.in_use -= 1
                self._calls -= 1
                self._changed.notify()  # there is room for one more
                if self._over.is_set():
                    self._changed.notify_all()

    def lost(self, member: Member) -> None:
        """Take note that a node's process is gone."""
        with self._changed:
            if member.state == "working" and not self._over.is_set():
                member.state, member.actor = "new", None
                member.papers.clear()
                self._tell(
                    f"node {member.name}: its process ended; its work is done again elsewhere"
                )

    def describe(self) -> dict[str, Any]:
        """What a run records: the nodes that are used, and the boxes of each."""
        with self._changed:
            nodes = {one.name: dict(one.ready.boxes) for one in self._working() if one.ready}
        return {"name": "cluster", "nodes": nodes}

    def close(self) -> None:
        """End what the nodes do for this driver, and their boxes. Idempotent."""
        if self._over.is_set():
            return
        with self._changed:
            self._over.set()
            actors = [one.actor for one in self._members.values() if one.actor is not None]
            self._changed.notify_all()
        with contextlib.suppress(Exception):
            ray.wait([one.close.remote() for one in actors], num_returns=len(actors), timeout=10)
        for one in actors:
            with contextlib.suppress(Exception):
                ray.kill(one)
        with self._changed:
            self._changed.wait_for(lambda: self._calls == 0, timeout=_END_S)

    # --- inside -------------------------------------------------------------------------------

    def _working(self) -> list[Member]:
        return [member for member in self._members.values() if member.state == "working"]

    def _refuse_if_hopeless(self) -> None:
        if self._failure is not None:
            raise SandboxUnavailable(f"the cluster {self._where} does not answer: {self._failure}")
        self._refuse_if_over()
        there = [member for member in self._members.values() if member.state != "gone"]
        if self._members and all(member.state == "refused" for member in there):
            raise unavailable({member.name: member.trouble for member in there}, self._where)

    def _refuse_if_over(self) -> None:
        if self._over.is_set():
            raise SandboxUnavailable("the run is over")

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """While Ray is asked by a thread of ours."""
        with self._changed:
            self._refuse_if_over()
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def _watch(self) -> None:
        with contextlib.suppress(SandboxUnavailable):  # it is over
            while self._failure is None:
                self._look()
                self._over.wait(_LOOK_S)

    def _look(self) -> None:
        """See who is there now."""
        with self._call():
            try:
                nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
            except Exception as error:  # noqa: BLE001 - told to whoever waits
                self._failure = error
                return
        with self._changed:
            self._take(nodes)

    def _take(self, nodes: dict[str, Any]) -> None:
        """Take note of who is there now."""
        for id, member in self._members.items():
            if member.state != "gone" and id not in nodes:
                member.state, member.actor = "gone", None
                self._tell(f"node {member.name}: it left the cluster")
                self._changed.notify_all()  # it may have been the last one
        for id, node in nodes.items():
            member = self._members.setdefault(id, Member(id, _name(node)))
            if member.state == "new":
                member.state = "tried"
                member.starts += 1
                threading.Thread(target=self._admit, args=(member, node), daemon=True).start()

    def _admit(self, member: Member, node: dict[str, Any]) -> None:
        with contextlib.suppress(SandboxUnavailable), self._call():  # it is over
            self._try(member, node)

    def _try(self, member: Member, node: dict[str, Any]) -> None:
        """Start a node's actor, and find out whether it can be used."""
        ready, trouble, ended = None, "", False
        try:
            started = actor(node, self._sandbox)
            with self._changed:
                self._refuse_if_over()
                member.actor = started
            # Not as a runtime environment: Ray writes these to its logs.
            started.equip.options(concurrency_group="ask").remote(keys())
            ready = ray.get(started.ready.options(concurrency_group="ask").remote(self._images))
            trouble = Software.here(self._images).differs_from(ready.software) or ready.trouble
        except LOST as error:
            ended = True
            if member.starts >= _STARTS:
                trouble = f"its process ended {member.starts} times: {_line(error)}"
        except Exception as error:  # noqa: BLE001 - of this node only
            trouble = _line(error)
        with self._changed:
            if member.state != "tried" or self._over.is_set():
                return  # it left meanwhile
            member.ready, member.trouble = ready, trouble
            if trouble:
                member.state, member.actor = "refused", None
                self._tell(f"node {member.name} is not used: {trouble}")
            elif ended:
                member.state, member.actor = "new", None
            else:
                member.state = "working"
            self._changed.notify_all()


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeName']} ({node['NodeID'][:8]})"


def _line(error: BaseException) -> str:
    text = str(getattr(error, "cause", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
