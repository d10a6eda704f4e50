"""Challenges for TRL's `GRPOTrainer`: ``environment_factory=environment_factory(...)``.

The trainer makes one `Challenge` for each rollout, offers its public methods to the model as tools,
and asks `get_reward` once the model has stopped calling them. The methods are made of `TOOLS`, so
their schemas are those of every other way to play. A row of the training data says with the columns
``challenge`` and ``seed`` what its rollouts play: all of one group then play the same challenge.

The trainer calls the tools of its rollouts one after the other. So a submit answers at once and is
graded in a thread, beside the other rollouts of the step; `get_reward` waits for it.

Guarantees: each rollout is graded once; one that ends without a submit, by the trainer's limits, is
graded as it stands. A rollout that our machinery has failed earns None, which TRL leaves out. Needs
nothing of TRL to be imported: what is here is what TRL asks for.
Not covered: the prompt, which is the data's (`rows` makes some); training.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from rcb_env.env.actions import TOOLS, OutOfBudget, Tool
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.wrappers.layer import left

SYSTEM = "You write the missing code of a paper. Act with the tools; submit when you are done."
_KINDS: dict[str, type] = {"string": str, "integer": int}
_OVER = "[not done: the episode is over]"
_SUBMITTED = "Submitted."


class Episodes:
    """What a rollout does with its environment; `environment_factory` adds the tools.

    Args:
        graders: the threads that submits are graded in.
        settings: see `ResearchCodeEnv`.
    """

    def __init__(self, graders: ThreadPoolExecutor, **settings: Any) -> None:
        self._env = ResearchCodeEnv(**settings)
        self._graders = graders
        self._graded: Future[str] | None = None
        self._reward = 0.0
        self._over = True

    def reset(self, challenge: str | None = None, seed: int | None = None, **_: object) -> str:
        """Start an episode; returns the assignment, which TRL appends to the last message.

        Args:
            challenge: its id; None: drawn as the settings say.
            seed: of the draw.
            _: other columns of the row.
        """
        self._settle()
        options = None if challenge is None else {"challenge": challenge}
        observation, _info = self._env.reset(seed=seed, options=options)
        self._reward, self._over = 0.0, False
        return str(observation["text"])

    def get_reward(self) -> float | None:
        """What the episode has earned; None where that says nothing about the model."""
        self._settle()
        if not self._over:
            self._step(OutOfBudget("turns"))
        verdict = self._env.verdict
        return None if verdict is None or verdict.status == "infra_error" else self._reward

    def _do(self, action: Any) -> str:
        if self._over or self._graded:
            return _OVER
        if action["tool"] == "submit":
            self._graded = self._graders.submit(self._step, action)
            return _SUBMITTED
        return self._step(action)

    def _settle(self) -> None:
        """Wait for a submit that is being graded."""
        graded, self._graded = self._graded, None
        if graded is not None:
            graded.result()

    def _step(self, action: Any) -> str:
        observation, reward, terminated, truncated, _ = self._env.step(action)
        self._reward += float(reward)
        self._over = terminated or truncated
        return f"{observation['text']}\n\n{left(observation)}"


def environment_factory(**settings: Any) -> Callable[[], Episodes]:
    """What `GRPOTrainer` takes under this name.

    Args:
        settings: of each environment, see `ResearchCodeEnv`.

    Raises:
        UsageError: a setting is unknown or out of range.
    """
    ResearchCodeEnv(**settings)  # a mistake is told here and not in the first rollout
    graders = ThreadPoolExecutor(thread_name_prefix="rcb-graders")
    return lambda: Challenge(graders, **settings)


def rows(challenges: Iterable[str], *, system: str = SYSTEM, seed: int = 0) -> list[dict[str, Any]]:
    """Training data, one row a challenge: ``datasets.Dataset.from_list(rows(...))``.

    The user message is empty: TRL appends the assignment to it.
    """
    prompt = [{"role": "system", "content": system}, {"role": "user", "content": ""}]
    return [{"prompt": prompt, "challenge": id, "seed": seed} for id in challenges]


def _method(tool: Tool) -> Callable[..., str]:
    """A tool as a method: name, signature and docstring are what TRL makes its schema of."""

    def call(self: Episodes, **arguments: Any) -> str:
        return self._do({"tool": tool.name, "arguments": arguments})

    properties = tool.parameters["properties"]
    required = tool.parameters["required"]
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    lines = [tool.description, ""]
    if properties:
        lines.append("Args:")
    for name, schema in properties.items():
        kind: Any = _KINDS[schema["type"]]
        optional = name not in required
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if optional else inspect.Parameter.empty,
                annotation=kind | None if optional else kind,
            )
        )
        call.__annotations__[name] = kind | None if optional else kind
        lines.append(f"    {name}: {schema['description']}")
    lines += ["", "Returns:", "    What the environment answers."]
    del call.__annotations__["self"], call.__annotations__["arguments"]
    call.__annotations__["return"] = str
    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = "\n".join(lines)
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # of any callable
        parameters, return_annotation=str
    )
    return call


# The trainer looks for tools on the class, and logs the reward under its name.
Challenge = type("Challenge", (Episodes,), {tool.name: _method(tool) for tool in TOOLS})
