"""Challenges for `verifiers` 0.4 and later (its ``v1`` stack), and so for prime-rl and ``vf-eval``.

    vf-eval rcb-verifiers --env.taskset.papers '["DyT"]' --model NAME --client.base-url http://... --no-push

``rcb_verifiers`` is the plugin's name: one challenge is one task, and `ChallengeHarness` plays it in
this process, with the model's own tool calls. Nothing runs on the host but the environment, whose
sandbox runs the code; the runtime that verifiers wants for a program stays empty.

Guarantees: every model call goes through verifiers' endpoint, so its trace has all messages, tokens
and limits. The reward is the declared one, and each episode is graded once: a limit of verifiers or the
end of the model's context window has it graded as it stands, and the trace is truncated. Where our
machinery fails, the trace has an error and no reward.
Not covered: verifiers before 0.4, whose environments were another thing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

from rcb_env.adapters import needs
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.selection import Selection
from rcb_env.env.actions import OutOfBudget
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.errors import SandboxError
from rcb_env.wrappers.chat import SYSTEM, ChatMessages

needs("verifiers.v1", "verifiers")

import verifiers.v1 as vf  # noqa: E402 - after the line that tells how to install it
from openai import APIStatusError, AsyncOpenAI  # noqa: E402
from verifiers.v1.harnesses.utils.compaction import is_context_overflow  # noqa: E402

ID = "rcb-verifiers"
"""The plugin's name, and that of the module it is found under."""
_CONTEXT = "max_total_tokens"
"""What verifiers calls an episode that ran out of tokens; a trainer counts it as truncated."""


class ChallengeData(vf.TaskData):
    """What one task is."""

    challenge: str
    settings: dict[str, Any]
    """Of its environment, see `ResearchCodeEnv`."""


class ChallengeState(vf.State):
    """What the harness leaves for the task to score."""

    reward: float | None = None
    status: str = ""
    """Of the final verdict."""
    passed_part: float = 0.0
    """The part of the test cases that the final verdict passed."""


class ChallengeTask(vf.Task[ChallengeData, ChallengeState]):
    """One challenge."""

    @vf.reward
    async def earned(self, trace: vf.Trace) -> float:
        """The sum of the declared reward over the episode."""
        if trace.state.reward is None:
            raise SandboxError("the episode was not graded")
        return float(trace.state.reward)

    @vf.metric
    async def cases_passed(self, trace: vf.Trace) -> float:
        """The part of the test cases that passed at the end."""
        return float(trace.state.passed_part)


class ChallengesConfig(vf.TasksetConfig):
    """Which challenges, and how they are played; see `ResearchCodeEnv`."""

    dataset: str = "bundled"
    papers: list[str] | None = None
    challenges: list[str] | None = None
    split: str | None = None
    difficulty: tuple[float, float] | None = None
    difficulty_by: str | None = None
    variants: int | list[int] | str | None = None
    reward: str = "sparse"
    feedback: str = "messages"
    max_steps: int = 50
    max_test_runs: int = 10
    sandbox: str = "auto"
    boxes: int | None = None


class Challenges(vf.Taskset[ChallengeTask, ChallengesConfig]):
    """The challenges of a data set, in its order."""

    def load(self) -> Iterator[ChallengeTask]:
        """One task a challenge.

        Raises:
            UsageError: the configuration names something that there is not.
        """
        config = self.config
        settings = {
            name: getattr(config, name)
            for name in (
                "dataset",
                "reward",
                "feedback",
                "max_steps",
                "max_test_runs",
                "sandbox",
                "boxes",
            )
        }
        names = ("papers", "challenges", "split", "difficulty", "difficulty_by", "variants")
        selection = Selection.of({name: getattr(config, name) for name in names})
        chosen = selection.among(load_dataset(config.dataset))
        for challenge in chosen:
            env = ResearchCodeEnv(challenge.id, **settings)
            observation, _ = env.reset(seed=0)
            yield ChallengeTask(
                ChallengeData(
                    id=challenge.id,
                    name=challenge.id,
                    challenge=challenge.id,
                    prompt=observation["text"],
                    system_prompt=SYSTEM,
                    settings=settings,
                ),
                config.task,
            )


class ChallengeHarness(vf.Harness[vf.HarnessConfig]):
    """Plays a challenge with a model that calls tools."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False  # code runs in the environment's sandbox only
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,  # noqa: ARG002 - nothing runs there
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],  # noqa: ARG002 - the tools are the environment's
        data: Any,
    ) -> vf.ProgramResult:
        """Ask, act, answer, until the episode is over.

        Raises:
            SandboxError: it could not be graded.
        """
        env = ChatMessages(
            ResearchCodeEnv(data.challenge, **data.settings), system=data.system_prompt or ""
        )
        messages, _ = env.reset(seed=0)
        total, over = 0.0, False
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            while not over:
                action: Any
                try:
                    reply = await client.chat.completions.create(
                        model=ctx.model,
                        messages=cast("Any", messages),  # dicts are what its types stand for
                        tools=cast("Any", env.tools),
                    )
                    action = reply.choices[0].message.model_dump(exclude_none=True)
                except APIStatusError as error:
                    if trace.stop_condition is None:  # the model's server, not a limit of the run
                        if not is_context_overflow(error):
                            raise
                        trace.stop(_CONTEXT)
                    action = OutOfBudget(str(trace.stop_condition))
                step = await asyncio.to_thread(env.step, action)
                messages, reward, terminated, truncated, _ = step
                total += reward
                over = terminated or truncated
        verdict = env.inside.verdict
        if verdict is None or verdict.status == "infra_error":
            why = "there is no verdict" if verdict is None else verdict.message
            raise SandboxError(f"{data.challenge}: {why}")
        passed, cases = verdict.counts()
        trace.state.reward = total
        trace.state.status = verdict.status
        trace.state.passed_part = passed / cases if cases else float(verdict.passed)
        return vf.ProgramResult(exit_code=0, stdout=verdict.status, stderr="")


class ChallengeEnvConfig(vf.EnvConfig):
    """One seat, whose program is the harness above: it needs no container of verifiers."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class ChallengeEnv(vf.Env[ChallengeEnvConfig]):
    """One agent plays one challenge."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play it."""
        await agents.agent.run(task)


def load_environment(id: str = ID, **taskset: Any) -> vf.Env:
    """The environment, as programs load one of the Environments Hub.

    Args:
        id: of the package that exports the classes above.
        taskset: fields of `ChallengesConfig`.
    """
    return vf.load_environment(vf.resolve_env_config({"taskset": {"id": id, **taskset}}))
