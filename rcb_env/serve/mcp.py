"""A `Session` over the Model Context Protocol: the episode's actions as tools, by the ``mcp`` package.

Over stdio the client starts this process and stdout belongs to the protocol; the end of stdin is the
client's leaving. Over HTTP the tools are at ``/mcp`` until the episode is over. The assignment is in
the server's instructions, and a prompt named "challenge" for clients that show none.

Not covered: authentication. Whoever reaches the port plays the episode; it is 127.0.0.1's unless
another address is asked for.

`initialize` is answered at once. A call that waits, for boxes that start or for tests, tells so every
few seconds by progress notifications. SIGTERM counts as the client's leaving, and so does silence over
HTTP, where nobody hears that a client crashed.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rcb_env.env.actions import TOOLS
from rcb_env.errors import UsageError
from rcb_env.serve.session import Answer, Session

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

PATH = "/mcp"
_PROMPT = "challenge"
_LINGER_S = 2.0  # over HTTP, after the episode and the last call
_POLL_S = 0.1
_PROGRESS_S = 2.0


def require() -> None:
    """Say what is missing, before anything else is done.

    Raises:
        UsageError: the package is not installed.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the package mcp is not installed: pip install 'rcb-env[mcp]'")


def serve_stdio(session: Session) -> None:
    """Serve one client over this process's stdin and stdout, until it leaves."""
    import anyio
    from mcp.server.stdio import stdio_server

    server = _server(session, lambda: None)

    async def main() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(main)


def serve_http(
    session: Session, host: str, port: int, idle_s: float, tell: Callable[[str], None]
) -> None:
    """Serve clients over HTTP, until the episode is over and nobody has called for a moment.

    Args:
        session: the episode.
        host: address to listen at.
        port: 0: any that is free.
        idle_s: silence after which nobody is taken to be there any more.
        tell: gets the URL when clients can connect.

    Raises:
        UsageError: the address cannot be listened at.
    """
    import anyio
    import uvicorn

    last_call = [time.monotonic()]

    def called() -> None:
        last_call[0] = time.monotonic()

    app = _server(session, called).streamable_http_app(
        streamable_http_path=PATH, json_response=True, host=host
    )
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
    settings = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=1, lifespan="on", access_log=False
    )
    web = uvicorn.Server(settings)

    async def watch() -> None:
        while not web.should_exit:
            await anyio.sleep(_POLL_S)
            silent_s = time.monotonic() - last_call[0]
            if silent_s > (_LINGER_S if session.over.is_set() else idle_s):
                web.should_exit = True

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await web.serve(sockets=[listening])
            group.cancel_scope.cancel()

    with listening:
        shown = f"[{host}]" if ":" in host else host
        tell(f"http://{shown}:{listening.getsockname()[1]}{PATH}")
        anyio.run(main)


def play_while_served(session: Session, serve: Callable[[], None]) -> None:
    """Play a session's episode in a thread while a server runs in this one.

    Args:
        session: not played yet.
        serve: returns when clients have left; an interrupt counts as their leaving.

    Raises:
        RcbError: what ended the episode without a result.
    """
    failed: list[BaseException] = []

    def play() -> None:
        try:
            session.play()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(error)

    player = threading.Thread(target=play, name="rcb-session")
    player.start()
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        serve()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would take the grade away
        session.leave()
        player.join()
        signal.signal(signal.SIGTERM, before)
    if failed:
        raise failed[0]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


async def _told_while_waiting(
    act: Callable[[], Answer], tool: str, context: Any, called: Callable[[], None]
) -> Answer:
    """Do what takes long in a thread, and send the client progress notifications until it is done."""
    import anyio
    import anyio.to_thread

    began = time.monotonic()

    async def tell() -> None:
        while True:
            await anyio.sleep(_PROGRESS_S)
            called()
            waited_s = time.monotonic() - began
            await context.session.report_progress(waited_s, None, f"{tool} is at work")

    async with anyio.create_task_group() as group:
        group.start_soon(tell)
        answer = await anyio.to_thread.run_sync(act, abandon_on_cancel=True)
        group.cancel_scope.cancel()
    return answer


def _server(session: Session, called: Callable[[], None]) -> Server[Any]:
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        session.expect()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.parameters),
                )
                for tool in TOOLS
            ]
        )

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        called()
        cancelled = threading.Event()
        act = functools.partial(session.act, params.name, params.arguments or {}, cancelled)
        try:
            answer = await _told_while_waiting(act, params.name, context, called)
        except anyio.get_cancelled_exc_class():
            cancelled.set()
            raise
        called()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)], is_error=answer.error
        )

    async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
        about = "What is to be written, and how."
        return types.ListPromptsResult(prompts=[types.Prompt(name=_PROMPT, description=about)])

    async def get_prompt(
        _context: Any, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != _PROMPT:
            raise ValueError(f"there is no prompt {params.name!r}; there is {_PROMPT!r}")
        session.expect()
        content = types.TextContent(type="text", text=session.assignment)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return Server(
        "rcb-env",
        version=importlib.metadata.version("rcb-env"),
        instructions=session.assignment,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
