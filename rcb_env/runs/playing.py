"""An agent plays every planned episode."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.errors import StoreError, UsageError
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import Task
from rcb_env.play.episode import Recorder, play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import make_agent
from rcb_env.runs.plan import Job, RunConfig, jobs, planned
from rcb_env.runs.spending import Limits, RunBudgetSpent, RunMeter
from rcb_env.runs.store import RunStore
from rcb_env.runs.telling import Progress
from rcb_env.runs.workers import Play, count_finished, work
from rcb_env.sandbox.machine import boxes

if TYPE_CHECKING:
    from rcb_env.env.environment import ResearchCodeEnv


class Place(Protocol):
    """Where episodes are played: this process, or the nodes of a cluster."""

    @property
    def workers(self) -> int:
        """How many episodes may be in play at once."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def ready(self, plan: Sequence[Job], *, label: str) -> None:
        """Return once code can be run, so that nothing is paid for before.

        Args:
            plan: what is to be played.
            label: of the run, for its boxes.

        Raises:
            SandboxUnavailable: it cannot.
        """
        ...

    def shared(self, limits: Limits) -> Limits:
        """The limits of a run in a form that holds for everybody who plays here."""
        ...

    def player(self, limits: Limits) -> Play:
        """What plays one episode after the other, for a worker."""
        ...

    def describe(self, images: Iterable[str]) -> dict[str, Any]:
        """What a run records about where its code runs."""
        ...

    def close(self) -> None:
        """End what is in play. Idempotent."""
        ...


def run_experiment(
    config: RunConfig,
    store: RunStore,
    *,
    progress: Callable[[Progress], None] | None = None,
    elsewhere: Place | None = None,
) -> None:
    """Play what the store has no result for: everything in a new run, the rest in a resumed one.

    Args:
        config: as it was given to `open_run`.
        store: what `open_run` returned.
        progress: called in this thread before the first and after every episode.
        elsewhere: where episodes are played; closed at the end. None: in this process.

    Raises:
        Interrupted: SIGINT or SIGTERM came; finished episodes are stored.
        RunBudgetSpent: the whole run has used its budget, or nobody can tell; finished episodes are stored.
        ModelRefusedRequest: key, model name or URL are wrong.
        SandboxUnavailable: no sandbox works here.
        StoreError: the run directory cannot be written, or belongs to another config.
    """
    dataset, pairs = planned(config)
    identity = config.identity(list(dict.fromkeys(challenge for challenge, _ in pairs)))
    if store.record["config"]["challenges"] != identity["challenges"]:
        raise StoreError(f"{store.folder} was made for other challenges: open it with this config")
    meter = RunMeter(config, store)
    plan = jobs(pairs, identity, seed=config.seed)
    with elsewhere or Here(config, dataset, batch=_batch_of(config, store)) as place:
        place.ready(plan, label=store.folder.name)
        meter.limits = place.shared(meter.limits)
        try:
            work(
                plan,
                lambda: place.player(meter.limits),
                store=store,
                boxes=place,
                workers=place.workers,
                progress=progress,
                usage=lambda: meter.limits.usage,
            )
        except BaseException as error:
            meter.note_end()
            if not isinstance(error, RunBudgetSpent):
                raise
            raise RunBudgetSpent(
                f"{error}: {count_finished(store, plan)} of {len(plan)} episodes are in"
                f" {store.folder}; go on with --resume and {error.more}"
            ) from None


def ask_ahead(config: RunConfig, store: RunStore) -> str | None:
    """Have a one-shot agent ask all that it would ask, through the provider's batch API.

    A run that no longer wants a batch collects what earlier ones have answered, and asks in none.

    Args:
        config: as it was given to `open_run`.
        store: what `open_run` returned.

    Returns:
        What is waited for, in one line; None: every reply is there, or none is wanted. Where the config asks for a
        batch, the run can be played only then.

    Raises:
        UsageError: the agent asks more than once, or the model has no batch API.
        ModelError: the server takes no batch.
    """
    batch = _batch_of(config, store)
    if batch is None:
        return None
    agent = make_agent(config.agent, model=config.model.name if config.model else None)
    ask = getattr(agent, "ask_ahead", None)
    if ask is None:
        raise UsageError(
            f"{config.agent} asks more than once per episode, which a batch cannot do: leave out --batch, or play"
            " --agent single-shot"
        )
    _, pairs = planned(config)
    identity = config.identity(list(dict.fromkeys(challenge for challenge, _ in pairs)))
    finished = store.finished()
    waits: str | None = ask(
        [
            replace(task_of(config, job), batch=batch, batch_only=config.batch)
            for job in jobs(pairs, identity, seed=config.seed)
            if job.key.id not in finished
        ]
    )
    return waits


def _batch_of(config: RunConfig, store: RunStore) -> Path | None:
    folder = store.folder / "batch"
    return folder if config.batch or folder.exists() else None


class Player:
    """Plays planned episodes of a run, one at a time; every worker has its own.

    Args:
        config: of the run.
        dataset: which the challenges are of.
        grader: grades them.
        limits: what the run may still use.
        batch: folder of what a batch API has answered.
    """

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        grader: Grader,
        limits: Limits,
        *,
        batch: Path | None = None,
    ) -> None:
        self._config = config
        self._dataset = dataset
        self._grader = grader
        self._limits = limits
        self._batch = batch
        self._agent = make_agent(config.agent, model=config.model.name if config.model else None)

    def play(self, job: Job, recorder: Recorder) -> Episode:
        """Play one episode.

        Raises:
            RcbError: what would end every further episode too.
        """
        env = environment_of(self._config, job, self._dataset, self._grader)
        self._limits.check()
        try:
            task = replace(
                task_of(self._config, job),
                room_for_reply=self._limits.room_for_reply,
                batch=self._batch,
                batch_only=self._config.batch,
            )
            return play_episode(env, self._agent, task, recorder, on_usage=self._limits.spend)
        finally:
            env.close()


class Here:
    """This process: a place where episodes are played."""

    def __init__(self, config: RunConfig, dataset: Dataset, *, batch: Path | None) -> None:
        self.workers = config.workers
        self._config = config
        self._dataset = dataset
        self._batch = batch
        self._grader: Grader | None = None

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self, plan: Sequence[Job], *, label: str) -> None:
        """Return once a box of every image has started."""
        # Workers mostly wait for models; more boxes than processors would only take memory.
        count = boxes(self._config.boxes, most=self.workers)
        self._grader = Grader(self._config.sandbox, workers=count, run=label)
        self._grader.ready(job.challenge.paper.image for job in plan)
        if self._config.model is not None:
            warm_up(self._grader, [job.challenge for job in plan], count)

    def shared(self, limits: Limits) -> Limits:
        """The same: everybody is in this process."""
        return limits

    def player(self, limits: Limits) -> Play:
        """What plays one episode after the other, for a worker."""
        assert self._grader is not None
        player = Player(self._config, self._dataset, self._grader, limits, batch=self._batch)
        return player.play

    def describe(self, images: Iterable[str]) -> dict[str, Any]:
        """What a run records about where its code runs."""
        assert self._grader is not None
        return self._grader.describe(images)

    def close(self) -> None:
        """End every box. Idempotent."""
        if self._grader is not None:
            self._grader.close()


def environment_of(
    config: RunConfig, job: Job, dataset: Dataset, grader: Grader
) -> ResearchCodeEnv:
    """The environment in which a planned episode is played."""
    from rcb_env.env.environment import ResearchCodeEnv  # here: grading alone needs no Gymnasium

    return ResearchCodeEnv(
        job.challenge.id,
        dataset=dataset,
        grader=grader,
        shown=config.shown,
        rules=config.rules,
    )


def task_of(config: RunConfig, job: Job) -> Task:
    """What the agent of a planned episode is given."""
    return Task(
        job.challenge,
        seed=job.seed,
        sample=job.sample,
        model=config.model,
        shown=config.shown,
        rules=config.rules,
        limits_money=config.run_cost_usd is not None,
    )


def warm_up(grader: Grader, challenges: Sequence[Challenge], boxes: int) -> None:
    """Start boxes now, while the first episodes wait for their models, and not when they are needed.

    Nothing waits for it, and nothing depends on how it goes: whatever it meets, the first real
    grading meets again and tells.
    """
    native = next((one for one in challenges if one.paper.layout == "native"), None)
    if native is None:
        return  # a public folder's suite may take minutes, which would be spent for nothing

    def grade() -> None:
        with contextlib.suppress(Exception):
            grader.grade(native, native.reference, final=False)

    for number in range(boxes):
        threading.Thread(target=grade, daemon=True, name=f"rcb-warm-up-{number}").start()
