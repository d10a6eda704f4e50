"""What an episode leaves behind: its steps, and the `Episode` that the store keeps.

Plain data, enough to score, grade and reward an attempt again without playing it again. Not covered: how it comes about
(`rcb_env.play.episode`), where it is kept (`rcb_env.runs.store`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from rcb_env.env.workspace import code_hash
from rcb_env.play.agent import Usage

if TYPE_CHECKING:
    from rcb_env.dataset.papers import Challenge
    from rcb_env.grading.grader import Verdict

EndReason = Literal[
    "submitted",
    "steps_spent",
    "tokens_spent",
    "cost_spent",
    "wall_time_spent",
    "stopped",  # the agent finished without submitting
    "frame_changed",
    "truncated",
    "empty",
    "refused",
    "no_code",
    "context_exceeded",
    "format_errors",
    "stuck",
    "agent_error",
    "model_error",
    "sandbox_error",
]


@dataclass(frozen=True)
class Step:
    """One tool call and its answer, as the trajectory holds it."""

    index: int
    action: Any
    text: str
    error: bool
    tests: Mapping[str, Any] | None
    reward: float
    code_hash: str
    """Of the region after the step."""
    elapsed_s: float
    """Since the episode began, when the answer was there."""
    step_s: float
    """What the environment took of it."""
    tokens: int = 0
    """Of the model calls since the step before."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Episode:
    """A finished attempt: enough to score, grade and reward it again without playing it again."""

    challenge: str
    paper: str
    file: str
    sample: int
    seed: int
    agent: str
    """Name and the settings that are not the defaults, as `make_agent` reads it."""
    model: str
    """"" for an agent without one."""
    lines: int
    content_hash: str
    """Of the challenge."""
    status: str
    """A verdict's status; "invalid" also for an attempt without an answer."""
    verdict: Mapping[str, Any] | None
    """As `rcb_env.grading.grader.Verdict.from_dict` reads it; None if nothing was graded."""
    end_reason: EndReason
    code: str
    """The region's text at the end."""
    code_hash: str
    steps: int
    test_runs: int
    usage: Usage
    wall_s: float
    started_at: str
    """ISO 8601, UTC."""
    error: str = ""
    """One line: why the attempt ended without an answer, or what of the machinery failed."""

    @classmethod
    def of(
        cls,
        challenge: Challenge,
        verdict: Verdict | None,
        *,
        end_reason: EndReason,
        code: str | None,
        sample: int,
        seed: int,
        agent: str,
        started_at: str,
        wall_s: float,
        status: str | None = None,
        model: str = "",
        steps: int = 0,
        test_runs: int = 0,
        usage: Usage = Usage(),  # noqa: B008 - frozen
        error: str = "",
    ) -> Episode:
        """An attempt at a challenge, as it ended.

        Args:
            challenge: what was attempted.
            verdict: on the code; None: nothing was graded.
            end_reason: why it ended.
            code: the region's text; None: it did not begin.
            sample: which attempt.
            seed: its own.
            agent: who made it.
            started_at: ISO 8601, UTC.
            wall_s: what it took.
            status: None: the verdict's, or "invalid" without one.
            model: whom the agent asked.
            steps: how many there were.
            test_runs: how many of them ran tests.
            usage: what model calls took.
            error: one line.
        """
        return cls(
            challenge=challenge.id,
            paper=challenge.paper.published_id,
            file=challenge.file,
            sample=sample,
            seed=seed,
            agent=agent,
            model=model,
            lines=challenge.lines,
            content_hash=challenge.content_hash,
            status=status or (verdict.status if verdict is not None else "invalid"),
            verdict=verdict.to_dict() if verdict is not None else None,
            end_reason=end_reason,
            code=code or "",
            code_hash=code_hash(code) if code is not None else "",
            steps=steps,
            test_runs=test_runs,
            usage=usage,
            wall_s=wall_s,
            started_at=started_at,
            error=error,
        )

    @property
    def passed(self) -> bool:
        """Whether the challenge was solved."""
        return self.status == "passed"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `from_dict` reads it back equal."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Episode:
        """A stored episode. Fields of later versions are let be.

        Raises:
            ValueError: the data is not an episode.
        """
        names = {each.name for each in dataclasses.fields(cls)}
        try:
            if data["end_reason"] not in get_args(EndReason):
                raise ValueError(f"no episode ends with {data['end_reason']!r}")
            known = {name: value for name, value in data.items() if name in names}
            return cls(**{**known, "usage": Usage(**data["usage"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a stored episode: {error}") from None
