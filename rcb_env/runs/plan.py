"""What a run is to do: its config, its plan, and the record of both in run.json.

Guarantees: the config in run.json holds everything that shapes an episode, the content of the
challenges included, so that a run resumed with another config can be refused; what only decides
how fast or where it runs (workers, sandbox, time-outs of the model API) may change. The seed of an
episode depends on the run's seed, the challenge and the sample and on nothing else, so neither the
order of work nor the number of workers changes a result. No key of a model API is ever recorded.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rcb_env import sandbox as sandboxes
from rcb_env.dataset.loading import NAMES, load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.scopes import without_scope
from rcb_env.env.settings import Rules, Shown
from rcb_env.errors import StoreError, UsageError
from rcb_env.play.agent import ModelSettings
from rcb_env.play.registry import agent_label, agent_settings, make_agent
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import EpisodeKey, digest, keys
from rcb_env.sandbox import machine

_PACKAGES = ("rcb-env", "gymnasium", "numpy", "openai", "anthropic", "google-genai")
_HOW_ONLY = ("timeout_s", "max_retries", "max_wait_s", "cache")  # change no reply of a model


@dataclass(frozen=True)
class RunConfig:
    """Everything that `rcb run` can be told."""

    agent: str
    """Agent and settings, for instance ``repair:rounds=3``."""
    model: ModelSettings | None = None
    dataset: str = "bundled"
    """Name or folder."""
    papers: tuple[str, ...] = ()
    """Ids; empty: all."""
    challenges: tuple[str, ...] = ()
    """Ids; empty: all."""
    samples: int = 1
    """Episodes for each challenge."""
    seed: int = 0
    workers: int = 1
    """Episodes at once."""
    shown: Shown = field(default_factory=Shown)
    """What the agent is shown."""
    rules: Rules = field(default_factory=Rules)
    """By which each episode is played."""
    run_tokens: int | None = None
    """Most tokens that all episodes together may use; None: no limit."""
    run_cost_usd: float | None = None
    """Most that all episodes together may cost; None: no limit."""
    sandbox: str = "auto"
    """Where code runs."""
    boxes: int | None = None
    """How many boxes at once; None: as many as the machine gives. Never more than workers."""
    batch: bool = False
    """Whether a one-shot agent's questions are asked all at once, through the provider's batch API."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run.

        Raises:
            UsageError: a number is too small.
        """
        for name in ("samples", "workers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.boxes is not None:
            machine.boxes(self.boxes)
        for name in ("run_tokens", "run_cost_usd"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"the budget {name} is {limit}; it must be more than 0")
        if self.batch and (self.run_tokens or self.run_cost_usd):
            raise UsageError(
                "a batch sends all questions at once, so it cannot hold a limit for the whole run: leave"
                " out --run-budget-tokens and --run-budget-usd, or --batch"
            )

    def identity(self, challenges: Sequence[Challenge]) -> dict[str, Any]:
        """What must be the same for a run to be resumed, as JSON can hold it."""
        agent = make_agent(self.agent, model=self.model.name if self.model else None)
        model = self.model.to_dict() if self.model else None
        return {
            "agent": agent_label(agent),
            "agent_settings": agent_settings(agent),
            "prompts": getattr(type(agent), "prompts_version", None),
            "model": {k: v for k, v in model.items() if k not in _HOW_ONLY} if model else None,
            "challenges": challenges_digest(challenges),
            "samples": self.samples,
            "seed": self.seed,
            **self.shown.record(),
            **self.rules.record(),
        }

    def conditions(self) -> dict[str, Any]:
        """What may change from one session of a run to the next."""
        model = self.model.to_dict() if self.model else {}
        return {
            "workers": self.workers,
            "sandbox": self.sandbox,
            "boxes": self.boxes,
            "batch": self.batch,
            "run_tokens": self.run_tokens,
            "run_cost_usd": self.run_cost_usd,
            **{name: model[name] for name in _HOW_ONLY if name in model},
        }


@dataclass(frozen=True)
class Job:
    """One planned episode."""

    challenge: Challenge
    sample: int
    seed: int
    key: EpisodeKey


def episode_seed(run_seed: int, challenge: str, sample: int) -> int:
    """A seed in [0, 2^48) for one episode, independent of all others."""
    text = f"{run_seed}\0{challenge}\0{sample}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


def jobs(
    pairs: Sequence[tuple[Challenge, int]], config: Mapping[str, Any], *, seed: int = 0
) -> list[Job]:
    """The planned episodes of a config as `RunConfig.identity` gives it."""
    key = keys(config)
    return [
        Job(
            challenge=challenge,
            sample=sample,
            seed=episode_seed(seed, challenge.id, sample),
            key=key(challenge.paper.published_id, challenge.file, challenge.id, sample),
        )
        for challenge, sample in pairs
    ]


def run_record(
    config: Mapping[str, Any],
    pairs: Sequence[tuple[Challenge, int]],
    dataset: Dataset,
    source: str,
    **more: Any,
) -> dict[str, Any]:
    """What run.json holds: config, plan, hashes, versions.

    Args:
        config: what resuming compares.
        pairs: every planned (challenge, sample).
        dataset: where the challenges come from.
        source: its name or folder, as the user wrote it.
        more: further keys.
    """
    samples: dict[str, list[int]] = {}
    challenges: dict[str, Challenge] = {}
    for challenge, sample in pairs:
        challenges[challenge.id] = challenge
        samples.setdefault(challenge.id, []).append(sample)
    own = own_lines(list(challenges.values()))
    return {
        "config": dict(config),
        "created_at": now(),
        "versions": versions(),
        "dataset": {
            "name": dataset.name,
            # Absolute, so that the run can be judged again from anywhere.
            "source": source if without_scope(source) in NAMES else str(Path(source).absolute()),
            "content_hash": dataset.content_hash,
        },
        "plan": [
            {
                "challenge": challenge.id,
                "paper": challenge.paper.published_id,
                "file": challenge.file,
                "lines": challenge.lines,
                "own_lines": own[challenge.id],
                "hint_words": len(challenge.hint.split()),
                "content_hash": challenge.content_hash,
                "answer_hash": challenge.answer_hash,
                "samples": samples[challenge.id],
            }
            for challenge in challenges.values()
        ],
        # So that a report needs no data set.
        "papers": {
            id: {
                "domain": paper.domain,
                "dates": {event: day.isoformat() for event, day in paper.dates.items()},
            }
            for id, paper in {
                challenge.paper.published_id: challenge.paper for challenge in challenges.values()
            }.items()
        },
        **more,
    }


def own_lines(challenges: Sequence[Challenge]) -> dict[str, int]:
    """Lines of code of each region that lie in no other of these challenges' regions nested in it, by challenge id.

    Their sum is the number of source lines that the challenges cover, each counted once.
    """
    own = {challenge.id: challenge.lines for challenge in challenges}
    for challenge in challenges:
        if challenge.holes is not None:  # none of these lies in another one
            continue
        # A challenge's region names its parent by index among the file's regions, in order.
        regions = [c for c in challenge.paper.challenges if c.file == challenge.file]
        around = challenge.region.parent
        while around is not None and regions[around].id not in own:
            around = regions[around].region.parent
        if around is not None:
            own[regions[around].id] -= challenge.lines
    return own


def challenges_digest(challenges: Sequence[Challenge]) -> str:
    """Changes whenever a challenge's prompt or grading may change, or the selection does."""
    return digest([[challenge.id, challenge.content_hash] for challenge in challenges])


def planned(config: RunConfig) -> tuple[Dataset, list[tuple[Challenge, int]]]:
    """The data set and every planned (challenge, sample), challenge by challenge.

    Raises:
        UsageError: a name is unknown or nothing is selected.
        PaperError: a paper's folder is broken.
    """
    dataset = load_dataset(config.dataset)
    selected = dataset.select(papers=config.papers or None, challenges=config.challenges or None)
    if not selected:
        raise UsageError(f"the data set {dataset.name} holds no challenge to run")
    if config.shown.protocol == "official" and any(c.holes is not None for c in selected):
        raise UsageError(
            "the official protocol has no prompt for several regions: leave out --protocol or --scope"
        )
    return dataset, [(c, sample) for c in selected for sample in range(config.samples)]


def open_run(
    config: RunConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    wait_s: float = 0.0,
    elsewhere: bool = False,
) -> RunStore:
    """Make a run directory for a config, or take up an existing one.

    Everything a user can get wrong is checked before the folder is touched: data set, selection,
    agent, model, sandbox.

    Args:
        config: what to run.
        folder: the run directory; new or empty unless ``resume``.
        resume: continue a run made with the same config; if the folder holds none yet, start it.
        wait_s: how long another process may still be writing there.
        elsewhere: code runs on other machines, so this one needs no sandbox.

    Raises:
        UsageError: a name or value is wrong.
        AgentError: a setting of the agent is.
        SandboxUnavailable: no sandbox works here.
        StoreError: the folder cannot be written or holds another run.
    """
    folder = Path(folder)
    dataset, pairs = planned(config)
    selected = list(dict.fromkeys(challenge for challenge, _ in pairs))
    identity = config.identity(selected)
    if not elsewhere:
        sandboxes.make(config.sandbox)
    if resume and (folder / "run.json").exists():
        _check_challenges(RunStore.open(folder), selected)
        return RunStore.resume(folder, identity, wait_s=wait_s)
    return RunStore.create(
        folder,
        run_record(identity, pairs, dataset, config.dataset, conditions=config.conditions()),
    )


def _check_challenges(store: RunStore, selected: Sequence[Challenge]) -> None:
    """Refuse other challenges than those a run was made for, by their names; the config has only their digest."""
    there = {entry["challenge"]: entry["content_hash"] for entry in store.record.get("plan", ())}
    here = {challenge.id: challenge.content_hash for challenge in selected}
    differing = {
        "not in it": [id for id in here if id not in there],
        "in it, but not selected": [id for id in there if id not in here],
        "changed since": [id for id in here if there.get(id, here[id]) != here[id]],
    }
    told = [f"{what}: {_some(ids)}" for what, ids in differing.items() if ids]
    if told:
        raise StoreError(
            f"{store.folder} was made for other challenges ({'; '.join(told)});"
            " resume it without --papers and --challenges, or choose another --out"
        )


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def default_folder(label: str, root: str | Path = "runs") -> Path:
    """A new run directory's name: UTC time, then what runs; numbered if it is taken."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.")[:60] or "run"
    path, number = Path(root) / f"{stamp}-{slug}", 1
    while path.exists():
        number += 1
        path = Path(root) / f"{stamp}-{slug}-{number}"
    return path


def versions() -> dict[str, str]:
    """What the driver runs on."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return {"python": platform.python_version(), "platform": platform.platform(), **found}


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
