"""A grader whose boxes are those of nodes; what it answers is what theirs answers.

`ClusterGrader` spreads gradings over a cluster that it opened (`rcb grade|check --cluster`). `NodeGrader` is for an
environment inside somebody else's Ray actor (`sandbox="ray"`): it grades in the boxes of its own node, and on another node
while these are all in use.
Guarantees: a node that is lost costs a second try elsewhere; a grading that no node gives is `BoxDied`, or infra_error.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import ray

from rcb_env.cluster.members import LOST, Members
from rcb_env.cluster.node import Busy, Query, Software, actor
from rcb_env.cluster.papers import Sender
from rcb_env.dataset.papers import Challenge
from rcb_env.errors import BoxDied, SandboxUnavailable
from rcb_env.grading.evidence import Decision
from rcb_env.grading.grader import Grader, Output, Verdict
from rcb_env.grading.split import SuiteTests
from rcb_env.grading.worth import Worth

_TRIES = 3  # of one query, each on a node that lives


class _Elsewhere(Grader):
    """A grader without boxes: whoever derives from it says who answers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._papers = Sender()

    def _answer(self, challenge: Challenge, query: Callable[[], Query]) -> Any:
        """What somebody answers; the query is made, and its paper sent, once it is known who."""
        raise NotImplementedError

    def _ask(self, method: str, challenge: Challenge, **options: object) -> Any:
        def query() -> Query:
            paper = self._papers.paper(challenge)
            return Query(method, paper, challenge.id, options, self._settings)

        return self._answer(challenge, query)

    def grade(self, challenge: Challenge, code: str, *, final: bool) -> Verdict:
        """As a `Grader` does."""
        try:
            verdict: Verdict = self._ask("grade", challenge, code=code, final=final)
        except BoxDied as error:
            return Verdict("infra_error", message=str(error).split("\n")[0])
        return verdict

    def worth(self, challenge: Challenge, *, faults: bool = False) -> Worth:
        """As a `Grader` does."""
        worth: Worth = self._ask("worth", challenge, faults=faults)
        return worth

    def outputs(self, challenge: Challenge, *, final: bool) -> tuple[Output, ...]:
        """As a `Grader` does."""
        outputs: tuple[Output, ...] = self._ask("outputs", challenge, final=final)
        return outputs

    def decision(self, challenge: Challenge) -> Decision:
        """As a `Grader` does."""
        decision: Decision = self._ask("decision", challenge)
        return decision

    def suite_tests(self, challenge: Challenge) -> SuiteTests:
        """As a `Grader` does."""
        tests: SuiteTests = self._ask("suite_tests", challenge)
        return tests


class ClusterGrader(_Elsewhere):
    """Grades on all nodes of a cluster. Thread-safe.

    Args:
        where: the cluster, as the user named it.
        sandbox: what boxes are made by.
        workers: how many gradings are made at once on each node.
        tell: is told of nodes that come and go, a line each.
        settings: of the boxes, as `Grader` takes them.
    """

    def __init__(
        self,
        where: str,
        sandbox: str,
        workers: int,
        tell: Callable[[str], None],
        *,
        members: Members | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(settings)
        self._own = members is None
        self._members = members or Members(where, sandbox, workers, tell)
        self._opened = members is not None

    @property
    def sandbox(self) -> str:
        """What stands for the cluster."""
        return "cluster"

    def like(self, **settings: Any) -> Grader:
        """Another one on the same nodes, whose boxes have other settings."""
        both = {**self._settings, **settings}
        return ClusterGrader("", "", 0, _say_nothing, members=self._members, **both)

    def ready(self, images: Iterable[str]) -> None:
        """Return once a node can run code."""
        if not self._opened:
            self._opened = True
            self._members.open(sorted(set(images)))

    def describe(self, images: Iterable[str]) -> dict[str, Any]:  # noqa: ARG002 - known since `ready`
        """The nodes, and the boxes of each."""
        return self._members.describe()

    def close(self) -> None:
        """End every box. Idempotent."""
        if self._own:
            self._members.close()

    def _answer(self, challenge: Challenge, query: Callable[[], Query]) -> Any:
        lost: BaseException | None = None
        for _ in range(_TRIES):
            with self._members.lease(challenge.paper.content_hash) as member:
                try:
                    return _get(member.actor, query())
                except LOST as error:
                    self._members.lost(member)
                    lost = error
        raise BoxDied(f"{_TRIES} nodes were lost: {lost}")


class NodeGrader(_Elsewhere):
    """Grades in the boxes of the node that this process is on. Thread-safe.

    Args:
        workers: nothing: a node has the boxes it has room for.

    Raises:
        SandboxUnavailable: this process belongs to no cluster, or this node cannot run code.
    """

    def __init__(self, *, workers: int = 1) -> None:  # noqa: ARG002 - as graders are made
        super().__init__({})
        self._lock = threading.Lock()
        self._join()

    @property
    def sandbox(self) -> str:
        """As it is asked for."""
        return "ray"

    def like(self, **settings: Any) -> Grader:
        """Another one on the same node, whose boxes have other settings."""
        other = NodeGrader()
        other._settings = {**self._settings, **settings}
        return other

    def ready(self, images: Iterable[str]) -> None:
        """Return once this node can run code."""
        self._stay()
        self._actor(self._home, sorted(set(images)))

    def describe(self, images: Iterable[str]) -> dict[str, Any]:
        """What this node says."""
        self._stay()
        names = sorted(set(images))
        told = ray.get(
            self._actor(self._home, names).ready.options(concurrency_group="ask").remote(names)
        )
        return {"name": "ray", "node": dict(told.boxes)}

    def close(self) -> None:
        """Nothing: the boxes are the node's, and others use them."""

    def _answer(self, challenge: Challenge, query: Callable[[], Query]) -> Any:
        self._stay()
        self._actor(self._home, [challenge.paper.image])
        asked = query()
        lost: BaseException | None = None
        for _ in range(_TRIES):
            try:
                answer = _get(self._actors[self._home], replace(asked, wait=False))
                return self._spilt(asked) if isinstance(answer, Busy) else answer
            except LOST as error:
                lost = error
                self._actors[self._home] = actor(_node(self._home), "auto")
        raise BoxDied(f"the boxes of this node were lost {_TRIES} times: {lost}")

    def _join(self) -> None:
        """Belong to the cluster of this process, and know nothing yet of its nodes.

        Raises:
            SandboxUnavailable: there is none.
        """
        if not ray.is_initialized():
            raise SandboxUnavailable(
                'sandbox="ray" needs a process of a Ray cluster', fix="call ray.init() first"
            )
        self._place = _place()
        _, self._home = self._place
        self._papers = Sender()
        self._actors: dict[str, Any] = {}
        self._checked: set[str] = set()

    def _stay(self) -> None:
        """Join anew where the process has left the cluster since; its environments share this grader.

        Raises:
            SandboxUnavailable: it belongs to none.
        """
        with self._lock:
            if not ray.is_initialized() or _place() != self._place:
                self._join()

    def _spilt(self, query: Query) -> Any:
        """The answer of the first node with a free box; of this one when it has one again, if there is none."""
        for node in ray.nodes():
            if not node["Alive"] or node["NodeID"] == self._home:
                continue
            with contextlib.suppress(*LOST, SandboxUnavailable):
                other = self._actor(node["NodeID"], [])
                answer = _get(other, replace(query, wait=False))
                if not isinstance(answer, Busy):
                    return answer
        return _get(self._actors[self._home], query)

    def _actor(self, id: str, images: list[str]) -> Any:
        """The actor of a node, which can make boxes of these images.

        Raises:
            SandboxUnavailable: it cannot.
        """
        if id not in self._actors:
            self._actors[id] = actor(_node(id), "auto")
        new = [image for image in images if f"{id} {image}" not in self._checked]
        if new:
            ready = ray.get(self._actors[id].ready.options(concurrency_group="ask").remote(new))
            if why := Software.here(new).differs_from(ready.software) or ready.trouble:
                raise SandboxUnavailable(f"this node cannot run code: {why}")
            self._checked |= {f"{id} {image}" for image in new}
        return self._actors[id]


def _say_nothing(_line: str) -> None:
    pass


def _get(handle: Any, query: Query) -> Any:
    """The answer of a node.

    Raises:
        RcbError: as the grader there raises it.
    """
    try:
        return ray.get(handle.ask.options(concurrency_group="ask").remote(query))
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None


def _place() -> tuple[str, str]:
    """Job and node of this process."""
    context = ray.get_runtime_context()
    return context.get_job_id(), context.get_node_id()


def _node(id: str) -> dict[str, Any]:
    for node in ray.nodes():
        if node["NodeID"] == id and node["Alive"]:
            return dict(node)
    raise SandboxUnavailable(f"the node {id[:8]} has left the cluster")
