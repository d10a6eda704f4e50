"""Matched arms: several agents, each with a run of its own, on equal terms.

Guarantees: all arms have the same challenges, samples, seeds, budgets and model; only the agent
differs, or how much of the paper it is shown (``tools@paper=none``), so `rcb_env.report.comparison`
finds nothing else to warn about. Every run directory is
made before the first episode is played: a mistake in the last arm costs nothing, and a run that is
stopped anywhere can be resumed from its folder alone.
Not covered: equal use of a budget. Two arms that may use the same number of tokens use as many as
they like; the comparison shows what they took.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

from rcb_env.env.settings import PaperShown
from rcb_env.errors import UsageError
from rcb_env.play.registry import agent_label, make_agent, takes_model
from rcb_env.runs.folders import arms_of, create_arms
from rcb_env.runs.plan import RunConfig, open_run
from rcb_env.runs.store import RunStore

_PAPER = "@paper="  # in an arm, before how much of the paper it is shown
_WHOLE = "command:"  # an arm that begins so holds commas and equal signs of its own


def split_arms(values: Sequence[str]) -> list[str]:
    """The agents in what was written: ``"a,b:x=1,y=2,c"`` is a, b:x=1,y=2, and c.

    A comma begins a new arm unless what follows is another setting, ``name=value`` without a colon
    or an @ before its equal sign. A value that begins with ``command:`` is one arm.

    Raises:
        UsageError: there is nothing, or a setting comes before any agent.
    """
    arms: list[str] = []
    for value in values:
        if value.lstrip().startswith(_WHOLE):
            arms.append(value.strip())
            continue
        fresh = True  # a setting belongs to an agent of the same value
        for part in filter(None, map(str.strip, value.split(","))):
            if "=" in part and not {":", "@"}.intersection(part.partition("=")[0]):
                if fresh:
                    raise UsageError(f"{part!r} is a setting of which arm? Write AGENT:{part}")
                arms[-1] += ("," if ":" in arms[-1] else ":") + part
            else:
                arms.append(part)
            fresh = False
    if not arms:
        raise UsageError("--arms names no agent; `rcb list agents` lists them")
    return arms


def arm_configs(base: RunConfig, agents: Sequence[str]) -> dict[str, RunConfig]:
    """One config for each arm, by the name of its run directory.

    Args:
        base: everything but the agent.
        agents: as `make_agent` reads them; ``@paper=none`` behind one says how much of the paper it is shown.

    Raises:
        UsageError: an agent is unknown, there twice, or the model suits none of them; or the paper cannot be shown so.
        AgentError: a setting of one is wrong.
    """
    configs: dict[str, RunConfig] = {}
    labels: dict[str, str] = {}
    for arm in agents:
        agent, paper = _with_paper(arm)
        model = base.model if takes_model(agent) else None
        agent = agent_label(make_agent(agent, model=model.name if model else None))
        config = replace(
            base,
            agent=agent,
            model=model,
            shown=replace(base.shown, paper=paper or base.shown.paper),
        )
        label = _label(config, agents)
        if label in labels:
            raise UsageError(f"the arm {label} is there twice; give one of them other settings")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-.")[:60] or "arm"
        while name in configs:
            name += "-2"
        labels[label] = name
        configs[name] = config
    if base.model is not None and all(config.model is None for config in configs.values()):
        raise UsageError(f"no arm takes a model: leave out --model {base.model.name}")
    return configs


def _with_paper(arm: str) -> tuple[str, PaperShown | None]:
    """An arm's agent, and how much of the paper it is shown; None: what the run says.

    Raises:
        UsageError: a paper cannot be shown so.
    """
    agent, found, paper = arm.rpartition(_PAPER)
    if not found:
        return arm, None
    for known in get_args(PaperShown):
        if paper == known:
            return agent, known
    raise UsageError(f"{arm}: {_PAPER}{paper} is none of {', '.join(get_args(PaperShown))}")


def _label(config: RunConfig, arms: Sequence[str]) -> str:
    """An arm in full: with its paper where any of the arms names one, so that a resumed run needs no other setting."""
    named = any(_PAPER in arm for arm in arms)
    return f"{config.agent}{_PAPER}{config.shown.paper}" if named else config.agent


@contextmanager
def open_arms(
    base: RunConfig, agents: Sequence[str], folder: Path, *, resume: bool = False
) -> Iterator[Mapping[str, tuple[RunConfig, RunStore]]]:
    """Make the run directories of some arms below a folder, or take them up again.

    Args:
        base: everything but the agent; its ``agent`` is not used.
        agents: the arms; when resuming, they may be left out.
        folder: new or empty, unless ``resume``.
        resume: go on with arms that are there.

    Yields:
        Config and open store of each arm, by name, in order.

    Raises:
        UsageError, AgentError, SandboxUnavailable, StoreError: as `open_run`; or the arms that are
            there are others.
    """
    there = arms_of(folder) if resume else {}
    agents = agents or list(there.values())
    configs = arm_configs(base, agents)
    if there and list(there) != list(configs):
        raise UsageError(
            f"{folder} was made with the arms {', '.join(there.values())};"
            " resume it with the same ones, or choose another --out"
        )
    if not there:
        create_arms(folder, {name: _label(config, agents) for name, config in configs.items()})
    opened: dict[str, tuple[RunConfig, RunStore]] = {}
    try:
        for name, config in configs.items():
            opened[name] = (config, open_run(config, folder / name, resume=resume))
        yield opened
    finally:
        for _, store in opened.values():
            store.close()
