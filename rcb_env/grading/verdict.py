"""What the grader says of one candidate. Pure data; stored with every episode and read back equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from rcb_env.grading.causes import class_of_status

Status = Literal[
    "passed",
    "failed",
    "timeout",
    "out_of_memory",
    "invalid",
    "no_change",
    "tampered",
    "infra_error",
]
Outcome = Literal["passed", "failed", "error", "not_run"]
Purpose = Literal["feedback", "final"]
Evidence = Literal["isolated", "split", "guarded"]

MAX_MESSAGE = 2000  # characters of a verdict's one line
MAX_CASE_TEXT = 8000  # characters told of one test case
OUT_OF_MEMORY = "the tests used more memory than they may"


def tidy(text: str, limit: int) -> str:
    """Text that can be stored and shown anywhere: cut, and what is not printable written as an escape.

    A candidate chooses the text of its errors. Half a character cannot be written to a file, and control codes change
    a terminal.
    """
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in "\n\t"
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


@dataclass(frozen=True)
class CaseResult:
    """How one test case went (in native papers: one case with one seed)."""

    case: str
    seed: int
    outcome: Outcome
    message: str = ""  # tells no expected value
    detail: str = ""  # the expected and the actual value, for the feedback level "full"
    error_class: str | None = None  # why it did not pass, as in `causes.py`

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; without a class where there is none."""
        return {k: v for k, v in asdict(self).items() if k != "error_class" or v is not None}

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", tidy(self.message, MAX_CASE_TEXT))
        object.__setattr__(self, "detail", tidy(self.detail, MAX_CASE_TEXT))


@dataclass(frozen=True)
class Score:
    """How an answer to an open challenge measures: the paper's own method is 0, more is better.

    Attributes:
        value: the mean of all terms; None: the answer failed on a problem.
        se: its standard error.
        baseline: what the challenge's baseline scores on the same problems.
        terms: what each problem adds, by family of problems.
    """

    value: float | None
    se: float | None
    baseline: float
    terms: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def counted(self) -> float:
        """What it counts in a mean or as a reward: the baseline is there for anybody to hand in."""
        return self.baseline if self.value is None else max(self.value, self.baseline)

    @property
    def passes(self) -> bool:
        """Whether it is at least 0 within noise: two standard errors, at most a tenth of the baseline's distance."""
        if self.value is None or self.se is None:
            return False
        return self.value + min(2 * self.se, abs(self.baseline) / 10) >= 0

    @property
    def words(self) -> str:
        """On one line."""
        if self.value is None:
            return f"no score; the baseline has {self.baseline:+.4f}"
        scale = f"0 is the paper's own method, the baseline has {self.baseline:+.4f}"
        return f"score {self.value:+.4f} ± {self.se:.4f} (more is better; {scale})"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; without what is not known."""
        known = {k: v for k, v in asdict(self).items() if v is not None}
        return {**known, "terms": {name: list(terms) for name, terms in self.terms.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Score:
        """A stored score."""
        terms = {name: tuple(terms) for name, terms in data["terms"].items()}
        return cls(data.get("value"), data.get("se"), data["baseline"], terms)


@dataclass(frozen=True)
class Verdict:
    """The status of a candidate, and everything that explains it."""

    status: Status
    cases: tuple[CaseResult, ...] = ()
    error_class: str | None = None  # of the first test that does not pass, see `causes.py`
    message: str = ""  # one line: the first thing that is wrong
    notes: tuple[str, ...] = ()  # what the grader noticed about the integrity of the run
    stdout: str = ""  # head and tail
    stderr: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds
    official_pass: bool | None = None  # by the public benchmark's own rule, where it was asked for
    official_end: str = ""  # why it does not pass by that rule
    # What stands behind it. isolated, split: the answer was not where the code ran, and a pass is proven; guarded: it
    # was, and nothing was noticed. None: nothing ran, or it was stored before this was recorded.
    evidence: Evidence | None = None
    score: Score | None = None  # of an answer to an open challenge

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", tidy(self.message, MAX_MESSAGE))
        by_status = class_of_status(self.status)
        if by_status is not None:
            object.__setattr__(self, "error_class", by_status)

    @property
    def proven(self) -> bool:
        """Whether it is a pass of code that ran where the answer was not."""
        return self.passed and self.evidence in ("isolated", "split")

    @property
    def passed(self) -> bool:
        """Whether the candidate solves the challenge."""
        return self.status == "passed"

    def counts(self) -> tuple[int, int]:
        """Passed and planned test cases."""
        return sum(result.outcome == "passed" for result in self.cases), len(self.cases)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `from_dict` reads it back equal."""
        cases = [result.to_dict() for result in self.cases]
        told = {**asdict(self), "cases": cases, "notes": list(self.notes)}
        if not self.official_end:
            del told["official_end"]
        if self.score is None:
            del told["score"]
        else:
            told["score"] = self.score.to_dict()
        return told

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """A stored verdict.

        Raises:
            ValueError: the data is not a verdict.
        """
        try:
            if data["status"] not in get_args(Status):
                raise ValueError(f"no verdict has the status {data['status']!r}")
            if data.get("evidence") not in (None, *get_args(Evidence)):
                raise ValueError(f"no verdict has the evidence {data['evidence']!r}")
            cases = tuple(CaseResult(**case) for case in data["cases"])
            score = Score.from_dict(data["score"]) if data.get("score") else None
            more = {"cases": cases, "notes": tuple(data["notes"]), "score": score}
            return cls(**{**data, **more})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a stored verdict: {error}") from None
