"""Several single shots, of which one is submitted: by feedback tests, then by majority."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from rcb_agents import prompts
from rcb_agents.fitting import first_prompt
from rcb_agents.model import Conversation, open_model
from rcb_agents.single_shot import code_of
from rcb_env import NoAnswer, Task, ToolCall, Turn


@dataclass(frozen=True)
class BestOfN:
    """Draws ``n`` answers that know nothing of each other and submits the best.

    The best is the one with most passed tests, where tests can be run; among equals, the code that
    was drawn most often; among those, the first.
    """

    n: Annotated[int, Field(ge=1)] = 4
    """How many answers are drawn."""
    temperature: Annotated[float, Field(ge=0)] = 0.8
    """In place of the run's; at 0 all answers would be the same."""
    tests: bool = True
    """Whether feedback tests are run; else the majority alone decides."""
    stop: bool = True
    """Whether the first answer that passes all tests ends the drawing."""

    name: ClassVar[str] = "best-of-n"
    uses_model: ClassVar[bool] = True
    prompts_version: ClassVar[str] = prompts.VERSION

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Draw, test, choose, submit."""
        if task.model is not None:
            task = replace(task, model=replace(task.model, temperature=self.temperature))
        model = open_model(task)
        prompt = first_prompt(task, model, prompts.missing_code)
        scores: dict[str, float] = {}  # by code, in the order it was drawn first
        drawn: Counter[str] = Counter()  # by what the code does
        last: NoAnswer | None = None
        may_test = self.tests
        written = ""
        for index in range(self.n):
            talk = Conversation(model, task, draw=index, temperature=self.temperature)
            try:
                code = task.merged(code_of(talk.ask(prompt), task), task.placeholder)
            except NoAnswer as error:
                if error.reason == "context_exceeded":
                    raise
                last = error
                continue
            drawn[_meaning(code)] += 1
            if code in scores:
                continue
            scores[code] = 0.0
            if may_test:
                yield ToolCall("write_region", {"code": code})
                written = code
                turn = yield ToolCall("run_tests")
                may_test = not turn.error and turn.test_runs_left > 0
                scores[code] = _score(turn)
                if self.stop and scores[code] == 1.0:
                    break
        if not scores:
            assert last is not None  # every draw ended in code or in this
            raise last
        best = max(scores, key=lambda code: (scores[code], drawn[_meaning(code)]))
        task.record(
            "choice",
            {"draws": drawn.total(), "codes": len(scores), "score": scores[best]},
        )
        if best != written:
            yield ToolCall("write_region", {"code": best})
        yield ToolCall("submit")


def _score(turn: Turn) -> float:
    """The share of passed tests, as far as the feedback tells; 1 only if all passed."""
    tests = turn.tests or {}
    if tests.get("status") == "passed":
        return 1.0
    total = tests.get("total") or 0
    return min(0.99, tests.get("passed", 0) / total) if total else 0.0


def _meaning(code: str) -> str:
    """Equal for codes that differ in layout and comments only."""
    lines = code.expandtabs().splitlines()
    # Inside a function, so that `return` parses; a region that is no statement is compared as text.
    try:
        return ast.dump(ast.parse("def f():\n" + "\n".join(f" {line}" for line in lines)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "\n".join(line.rstrip() for line in lines).strip()
