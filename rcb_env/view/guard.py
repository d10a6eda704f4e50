"""Who may ask for a page, and what a browser may do with the answer.

A page shows what models and tested code wrote, in a browser that also has tabs of others open.

Guarantees:
- Only names of this machine are answered to (the header Host), so that no page elsewhere can read ours by giving its own
  name our address.
- Where others can reach the server, whoever asks has the token: once in the address, from then on in a cookie that scripts
  and other sites do not get.
- A page runs our one script and loads our one style sheet and nothing else; it is never inside another page, and never kept.
- Nothing is changed by any request: only GET and HEAD are answered.
Not covered: other users of this machine, who can reach a loopback address too.
"""

from __future__ import annotations

import ipaddress
import secrets
import urllib.parse
from collections.abc import Collection, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "rcb-view"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets requests through, or answers them itself.

    Args:
        app: whom to let them through to.
        names: host names that are answered to.
        token: what whoever asks must have; None: nothing.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str], token: str | None) -> None:
        self._app = app
        self._names = {name.lower() for name in names}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(Request(scope))
        await (refused or self._app)(scope, receive, with_headers)

    def _refused(self, request: Request) -> Response | None:
        """The answer, where it is not a page."""
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("nothing can be changed here\n", 405)
        if not self._is_ours(request.headers):
            return PlainTextResponse("this server has another name\n", 421)
        if self._token is None:
            return None
        given = request.query_params.get("token")
        if given is not None and _same(given, self._token):
            there = _without_token(request)
            answer = RedirectResponse(there, 303)
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            return answer
        if _same(request.cookies.get(COOKIE, ""), self._token):
            return None
        return PlainTextResponse("open the address that `rcb view` printed, token and all\n", 403)

    def _is_ours(self, headers: Headers) -> bool:
        host = headers.get("host", "")
        try:
            name = urllib.parse.urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        # Behind an address there is no name that somebody else could have pointed here.
        return name in self._names or (self._token is not None and _is_address(name))


def names_of(host: str) -> Iterable[str]:
    """What a server that listens on a host may be called."""
    import socket

    return {*LOOPBACK, host, socket.gethostname()}


def is_loopback(host: str) -> bool:
    """Whether nobody from outside can reach a server on this host."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_token(request: Request) -> str:
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    # Only the path and what follows: a path that begins with two slashes would be another host.
    path = "/" + request.url.path.lstrip("/")
    return urllib.parse.quote(path) + (f"?{urllib.parse.urlencode(rest)}" if rest else "")
