"""`rcb run --arms`: several agents on equal terms, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rcb_env.cli.output import console, echo


def play_arms(given: Mapping[str, Any], folder: Path | None, *, resume: bool) -> None:
    """Play or go on with the arms that the options of `rcb run` name.

    Args:
        given: the options.
        folder: where the runs go; None: a new one.
        resume: go on with what is there.

    Raises:
        RcbError: as `rcb run` does for one agent.
        click.exceptions.Exit: with code 1: infrastructure left an arm without any verdict.
    """
    from rcb_env.cli.session import prepare_sandbox, show_progress
    from rcb_env.cli.settings import run_config
    from rcb_env.runs import Interrupted, default_folder, run_experiment
    from rcb_env.runs.arms import arm_configs, open_arms, split_arms
    from rcb_env.runs.folders import arms_of
    from rcb_env.runs.plan import planned
    from rcb_env.runs.spending import RunBudgetSpent

    agents = split_arms(given["arms"]) if given["arms"] else list(arms_of(folder or "").values())
    base = replace(run_config(given), agent=agents[0])
    arm_configs(base, agents)  # what is wrong with them is said before anything is made
    images = {challenge.paper.image for challenge, _ in planned(base)[1]}
    sandbox, why = prepare_sandbox(base.sandbox, images)
    folder = folder or default_folder("arms")
    with open_arms(replace(base, sandbox=sandbox), agents, folder, resume=resume) as arms:
        echo(f"arms: {folder}", err=True)
        for config, store in arms.values():
            for problem in store.problems:
                echo(problem, err=True)
            try:
                opening = f"sandbox: {sandbox} ({why})"
                title = f"{config.agent} ({config.model.name})" if config.model else config.agent
                with show_progress(
                    title, opening, verbose=given["verbose"], agent=config.agent
                ) as tell:
                    run_experiment(config, store, progress=tell)
            except RunBudgetSpent as error:  # of this arm; the others have their own
                echo(str(error), err=True)
            except Interrupted:
                echo(f"to continue all arms: rcb run --resume {folder}", err=True)
                raise
        _finish(folder, list(arms), quiet=given["quiet"], as_json=given["as_json"])


def _finish(folder: Path, names: list[str], *, quiet: bool, as_json: bool) -> None:
    from rcb_env.report import comparison, pair_tables, tables
    from rcb_env.report.summary import summarize
    from rcb_env.runs.store import RunStore

    stores = [RunStore.open(folder / name) for name in names]
    summaries = [summarize(store) for store in stores]
    if not quiet:
        shown = console(to_stderr=as_json)
        shown.print(tables.runs_table(summaries))
        pairs = [
            comparison.compare_runs(stores[0], store, names=(names[0], name))
            for name, store in list(zip(names, stores, strict=True))[1:]
        ]
        for pair in comparison.corrected(pairs):
            pair_tables.print_comparison(shown, pair, brief=True)
        echo(f"More: rcb report {folder}; rcb compare {folder}", err=True)
    if as_json:
        runs = [summary.brief() for summary in summaries]
        echo(json.dumps({"run": str(folder), "arms": runs}))
    if any(summary.score.coverage == 0 for summary in summaries):
        raise click.exceptions.Exit(1)
