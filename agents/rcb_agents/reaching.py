"""Getting to a server: the library's client, and in plain words why there is none or why nobody is reached.

Proxies and certificates come from variables, which the library follows: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY,
SSL_CERT_FILE, SSL_CERT_DIR. A variable that cannot work is named before anything is sent; a proxy that does not answer
is named by its variable too, since the server's address alone would lead nowhere.
"""

from __future__ import annotations

import functools
import os
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from rcb_agents import intake
from rcb_env import UsageError, without_credentials

Make = Callable[[str, str, Callable[[Any], Any]], Any]
"""Makes a library's client of a base URL, a key and a maker of HTTP clients."""

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# Classes of the HTTP library, by name as it is not imported here: nothing was ever received.
_NOBODY_THERE = ("ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol")


def connect(make: Make, base_url: str, key: str) -> Any:
    """The client for a server, one for all episodes of a process.

    Args:
        make: makes it.
        base_url: of the API.
        key: "" for none.

    Raises:
        UsageError: a variable for proxies or certificates cannot work.
    """
    return _client(os.getpid(), make, base_url, key)


@functools.lru_cache(maxsize=8)
def _client(process: int, make: Make, base_url: str, key: str) -> Any:  # noqa: ARG001
    """By process, as a forked one must not use its parent's sockets."""
    made: list[Any] = []

    def http(kind: Any) -> Any:
        try:
            client = kind(event_hooks=intake.hooks(), headers={"Accept-Encoding": intake.ACCEPTED})
        except Exception as error:  # whatever it is, it comes from the variables
            wrong = _wrong_variable(error)
            if wrong is None:
                raise
            raise UsageError(wrong) from error
        made.append(client)
        return client

    client = make(base_url, key, http)
    # The library closes only what it made itself. At exit everything is closed anyway.
    for each in made:
        weakref.finalize(client, each.close).atexit = False
    return client


def _wrong_variable(error: Exception) -> str | None:
    """The variable to blame for a client that cannot be made, and what to do about it."""
    proxies = dict(_proxy_variables())
    if isinstance(error, ImportError):
        for name, value in proxies.items():
            if value.lower().startswith("socks"):
                return (
                    f"{name} names a SOCKS proxy ({without_credentials(value)}), which needs one more package:"
                    f" `pip install socksio`, or unset {name}"
                )
    if isinstance(error, OSError):
        for name in _CERTIFICATES:
            if folder := os.environ.get(name):
                return (
                    f"{name} names {folder}, and no certificates can be read there ({error.strerror or error}):"
                    f" correct or unset {name}"
                )
    for name, value in proxies.items():
        if not _is_proxy_address(value):
            return (
                f"{name} is {without_credentials(value)!r}, which is not the address of a proxy:"
                f" write it like http://proxy.example:3128, or unset {name}"
            )
    if proxies:
        names = " or ".join(proxies)
        return f"the proxy of {names} cannot be used ({error}): correct or unset {names}"
    return None


def _is_proxy_address(value: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(value if "://" in value else f"http://{value}")
        known = parts.scheme in ("http", "https", "socks5", "socks5h")
        return known and parts.hostname is not None and parts.port != 0
    except ValueError:
        return False


def nobody_reached(error: BaseException) -> bool:
    """Whether no connection was made at all: nobody listens there, or nobody knows the name."""
    return any(type(cause).__name__ in _NOBODY_THERE for cause in _causes(error))


def why_not(url: str, trouble: str) -> str:
    """What follows the address of a server that was never reached: why, and what to do.

    Args:
        url: what was called.
        trouble: what the HTTP library said.
    """
    if "CERTIFICATE_VERIFY_FAILED" in trouble:
        names = [f"{name} ({os.environ[name]})" for name in _CERTIFICATES if os.environ.get(name)]
        what = f"Correct or unset {' and '.join(names)}" if names else "Set SSL_CERT_FILE"
        return (
            f"shows a certificate that cannot be checked ({trouble}). {what}: it has to name a file with the"
            " certificates of your network"
        )
    if proxy := proxy_of(url):
        name, value = proxy
        host = urllib.parse.urlsplit(url).hostname
        return (
            f"cannot be reached through the proxy {without_credentials(value)}, which {name} names ({trouble})."
            f" Start the proxy, unset {name}, or add {host} to NO_PROXY"
        )
    return f"cannot be reached ({trouble}). Start the server, or name another with --base-url"


def proxy_of(url: str) -> tuple[str, str] | None:
    """The variable and the address of the proxy that requests to an address go through."""
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    named = dict(_proxy_variables())
    for wanted in (f"{parts.scheme}_proxy", "all_proxy"):
        for name, value in named.items():
            if name.lower() == wanted:
                return name, value
    return None


def _proxy_variables() -> Iterator[tuple[str, str]]:
    for scheme in ("https", "http", "all"):
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY"):  # small letters go first
            if value := os.environ.get(name):
                yield name, value
                break


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
