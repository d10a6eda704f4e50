"""Challenges behind OpenEnv's protocol: a server, and the client for it (``openenv-core``).

    python -m rcb_env.adapters.openenv --port 8000 --papers DyT

    with ChallengeClient(base_url="http://127.0.0.1:8000").sync() as env:
        result = env.reset(challenge="DyT/forward")
        result = env.step(ChallengeAction(tool="run_tests"))

Guarantees: each connection has an environment of its own, and all share the boxes of the server's
process. Observations carry what `ResearchCodeEnv.step` returns: OpenEnv's own ``metadata`` stays with
the server, so the info has a field of its own, and so has ``truncated``, which OpenEnv has no word for.
A client beyond the last place waits for as long as the server was told, and is then refused by name
(``CAPACITY_REACHED``). An HTTP request that needs an episode is refused with 409: OpenEnv gives each of
these an environment of its own, and episodes live on the connection at ``/ws``.
Not covered: who may connect. Keep the server on loopback, or behind something that asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import time
from typing import Any

import click
from gymnasium.error import ResetNeeded
from pydantic import Field

from rcb_env.adapters import needs
from rcb_env.cli import options
from rcb_env.cli.output import echo
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.settings import Rules, Shown, settings_of
from rcb_env.errors import UsageError

needs("openenv.core", "openenv")

from fastapi import FastAPI, Request  # noqa: E402 - after the line that tells how to install it
from fastapi.responses import JSONResponse  # noqa: E402
from openenv.core import EnvClient  # noqa: E402
from openenv.core.client_types import StepResult  # noqa: E402
from openenv.core.env_server.exceptions import SessionCapacityError  # noqa: E402
from openenv.core.env_server.http_server import HTTPEnvServer  # noqa: E402
from openenv.core.env_server.interfaces import Environment  # noqa: E402
from openenv.core.env_server.types import (  # noqa: E402
    Action,
    EnvironmentMetadata,
    Observation,
    State,
)
from websockets.exceptions import ConnectionClosed  # noqa: E402

_KEYWORDS = [each.name for noun in (Shown, Rules) for each in settings_of(noun) if each.is_keyword]
_LOOK_S = 0.05  # how often a client that waits looks for a place
_NO_EPISODE = (
    "this request has an environment of its own and no episode: connect to /ws, reset and step there,"
    " as rcb_env.adapters.openenv.ChallengeClient does"
)


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

    def get_metadata(self) -> EnvironmentMetadata:
        """What this environment is."""
        return EnvironmentMetadata(
            name="rcb-env",
            description="Write the missing code of a paper; hidden tests decide.",
            version=importlib.metadata.version("rcb-env"),
        )

    def close(self) -> None:
        """End the episode; boxes stay for the other sessions."""
        self._env.close()


class _Sessions(HTTPEnvServer):
    """OpenEnv's server, whose clients may wait for a place.

    Args:
        wait_s: for how long.
        settings: see `ResearchCodeEnv`.
    """

    def __init__(self, sessions: int, wait_s: float, settings: dict[str, Any]) -> None:
        super().__init__(
            lambda: ChallengeServer(**settings),
            ChallengeAction,
            ChallengeObservation,
            max_concurrent_envs=sessions,
        )
        self._wait_s = wait_s

    async def _create_session(self) -> Any:
        until = time.monotonic() + self._wait_s
        while True:
            try:
                return await super()._create_session()
            except SessionCapacityError:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_LOOK_S)


class _ReadOn:
    """Takes what a client sends when it comes, as ASGI middleware.

    A client that waits for a place has sent its reset. uvicorn reads nothing more until that is taken, so pings would
    stay unanswered and the client would give up.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        came: asyncio.Queue[Any] = asyncio.Queue()

        async def take() -> None:
            while True:
                message = await receive()
                came.put_nowait(message)
                if message["type"] == "websocket.disconnect":
                    return

        taking = asyncio.create_task(take())
        try:
            await self._app(scope, came.get, send)
        finally:
            taking.cancel()


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

    async def _send(self, message: dict[str, Any]) -> None:
        # A server without a place says so and closes; what it said is still to be received.
        with contextlib.suppress(ConnectionClosed):
            await super()._send(message)


def application(*, sessions: int = 8, wait_s: float = 0.0, **settings: Any) -> FastAPI:
    """The server as an ASGI application.

    Args:
        sessions: how many connections may play at once.
        wait_s: how long one more waits for a place before it is refused.
        settings: of each environment, see `ResearchCodeEnv`.

    Raises:
        UsageError: a setting is unknown or out of range.
    """
    ResearchCodeEnv(**settings)
    app = FastAPI(title="rcb-env", version="1.0.0")  # the version is that of OpenEnv's protocol
    _Sessions(sessions, wait_s, settings).register_routes(app)
    app.add_middleware(_ReadOn)

    @app.exception_handler(ResetNeeded)
    async def no_episode(_request: Request, _error: ResetNeeded) -> JSONResponse:
        return JSONResponse({"detail": _NO_EPISODE}, status_code=409)

    @app.exception_handler(UsageError)
    async def wrong_option(_request: Request, error: UsageError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=422)

    return app


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, help="Port to listen on; 0: a free one.")
@click.option("--sessions", default=8, show_default=True, help="Connections at once.")
@click.option(
    "--wait",
    "wait_s",
    default=0.0,
    show_default=True,
    help="Seconds that one connection more waits for a place. Then it is told CAPACITY_REACHED.",
)
@options.selection
@click.option(
    "--min-lines",
    type=click.IntRange(min=1),
    help="Take only challenges of at least so many lines.",
)
@click.option(
    "--max-lines", type=click.IntRange(min=1), help="Take only challenges of at most so many lines."
)
@click.option("--reward", default="sparse", show_default=True, help="What a step earns.")
@click.option(
    "--max-text-chars", default=20_000, show_default=True, help="Longest text of an observation."
)
@click.option("--timings", is_flag=True, help="Tell in infos how long steps took.")
@options.settings(Shown, Rules, only=_KEYWORDS)
@options.sandbox
@options.boxes
def main(host: str, port: int, **given: Any) -> None:
    """Serve challenges to OpenEnv clients."""
    import socket

    import uvicorn

    for name in ("papers", "challenges"):
        given[name] = given[name] or None
    app = application(**given)
    with socket.create_server((host, port)) as listening:
        echo(f"http://{host}:{listening.getsockname()[1]}")
        # OpenEnv closes connections that are closed already, which uvicorn would log as an error.
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listening])


if __name__ == "__main__":
    main()
