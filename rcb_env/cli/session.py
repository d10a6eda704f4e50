"""What commands that make a run have in common: its sandbox, its progress, its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from rcb_env.cli.output import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from rcb_env.runs import Progress as RunProgress
    from rcb_env.runs.store import RunStore


@contextlib.contextmanager
def show_progress(title: str, opening: str) -> Iterator[Callable[[RunProgress], None]]:
    """Show how far a run is, after an opening line; yields what is to be told about each episode."""
    from rcb_env.cli.progress import Progress

    warned: set[str] = set()
    with Progress(title) as shown:

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
            if last is not None:
                for text in filter(
                    lambda text: text not in warned, dict.fromkeys(progress.warnings)
                ):
                    shown.note(f"warning: {text} (first of {last.challenge} sample {last.sample})")
                warned.update(progress.warnings)
            states = ", ".join(f"{count} {state}" for state, count in progress.states.items())
            shown.update(states, progress.finished, progress.planned, _now(progress))

        yield tell


def _now(progress: RunProgress) -> str:
    """The episode that has been in play longest, and what it waits for; "" for none."""
    if not progress.playing:
        return ""
    one, others = progress.playing[0], len(progress.playing) - 1
    more = f" (and {others} more)" if others else ""
    return f"{one.challenge} waits {one.elapsed_s:.0f} s for {one.waits_for}{more}"


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
