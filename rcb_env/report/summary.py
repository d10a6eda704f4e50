"""One run, read from its directory and added up.

Guarantees: states come from the plan in run.json and the line that counts for each key, so the
numbers of a run that is still going, was killed, or was resumed are those of an uninterrupted run
over the same episodes. Work done twice (retries after infrastructure failures) is counted beside
the totals, never in them. Memory does not grow with the length of episodes.
Not covered: what the numbers mean (`rcb_env.report.scoring`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rcb_env.dataset.papers import OPEN
from rcb_env.errors import StoreError
from rcb_env.report.hierarchical import Hierarchical, of_run
from rcb_env.report.open_scores import OpenScores, open_scores
from rcb_env.report.scoring import MODEL_FAILURES, Planned, Score, fill_missing, score
from rcb_env.runs.store import INFRA, RunStore

_CAUSES = 10
_ADDED_UP = (
    "challenge",
    "sample",
    "status",
    "steps",
    "test_runs",
    "wall_s",
    "usage",
    "end_reason",
)
TOKEN_FIELDS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "calls")


@dataclass
class Totals:
    """Sums over the episodes that count."""

    episodes: int = 0
    steps: int = 0
    test_runs: int = 0
    wall_s: float = 0.0
    """Time in episodes, in seconds; workers add up."""
    tokens: Counter[str] = field(default_factory=Counter)
    """By name: prompt, completion and reasoning tokens, and calls of the model."""
    cost_usd: float = 0.0
    cost_known: bool = True
    """False when nobody knows what some episode cost: the cost is then a part."""
    complete: bool = True
    """False when an agent did not report some of its calls: calls and tokens are then a part."""
    estimated: bool = False
    """Whether some token counts are estimates of ours, not the server's."""
    end_reasons: Counter[str] = field(default_factory=Counter)
    error_classes: Counter[str] = field(default_factory=Counter)
    evidence: Counter[str] = field(default_factory=Counter)
    """Of passes: what stands behind them (isolated, split, guarded, or unknown)."""

    def add(self, episode: Mapping[str, Any]) -> None:
        """Add one stored episode."""
        self.episodes += 1
        self.steps += episode.get("steps") or 0
        self.test_runs += episode.get("test_runs") or 0
        self.wall_s += episode.get("wall_s") or 0.0
        usage = episode.get("usage") or {}
        for name in TOKEN_FIELDS:
            self.tokens[name] += usage.get(name) or 0
        if usage.get("cost_usd") is not None:
            self.cost_usd += usage["cost_usd"]
        elif "cost_usd" in usage:
            self.cost_known = False
        self.complete = self.complete and not unreported(usage)
        self.estimated = self.estimated or bool(usage.get("estimated"))
        self.end_reasons[str(episode.get("end_reason") or "unknown")] += 1
        error_class = (episode.get("verdict") or {}).get("error_class")
        if error_class and episode.get("status") == "failed":  # a limit is a state of its own
            self.error_classes[str(error_class)] += 1
        if episode.get("status") == "passed":
            evidence = (episode.get("verdict") or {}).get("evidence")
            self.evidence[str(evidence or "unknown")] += 1

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it (`dataclasses.asdict` would count the pairs of a counter); what nobody knows is null."""
        made = {k: dict(v) if isinstance(v, Counter) else v for k, v in vars(self).items()}
        if not (self.complete or any(self.tokens.values())):
            made["tokens"] = None
        return made if self.cost_usd or self.cost_known else {**made, "cost_usd": None}


def unreported(usage: Mapping[str, Any]) -> bool:
    """Whether an agent kept some of its model calls to itself, so that counts are a part of what it used."""
    silent = not usage.get("calls") and usage.get("cost_usd", 0.0) is None
    return silent or usage.get("complete") is False


@dataclass(frozen=True)
class RunSummary:
    """Everything a report says about a run."""

    folder: Path
    agent: str
    model: str
    """"" for an agent without a model."""
    record: Mapping[str, Any]
    """run.json."""
    score: Score
    not_solved: Mapping[str, Mapping[str, int]]
    """State -> challenge -> how many of its samples ended so; of states that are an answer and no success."""
    totals: Totals
    repeated: Totals
    """Attempts that infrastructure ended and that were tried again."""
    retried_episodes: int
    """Episodes that took more than one attempt, killed ones included."""
    infra_causes: tuple[str, ...]
    """Distinct causes of the infrastructure failures that still count, at most ten."""
    agent_errors: tuple[str, ...]
    """Distinct errors of the agent itself among what still counts as such a failure, at most ten."""
    problems: tuple[str, ...]
    """Damage found in the directory, one line each."""
    open_scores: OpenScores | None = None
    """Of open challenges."""
    hierarchical: Hierarchical | None = None
    """Of the pass rate, where it was asked for."""

    @property
    def proven_pass_rate(self) -> float | None:
        """Percent of the planned pairs that passed where the answer was not.

        None where nobody recorded where that was, or nothing has finished.
        """
        if self.totals.evidence["unknown"] or self.score.pass_rate.value is None:
            return None
        proven = self.totals.evidence["isolated"] + self.totals.evidence["split"]
        return 100.0 * proven / self.score.planned

    @property
    def label(self) -> str:
        """Agent and model in one short text; and how much of the paper was shown, where that is not all of it."""
        name = f"{self.agent} ({self.model})" if self.model else self.agent
        paper = self.record.get("config", {}).get("paper", "full")
        return name if paper == "full" else f"{name}, paper: {paper}"

    def brief(self) -> dict[str, object]:
        """The object that ``--json`` prints as its last line: rates are null where nothing has finished."""
        rates = {
            "pass_rate": self.score.pass_rate,
            "scaled_pass_rate": self.score.scaled_pass_rate,
        }
        bounds = {
            f"{name}_bounds": [rate.low, rate.high] if rate else None
            for name, rate in rates.items()
        }
        return {
            "run": str(self.folder),
            "planned": self.score.planned,
            "states": dict(self.score.states),
            **{name: rate.value if rate else None for name, rate in rates.items()},
            "proven_pass_rate": self.proven_pass_rate,
            **bounds,
            **({"score": self.open_scores.mean} if self.open_scores else {}),
        }

    def full(self) -> dict[str, object]:
        """Everything as JSON can hold it; the keys of `brief` are among its keys."""
        result = asdict(self.score)
        # A rate is a number under its own name and explained under "rates", so that scripts which
        # read `brief` read this too.
        rates = {
            name: result.pop(name) for name in ("pass_rate", "scaled_pass_rate", "nested_corrected")
        }
        result["samples"] = {str(n): count for n, count in self.score.samples.items()}
        return {
            **result,
            **self.brief(),
            "agent": self.agent,
            "model": self.model,
            "rates": rates,
            "not_solved": {state: dict(names) for state, names in self.not_solved.items()},
            "totals": self.totals.to_dict(),
            "repeated": self.repeated.to_dict(),
            "retried_episodes": self.retried_episodes,
            "infra_causes": list(self.infra_causes),
            "agent_errors": list(self.agent_errors),
            "problems": list(self.problems),
            **({"open_scores": self.open_scores.to_dict()} if self.open_scores else {}),
            **({"hierarchical": asdict(self.hierarchical)} if self.hierarchical else {}),
            "config": self.record.get("config", {}),
        }


def summarize(store: RunStore, *, hierarchical: bool = False) -> RunSummary:
    """Add up a run.

    Args:
        store: a run open for reading or writing.
        hierarchical: also fit a hierarchical estimate, which needs statsmodels.

    Raises:
        UsageError: statsmodels is missing.
        StoreError: the run has no plan, or holds episodes that are not in it.
    """
    counting: dict[str, dict[str, Any]] = {}
    attempts: dict[str, int] = {}
    repeated = Totals()
    for line in store.lines():  # one pass, of which only a few fields stay in memory
        key = line["key"]
        attempts[key] = max(attempts.get(key, 0), int(line.get("attempt") or 1))
        if key in counting:
            repeated.add(counting[key])
        counting[key] = _essence(line["episode"])
    totals = Totals()
    causes: dict[str, None] = {}
    agent_errors: dict[str, None] = {}
    for episode in counting.values():
        totals.add(episode)
        if episode["status"] == INFRA:
            its_own = episode["end_reason"] == "agent_error"
            (agent_errors if its_own else causes)[episode["cause"]] = None
    statuses = {(e["challenge"], e["sample"]): e["status"] for e in counting.values()}
    config = store.record.get("config", {})
    model = config.get("model") or ""
    try:
        outcomes = fill_missing(plan_of(store), statuses)
        result = score(outcomes)
    except ValueError as error:
        raise StoreError(f"{store.folder}: {error}") from error
    return RunSummary(
        folder=store.folder,
        agent=str(config.get("agent", "")),
        model=str(model.get("name", "") if isinstance(model, dict) else model),
        record=store.record,
        score=result,
        not_solved=_not_solved(outcomes),
        totals=totals,
        repeated=repeated,
        retried_episodes=sum(count > 1 for count in attempts.values()),
        infra_causes=tuple(causes)[:_CAUSES],
        agent_errors=tuple(agent_errors)[:_CAUSES],
        problems=tuple(store.problems),
        open_scores=open_scores(store) if _has_open(store) else None,
        hierarchical=of_run(outcomes)
        if hierarchical and result.pass_rate.value is not None
        else None,
    )


def _has_open(store: RunStore) -> bool:
    return any(str(entry["challenge"]).endswith(OPEN) for entry in store.record["plan"])


def _not_solved(outcomes: Iterable[Planned]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        if outcome.status in MODEL_FAILURES:
            names = found.setdefault(outcome.status, {})
            names[outcome.challenge] = names.get(outcome.challenge, 0) + 1
    return found


def plan_of(store: RunStore) -> tuple[Planned, ...]:
    """The planned pairs of a run, none of them finished.

    Raises:
        StoreError: run.json holds no plan.
    """
    try:
        return tuple(
            Planned(
                challenge=entry["challenge"],
                paper=entry["paper"],
                lines=entry["lines"],
                own_lines=entry.get("own_lines"),
                sample=sample,
            )
            for entry in store.record["plan"]
            for sample in entry["samples"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store.folder / 'run.json'}: the plan is damaged: {error}") from error


def _essence(episode: Mapping[str, Any]) -> dict[str, Any]:
    """What adding up needs of an episode; texts and test results are left on the disk."""
    return {
        **{name: episode.get(name) for name in _ADDED_UP},
        "verdict": {
            name: (episode.get("verdict") or {}).get(name) for name in ("error_class", "evidence")
        },
        "cause": _cause(episode) if episode.get("status") == INFRA else "",
    }


def _cause(episode: Mapping[str, Any]) -> str:
    verdict = episode.get("verdict") or {}
    text = str(episode.get("error") or verdict.get("message") or "no cause recorded")
    return text.splitlines()[0][:200] if text.strip() else "no cause recorded"
