"""What commands that make a run have in common: its sandbox, its progress, its end."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from rcb_env.cli.output import echo
from rcb_env.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rcb_env.cli.progress import Look
    from rcb_env.grading.grader import Grader
    from rcb_env.play.agent import Usage
    from rcb_env.play.record import Episode
    from rcb_env.runs import Progress as RunProgress
    from rcb_env.runs import RunConfig
    from rcb_env.runs.playing import Place
    from rcb_env.runs.store import RunStore


@contextlib.contextmanager
def show_progress(
    title: str, opening: str, *, verbose: bool = False, agent: str | None = None
) -> Iterator[Callable[[RunProgress], None]]:
    """Show how far a run is, after an opening line.

    Args:
        title: what is done.
        opening: what is to be said before.
        verbose: also print a line for each episode.
        agent: the spec of who plays; None: nobody does.

    Yields:
        What is to be told about each episode.
    """
    from rcb_env.cli.progress import Progress
    from rcb_env.play.registry import uses_terminal

    warned: set[str] = set()
    with Progress(title, live=not (agent and uses_terminal(agent))) as shown:

        def tell(progress: RunProgress) -> None:
            last = progress.last
            first = last is None and not progress.between
            if first:
                shown.note(opening)
            if first and progress.resumed:
                shown.note(f"{progress.resumed} of {progress.planned} episodes are there already")
            if first and progress.finished < progress.planned:
                shown.note("starting the boxes ...")  # silent for long, where nothing is cached
            if last is not None and last.status == "infra_error":
                whose, again = "", "trying again"
                if last.end_reason == "agent_error":
                    whose, again = "the agent's own error: ", "it gets one more attempt"
                again = f"; {again}" if progress.retrying else ""
                shown.note(f"{last.challenge} sample {last.sample}: {whose}{last.error}{again}")
            elif last is not None and verbose:
                shown.note(_ended(last))
            if last is not None:
                for text in filter(
                    lambda text: text not in warned, dict.fromkeys(progress.warnings)
                ):
                    shown.note(f"warning: {text} (first of {last.challenge} sample {last.sample})")
                warned.update(progress.warnings)
            shown.show(progress.finished, progress.planned, lambda: _look(progress))

        yield tell


def _look(progress: RunProgress) -> Look:
    """What is to be seen of a run that goes on."""
    from rcb_env.cli.progress import Look

    facts = (_rate(tuple(progress.papers.values())), _used(progress.usage))
    return Look(
        status=", ".join(f"{count} {state}" for state, count in progress.states.items()),
        facts=tuple(filter(None, facts)),
        now=_now(progress),
        rows=tuple(
            (
                f"worker {each.worker + 1}",
                each.challenge,
                f"{each.elapsed_s:.0f} s, {counted(each.steps, 'step')}, waits for {each.waits_for}",
            )
            for each in sorted(progress.playing, key=lambda each: each.worker)
        ),
    )


def _now(progress: RunProgress) -> str:
    """The episode that has been in play longest, and what it waits for; "" for none."""
    if not progress.playing:
        return ""
    one, others = progress.playing[0], len(progress.playing) - 1
    more = f" (and {others} more)" if others else ""
    return f"{one.challenge} waits {one.elapsed_s:.0f} s for {one.waits_for}{more}"


@functools.lru_cache(maxsize=1)  # it takes milliseconds
def _rate(papers: tuple[tuple[int, int], ...]) -> str:
    """The pass rate of the episodes so far, with its interval as in reports; "" before the first.

    Args:
        papers: how many passed, and how many have a verdict, of each.
    """
    if not papers:
        return ""
    import numpy as np

    from rcb_env.report import intervals

    passed, judged = np.array(papers, dtype=np.float64).T
    found = intervals.of_rate(passed, judged, size=float(judged.sum()), level=0.95)
    within = f" (95 %: {found.low:.1f} to {found.high:.1f})" if found else ""
    return f"pass rate so far {100 * passed.sum() / judged.sum():.1f} %{within}"


def _used(usage: Usage | None) -> str:
    """Tokens and money so far; "" where no model was asked."""
    if usage is None or not (usage.calls or usage.tokens or usage.cost_usd is None):
        return ""
    least = "" if usage.complete else "at least "
    cost = "cost unknown" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
    return f"{least}{counted(usage.calls, 'model call')}, {usage.tokens:,} tokens, {cost}"


def _ended(episode: Episode) -> str:
    """An episode on one line."""
    used = _used(episode.usage)
    facts = [
        episode.status,
        f"{episode.wall_s:.1f} s",
        *([counted(episode.steps, "step")] if episode.steps else []),
        *([counted(episode.test_runs, "test run")] if episode.test_runs else []),
        *([used] if used else []),
    ]
    why = episode.error or str((episode.verdict or {}).get("message") or "")
    more = f": {' '.join(why.split())}" if why and not episode.passed else ""
    return f"{episode.challenge} sample {episode.sample}: {', '.join(facts)}{more}"


def finish(store: RunStore, *, quiet: bool, as_json: bool) -> None:
    """Say what came of a run.

    Args:
        store: the run.
        quiet: no table.
        as_json: the last line of stdout is the run's object; the table goes to stderr.

    Raises:
        click.exceptions.Exit: with code 1: infrastructure left no episode with a verdict.
    """
    from rcb_env.cli.results import print_tables
    from rcb_env.report.summary import summarize

    summary = summarize(store)
    if not quiet:
        print_tables([summary], brief=False, to_stderr=as_json)
        echo(f"More: rcb report {store.folder}; rcb trajectory {store.folder}", err=True)
    if as_json:
        echo(json.dumps(summary.brief()))
    if summary.score.coverage == 0:
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def played_in(
    cluster: str | None, config: RunConfig, images: Iterable[str]
) -> Iterator[tuple[RunConfig, Place | None, str]]:
    """Where episodes are played: the config with its sandbox, the place (None: here), and a line that names it.

    Args:
        cluster: what the option --cluster says.
        config: of the run.
        images: that are needed.
    """
    if cluster is None:
        sandbox, why = prepare_sandbox(config.sandbox, images)
        yield replace(config, sandbox=sandbox), None, f"sandbox: {sandbox} ({why})"
        return
    _need_ray()
    from rcb_env.cluster.connecting import connected
    from rcb_env.cluster.episodes import Cluster

    with connected(cluster), Cluster(cluster, config, _note) as place:
        yield config, place, f"cluster: {cluster}, {config.workers} at once on each node"


@contextlib.contextmanager
def graded_in(
    cluster: str | None,
    sandbox: str,
    images: Iterable[str],
    *,
    workers: int,
    run: str = "",
    judge_all: bool = False,
    official: bool = False,
) -> Iterator[tuple[Grader, int, str]]:
    """What grades, open until the end of the block; how many gradings it takes at once; a line that names where.

    Args:
        cluster: what the option --cluster says.
        sandbox: what the option --sandbox says.
        images: that are needed.
        workers: how many gradings are made at once, on each node if there are some.
        run: the name of the run they are for.
        judge_all: as `Grader` takes it.
        official: likewise.
    """
    from rcb_env.grading.grader import Grader

    if cluster is None:
        chosen, why = prepare_sandbox(sandbox, images)
        with Grader(
            chosen, workers=workers, run=run, judge_all=judge_all, official=official
        ) as grader:
            yield grader, workers, f"sandbox: {chosen} ({why})"
        return
    _need_ray()
    from rcb_env.cluster.connecting import connected
    from rcb_env.cluster.grader import ClusterGrader
    from rcb_env.cluster.members import NODES

    with (
        connected(cluster),
        ClusterGrader(
            cluster, sandbox, workers, _note, judge_all=judge_all, official=official
        ) as remote,
    ):
        remote.ready(images)
        yield remote, workers * NODES, f"cluster: {cluster}, {workers} at once on each node"


def _need_ray() -> None:
    """Refuse to work on a cluster without Ray."""
    if importlib.util.find_spec("ray") is None:
        from rcb_env.errors import UsageError

        raise UsageError("--cluster needs Ray: pip install 'rcb-env[ray]', here and on every node")


def _note(line: str) -> None:
    echo(line, err=True)


def prepare_sandbox(
    name: str, image_names: Iterable[str], *, install: bool = True
) -> tuple[str, str]:
    """The sandbox to use, and why. Called in a command with the option --sandbox.

    Args:
        name: what the option says.
        image_names: of the images that are needed.
        install: install their packages now, where they are not there; else the first box does.
    """
    from rcb_env import sandbox

    needed = sorted(set(image_names))
    chosen, why = sandbox.choose(name, needed)
    asked = click.get_current_context().get_parameter_source("sandbox")
    if name == chosen and asked is ParameterSource.DEFAULT:
        why = "as before"  # nobody names one by default: it was taken from the record
    maker = sandbox.make(chosen)
    for image in needed if install else ():
        maker.prepare(image, lambda line: echo(line, err=True))
    return chosen, why
