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
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rcb_agents import intake
from rcb_env import UsageError, without_credentials

if TYPE_CHECKING:
    import openai

_CONNECT_S = 10.0
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# Classes of the HTTP library, by name as it is not imported here: nothing was ever received.
_NOBODY_THERE = ("ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol")


def connect(base_url: str, key: str, timeout_s: float) -> openai.OpenAI:
    """The client for a server, one for all episodes of a process.

    Args:
        base_url: of the API.
        key: "" for none.
        timeout_s: longest wait for one reply, to its end.

    Raises:
        UsageError: a variable for proxies or certificates cannot work.
    """
    return _client(os.getpid(), base_url, key, timeout_s)


@functools.lru_cache(maxsize=8)
def _client(process: int, base_url: str, key: str, timeout_s: float) -> openai.OpenAI:  # noqa: ARG001
    """By process, as a forked one must not use its parent's sockets."""
    import openai

    try:
        http = openai.DefaultHttpxClient(timeout=timeout(timeout_s), event_hooks=intake.hooks())
    except Exception as error:  # whatever it is, it comes from the variables
        wrong = _wrong_variable(error)
        if wrong is None:
            raise
        raise UsageError(wrong) from error
    client = openai.OpenAI(
        base_url=base_url,
        api_key=key or "none",  # servers on one's own machine want no key, the library wants one
        timeout=timeout(timeout_s),
        max_retries=0,
        http_client=http,
        default_headers={"Accept-Encoding": intake.ACCEPTED},
    )
    # The library closes only what it made itself. At exit everything is closed anyway.
    weakref.finalize(client, http.close).atexit = False
    return client


def timeout(longest_s: float) -> openai.Timeout:
    """Of a request that takes no longer than this, to the end of its reply."""
    import openai

    return openai.Timeout(longest_s, connect=min(longest_s, _CONNECT_S))


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
                f"{name} is {without_credentials(value)!r}, and that is no address of a proxy:"
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
