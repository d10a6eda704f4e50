"""Challenges behind OpenEnv's protocol: a server, and the client for it (``openenv-core``).

    python -m rcb_env.adapters.openenv --port 8000 --papers DyT

    with ChallengeClient(base_url="http://127.0.0.1:8000").sync() as env:
        result = env.reset(challenge="DyT/forward")
        result = env.step(ChallengeAction(tool="run_tests"))

Guarantees: each connection has an environment of its own, and all share the boxes of the server's
process. Observations carry what `ResearchCodeEnv.step` returns: OpenEnv's own ``metadata`` stays with
the server, so the info has a field of its own, and so has ``truncated``, which OpenEnv has no word for.
Not covered: who may connect. Keep the server on loopback, or behind something that asks.
"""

from __future__ import annotations

from typing import Any

import click
from pydantic import Field

from rcb_env.adapters import needs
from rcb_env.env.environment import ResearchCodeEnv

needs("openenv.core", "openenv")

from openenv.core import EnvClient  # noqa: E402 - after the line that tells how to install it
from openenv.core.client_types import StepResult  # noqa: E402
from openenv.core.env_server.http_server import create_fastapi_app  # noqa: E402
from openenv.core.env_server.interfaces import Environment  # noqa: E402
from openenv.core.env_server.types import Action, Observation, State  # noqa: E402


class ChallengeAction(Action):
    """A tool call; see `rcb_env.TOOLS`."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ChallengeObservation(Observation):
    """What a step or a reset tells."""

    text: str
    steps_left: int
    test_runs_left: int
    truncated: bool = False
    info: dict[str, Any] = Field(default_factory=dict)
    """See `ResearchCodeEnv.step`."""


class ChallengeState(State):
    """Where an episode stands; two states with one ``state_hash`` have the same future."""

    challenge: str = ""
    state_hash: str = ""
    code: str = ""


class ChallengeServer(Environment[ChallengeAction, ChallengeObservation, ChallengeState]):
    """One session's environment.

    Args:
        settings: see `ResearchCodeEnv`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._env = ResearchCodeEnv(**settings)
        self._episode: str | None = None
        self._steps = 0
        self._began = False

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> ChallengeObservation:
        """Start an episode; options are those of `ResearchCodeEnv.reset`, such as ``challenge``."""
        observation, info = self._env.reset(seed=seed, options=options)
        self._episode, self._steps, self._began = episode_id, 0, True
        return ChallengeObservation(**observation, info=info)

    def step(
        self,
        action: ChallengeAction,
        timeout_s: float | None = None,  # noqa: ARG002 - a test run has its paper's limit
        **_: Any,
    ) -> ChallengeObservation:
        """Do one tool call."""
        observation, reward, terminated, truncated, info = self._env.step(
            {"tool": action.tool, "arguments": action.arguments}
        )
        self._steps += 1
        return ChallengeObservation(
            **observation,
            reward=float(reward),
            done=terminated or truncated,
            truncated=truncated,
            info=info,
        )

    @property
    def state(self) -> ChallengeState:
        """Where the episode stands; empty before the first reset."""
        if not self._began:
            return ChallengeState()
        return ChallengeState(
            episode_id=self._episode,
            step_count=self._steps,
            challenge=self._env.challenge.id,
            state_hash=self._env.state_hash,
            code=self._env.code,
        )

    def close(self) -> None:
        """End the episode; boxes stay for the other sessions."""
        self._env.close()


class ChallengeClient(EnvClient[ChallengeAction, ChallengeObservation, ChallengeState]):
    """Plays on a server of `application`; ``.sync()`` gives the one without ``await``."""

    def _step_payload(self, action: ChallengeAction) -> dict[str, Any]:
        return {"tool": action.tool, "arguments": action.arguments}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ChallengeObservation]:
        told = {
            **payload["observation"],
            "reward": payload.get("reward"),
            "done": payload.get("done", False),
        }
        observation = ChallengeObservation(**told)
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, Any]) -> ChallengeState:
        return ChallengeState(**payload)


def application(*, sessions: int = 8, **settings: Any) -> Any:
    """The server as an ASGI application.

    Args:
        sessions: how many connections may play at once.
        settings: of each environment, see `ResearchCodeEnv`.

    Raises:
        UsageError: a setting is unknown or out of range.
    """
    ResearchCodeEnv(**settings)
    return create_fastapi_app(
        lambda: ChallengeServer(**settings),
        ChallengeAction,
        ChallengeObservation,
        max_concurrent_envs=sessions,
    )


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, help="Port to listen on; 0: a free one.")
@click.option("--sessions", default=8, show_default=True, help="Connections at once.")
@click.option("--papers", default="", help="Papers to draw from, by comma; default: all.")
@click.option("--reward", default="sparse", show_default=True, help="What a step earns.")
@click.option("--sandbox", default="auto", show_default=True, help="Where code runs.")
def main(host: str, port: int, sessions: int, papers: str, reward: str, sandbox: str) -> None:
    """Serve challenges to OpenEnv clients."""
    import socket

    import uvicorn

    chosen = [paper for paper in papers.split(",") if paper] or None
    app = application(sessions=sessions, papers=chosen, reward=reward, sandbox=sandbox)
    with socket.create_server((host, port)) as listening:
        click.echo(f"http://{host}:{listening.getsockname()[1]}")
        # OpenEnv closes connections that are closed already, which uvicorn would log as an error.
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listening])


if __name__ == "__main__":
    main()
