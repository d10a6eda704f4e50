"""Where a run's episodes are played when that is a cluster: whole, each on one node; what comes of them goes back.

Guarantees: the driver alone writes the run's folder, in the same way as for episodes of its own. Limits of the whole run
hold over all nodes. An episode whose node is lost ends as infrastructure, and so is played once more elsewhere.
Not covered: batches, whose replies lie beside the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import ray

from rcb_env.cluster.members import LOST, NODES, Member, Members
from rcb_env.cluster.node import Order, Played
from rcb_env.cluster.papers import Sender
from rcb_env.errors import RcbError
from rcb_env.play.agent import Usage
from rcb_env.play.record import Episode
from rcb_env.play.registry import agent_label, make_agent
from rcb_env.runs.plan import Job, RunConfig, now
from rcb_env.runs.spending import Limits, Spending
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.workers import Play


class Cluster:
    """The nodes of a cluster, as a place where episodes are played.

    Args:
        where: the cluster, as the user named it.
        config: of the run; its workers are as many on each node.
        tell: is told of nodes that come and go, a line each.
    """

    def __init__(self, where: str, config: RunConfig, tell: Callable[[str], None]) -> None:
        self.workers = config.workers * NODES
        self._model = config.model.name if config.model else None
        self._config = config
        self._label = agent_label(make_agent(config.agent, model=self._model))
        self._members = Members(where, config.sandbox, config.workers, tell)
        self._papers = Sender()
        self._ledger: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self, plan: Sequence[Job], *, label: str) -> None:  # noqa: ARG002 - boxes are of nodes
        """Return once a node can run code."""
        self._members.open([job.challenge.paper.image for job in plan])

    def shared(self, limits: Limits) -> Limits:
        """The limits as an actor that all nodes ask; without a model there is nothing to limit."""
        if self._config.model is None:
            return limits
        self._ledger = ray.remote(_Ledger).options(num_cpus=0).remote(self._config, limits.usage)
        return SharedLimits(self._ledger, limits.usage)

    def player(self, limits: Limits) -> Play:
        """What has one episode after the other played, for a worker."""
        if not isinstance(limits, SharedLimits):
            limits = Unlimited()

        def play(job: Job, trajectory: Trajectory) -> Episode:
            with self._members.lease(job.challenge.paper.content_hash) as member:
                paper = self._papers.paper(job.challenge)
                order = Order(
                    self._config, paper, job.challenge.id, job.sample, job.seed, job.key, limits
                )
                played = self._play(order, member, job)
            for kind, payload in played.records:
                trajectory.record(kind, payload)
            if played.error is not None:
                raise played.error
            assert played.episode is not None
            return played.episode

        return play

    def _play(self, order: Order, member: Member, job: Job) -> Played:
        started_at = now()
        try:
            played: Played = ray.get(
                member.actor.play.options(concurrency_group="play").remote(order)
            )
        except LOST as error:
            self._members.lost(member)
            told = f"the node {member.name} was lost: {str(error).splitlines()[0]}"
            episode = Episode.of(
                job.challenge,
                None,
                status="infra_error",
                end_reason="sandbox_error",
                code=None,
                sample=job.sample,
                seed=job.seed,
                agent=self._label,
                model=self._model or "",
                started_at=started_at,
                wall_s=0.0,
                error=told[:500],
            )
            return Played([("warning", {"text": told})], episode)
        return Played(
            [("node", {"name": member.name}), *played.records], played.episode, played.error
        )

    def describe(self, images: Iterable[str]) -> dict[str, Any]:  # noqa: ARG002 - known since `ready`
        """The nodes, and the boxes of each."""
        return self._members.describe()

    def close(self) -> None:
        """End what is in play, and all boxes. Idempotent."""
        self._members.close()


class _Ledger:
    """The actor that adds up what a run uses."""

    def __init__(self, config: RunConfig, usage: Usage) -> None:
        self._spending = Spending(config, usage)

    def ask(self, method: str, *arguments: object) -> Any:
        """What the method gives, or the error that it raises."""
        try:
            return getattr(self._spending, method)(*arguments)
        except RcbError as error:
            return error

    def usage(self) -> Usage:
        """All that was used."""
        return self._spending.usage


class SharedLimits:
    """The limits of a run, asked from anywhere in the cluster."""

    def __init__(self, ledger: Any, usage: Usage) -> None:
        self._ledger = ledger
        self._known = usage

    @property
    def usage(self) -> Usage:
        """All that was used."""
        with contextlib.suppress(*LOST):  # then what was known is
            self._known = ray.get(self._ledger.usage.remote())
        return self._known

    def spend(self, usage: Usage) -> None:
        """Count a model call."""
        self._ask("spend", usage)

    def check(self) -> None:
        """Make sure that another episode may begin."""
        self._ask("check")

    def room_for_reply(self, prompt_tokens: int) -> int | None:
        """Most tokens that the reply to a prompt may have."""
        room: int | None = self._ask("room_for_reply", prompt_tokens)
        return room

    def _ask(self, method: str, *arguments: object) -> Any:
        answer = ray.get(self._ledger.ask.remote(method, *arguments))
        if isinstance(answer, RcbError):
            raise answer
        return answer


class Unlimited:
    """No limits: no model is asked."""

    usage = Usage()

    def spend(self, usage: Usage) -> None:
        """Nothing to hold."""

    def check(self) -> None:
        """Another episode may begin."""

    def room_for_reply(self, prompt_tokens: int) -> int | None:  # noqa: ARG002 - the form of the protocol
        """Any number."""
        return None
