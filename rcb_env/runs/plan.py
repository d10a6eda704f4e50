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
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rcb_env import sandbox as sandboxes
from rcb_env.dataset.loading import NAMES, load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.errors import StoreError, UsageError, unknown
from rcb_env.play.agent import PROTOCOLS, ModelSettings, PaperShown, PromptProtocol
from rcb_env.play.episode import Budgets
from rcb_env.play.extraction import EXTRACTORS, Extractor
from rcb_env.play.registry import agent_label, agent_settings, make_agent
from rcb_env.runs.store import EpisodeKey, RunStore, digest

_PACKAGES = ("rcb-env", "gymnasium", "numpy", "openai")
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
    paper: PaperShown = "full"
    """How much of the paper the agent is shown: "full", "sections" (of prompts) or "none"."""
    with_hint: bool = True
    """Whether it is shown the short phrase that says what is missing."""
    with_context: bool = True
    """Whether it is shown the files beside the region's."""
    feedback: str = "messages"
    """What run_tests reveals: outcome, counts, names, messages, or full."""
    extractor: Extractor = "robust"
    """By which rule code is found in replies: ours, or the public benchmark's."""
    protocol: PromptProtocol = "own"
    """Whose prompt is used for a missing piece of code: ours, or the public benchmark's."""
    max_steps: int = 50
    max_test_runs: int = 10
    budgets: Budgets = field(default_factory=Budgets)
    """Tokens, cost and wall time of each episode."""
    run_tokens: int | None = None
    """Most tokens that all episodes together may use; None: no limit."""
    run_cost_usd: float | None = None
    """Most that all episodes together may cost; None: no limit."""
    sandbox: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot be run.

        Raises:
            UsageError: a number is too small.
        """
        for name, least in (("samples", 1), ("workers", 1), ("max_steps", 1), ("max_test_runs", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("run_tokens", "run_cost_usd"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"the budget {name} is {limit}; it must be more than 0")
        for name, value, known in (
            ("extractor", self.extractor, EXTRACTORS),
            ("protocol", self.protocol, PROTOCOLS),
            ("part of the paper", self.paper, typing.get_args(PaperShown)),
        ):
            if value not in known:
                raise unknown(name, value, known, where="rcb run --help")

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
            "paper": self.paper,
            "with_hint": self.with_hint,
            "with_context": self.with_context,
            "feedback": self.feedback,
            **self._official(),
            "max_steps": self.max_steps,
            "max_test_runs": self.max_test_runs,
            "budgets": dict(self.budgets.__dict__),
        }

    def _official(self) -> dict[str, str]:
        """Choices off by default; recorded when made, so that older runs can still be resumed."""
        chosen = {"extractor": (self.extractor, "robust"), "protocol": (self.protocol, "own")}
        return {name: value for name, (value, usual) in chosen.items() if value != usual}

    def conditions(self) -> dict[str, Any]:
        """What may change from one session of a run to the next."""
        model = self.model.to_dict() if self.model else {}
        return {
            "workers": self.workers,
            "sandbox": self.sandbox,
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
    model = config.get("model") or {}
    settings = digest({k: v for k, v in config.items() if k not in ("agent", "model", "samples")})
    return [
        Job(
            challenge=challenge,
            sample=sample,
            seed=episode_seed(seed, challenge.id, sample),
            key=EpisodeKey(
                paper=challenge.paper.id,
                file=challenge.file,
                region=challenge.id,
                sample=sample,
                agent=str(config["agent"]),
                model=str(model.get("name", "")),
                settings=digest([settings, model]),
            ),
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
            "source": source if source in NAMES else str(Path(source).absolute()),
            "content_hash": dataset.content_hash,
        },
        "plan": [
            {
                "challenge": challenge.id,
                "paper": challenge.paper.id,
                "file": challenge.file,
                "lines": challenge.lines,
                "own_lines": own[challenge.id],
                "content_hash": challenge.content_hash,
                "samples": samples[challenge.id],
            }
            for challenge in challenges.values()
        ],
        **more,
    }


def own_lines(challenges: Sequence[Challenge]) -> dict[str, int]:
    """Lines of code of each region that lie in no region nested in it, by challenge id.

    They depend on the file alone, never on which of its challenges are selected.
    """
    result = {}
    for challenge in challenges:
        # A challenge's region names its parent by index among the file's regions, in order.
        siblings = [c for c in challenge.paper.challenges if c.file == challenge.file]
        index = [c.id for c in siblings].index(challenge.id)
        nested = sum(c.lines for c in siblings if c.region.parent == index)
        result[challenge.id] = challenge.lines - nested
    return result


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
    return dataset, [(c, sample) for c in selected for sample in range(config.samples)]


def open_run(
    config: RunConfig, folder: str | Path, *, resume: bool = False, wait_s: float = 0.0
) -> RunStore:
    """Make a run directory for a config, or take up an existing one.

    Everything a user can get wrong is checked before the folder is touched: data set, selection,
    agent, model, sandbox.

    Args:
        config: what to run.
        folder: the run directory; new or empty unless ``resume``.
        resume: continue a run made with the same config; if the folder holds none yet, start it.
        wait_s: how long another process may still be writing there.

    Raises:
        UsageError: a name or value is wrong.
        AgentError: a setting of the agent is.
        SandboxUnavailable: no sandbox works here.
        StoreError: the folder cannot be written or holds another run.
    """
    from rcb_env.env.environment import FEEDBACK_LEVELS  # here: grading alone needs no Gymnasium

    folder = Path(folder)
    if config.feedback not in FEEDBACK_LEVELS:
        raise unknown("feedback level", config.feedback, FEEDBACK_LEVELS, where="rcb run --help")
    dataset, pairs = planned(config)
    selected = list(dict.fromkeys(challenge for challenge, _ in pairs))
    identity = config.identity(selected)
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
