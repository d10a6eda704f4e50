"""An agent plays every planned episode."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.errors import StoreError, UsageError
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import Task
from rcb_env.play.episode import play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import make_agent
from rcb_env.runs.plan import Job, RunConfig, jobs, planned
from rcb_env.runs.spending import RunBudgetSpent, RunMeter
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.store import RunStore
from rcb_env.runs.telling import Progress
from rcb_env.runs.workers import Play, count_finished, work
from rcb_env.sandbox.machine import boxes

if TYPE_CHECKING:
    from rcb_env.env.environment import ResearchCodeEnv


def run_experiment(
    config: RunConfig,
    store: RunStore,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Play what the store has no result for: everything in a new run, the rest in a resumed one.

    Args:
        config: as it was given to `open_run`.
        store: what `open_run` returned.
        progress: called in this thread before the first and after every episode.

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
    model = config.model.name if config.model else None
    # Workers mostly wait for models; more boxes than processors would only take memory.
    meter = RunMeter(config, store)
    count = boxes(config.boxes, most=config.workers)
    with Grader(config.sandbox, workers=count, run=store.folder.name) as grader:

        def make_play() -> Play:
            agent = make_agent(config.agent, model=model)

            def play(job: Job, trajectory: Trajectory) -> Episode:
                env = environment_of(config, job, dataset, grader)
                meter.check()
                try:
                    task = replace(
                        task_of(config, job),
                        room_for_reply=meter.room_for_reply,
                        batch=_batch_of(config, store),
                        batch_only=config.batch,
                    )
                    return play_episode(env, agent, task, trajectory, on_usage=meter.spend)
                finally:
                    env.close()

            return play

        plan = jobs(pairs, identity, seed=config.seed)
        grader.ready(job.challenge.paper.image for job in plan)
        if config.model is not None:
            warm_up(grader, [job.challenge for job in plan], count)
        try:
            work(
                plan,
                make_play,
                store=store,
                grader=grader,
                workers=config.workers,
                progress=progress,
                usage=lambda: meter.usage,
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
