"""The addresses of `rcb view`, and its server.

Guarantees: what a page is asked about is looked up, never a path; what cannot be shown is one line with the reason and a way
back, and no page tells of our own faults more than that there was one.
Not covered: who may ask (`guard.py`), what pages show (`pages.py`).
"""

from __future__ import annotations

import mimetypes
import socket
from collections.abc import Callable, Iterable

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rcb_env.errors import RcbError, UsageError
from rcb_env.view import guard, markup
from rcb_env.view.catalog import Catalog
from rcb_env.view.pages import Given, Pages

_KEPT_S = 3600  # for our own files, which never change while a server runs


def make(pages: Pages, *, names: Iterable[str], token: str | None) -> guard.Guard:
    """The application.

    Args:
        pages: what it serves.
        names: host names that it answers to.
        token: what whoever asks must have; None: nothing.
    """

    def page(make: Callable[[str, Given], str]) -> Callable[..., object]:
        async def answer(request: Request) -> Response:
            run, given = request.path_params.get("run", ""), request.query_params.multi_items()
            return HTMLResponse(_encoded(await run_in_threadpool(make, run, given)))

        return answer

    async def raw(request: Request) -> Response:
        run, given = request.path_params["run"], request.query_params.multi_items()
        text = await run_in_threadpool(pages.raw, run, given)
        headers = {"Content-Security-Policy": "default-src 'none'; sandbox"}
        return PlainTextResponse(_encoded(text), headers=headers)

    async def version(request: Request) -> Response:
        name, given = request.query_params.get("run"), request.query_params.get("trajectory", "")
        run = pages.catalog.run(name) if name else None
        return JSONResponse({"version": await run_in_threadpool(pages.version, run, given)})

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            content = markup.asset(name)
        except FileNotFoundError:
            raise HTTPException(404) from None
        headers = {"Cache-Control": f"max-age={_KEPT_S}"}
        return Response(content, media_type=mimetypes.guess_type(name)[0], headers=headers)

    app = Starlette(
        routes=[
            Route("/", page(lambda _run, given: pages.runs(given))),
            Route("/run/{run:path}", page(pages.run)),
            Route("/episode/{run:path}", page(pages.episode)),
            Route("/challenge/{run:path}", page(pages.challenge)),
            Route("/compare", page(lambda _run, given: pages.compare(given))),
            Route("/matrix", page(lambda _run, given: pages.matrix(given))),
            Route("/items", page(lambda _run, given: pages.items(given))),
            Route("/raw/{run:path}", raw),
            Route("/version", version),
            Route("/static/{name}", asset),
        ],
        exception_handlers={
            RcbError: _told,
            HTTPException: _told,
        },
    )
    return guard.Guard(app, names=set(names), token=token)


def serve(catalog: Catalog, host: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Args:
        catalog: whose runs are shown.
        host: where to listen; with any other than a loopback address a token is asked for.
        port: 0: a free one.
        tell: what takes long, and at last "serving" and the address.

    Raises:
        UsageError: the port is taken, or the host is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        why = error.strerror or str(error)
        raise UsageError(
            f"cannot listen on {host} port {port}: {why}; choose another --port"
        ) from None
    token = None if guard.is_loopback(host) else guard.new_token()
    shown = f"[{host}]" if ":" in host else host
    pages = Pages(catalog)
    with listening:
        pages.prepare(tell)
        app = make(pages, names=guard.names_of(host), token=token)
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        query = f"/?token={token}" if token else "/"
        listening.listen()
        tell(f"serving http://{shown}:{listening.getsockname()[1]}{query}")
        uvicorn.Server(config).run(sockets=[listening])


async def _told(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    why = "there is no such page" if isinstance(error, HTTPException) else str(error)
    return HTMLResponse(_encoded(markup.fill("error.html", version="", why=why)), status)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
