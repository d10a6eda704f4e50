"""Sending a body through a provider's own library, and what comes of it: a reply of any status, or `Lost`.

Guarantee: whatever a library raises about the connection leaves here as `Lost`, and a refusal is a reply like any
other, so nobody else knows the libraries' exceptions.
Not covered: how a client is made to go through proxies (`reaching`); what a status means (`faults`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rcb_env import UsageError

Http = Callable[[Any], Any]
"""Makes a client of the HTTP library's, of a class that is given, with the bounds and proxies that all share."""


@dataclass(frozen=True)
class Received:
    """A reply, of any status."""

    status: int
    headers: Mapping[str, str]
    text: str


class Lost(Exception):
    """No reply came, or not all of it; the library's error is the cause.

    Args:
        why: what the HTTP library says.
        timed_out: it took too long.
    """

    def __init__(self, why: str = "", *, timed_out: bool = False) -> None:
        super().__init__(why)
        self.timed_out = timed_out


def library(name: str, provider: str) -> Any:
    """A provider's library, which is an extra.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{provider}'s API needs one more package: `pip install 'rcb-env[{provider.lower()}]'`,"
            " or use its OpenAI-compatible API with --api chat"
        ) from error


def through(library: Any, send: Callable[[], Any]) -> Received:
    """One request through a library that names its errors as OpenAI's does.

    Raises:
        Lost: no reply came.
    """
    try:
        raw = send()
    except library.APITimeoutError as error:
        raise Lost(timed_out=True) from error
    except library.APIConnectionError as error:
        raise Lost(str(error.__cause__ or error)) from error
    except library.APIStatusError as error:
        return Received(error.status_code, error.response.headers, error.response.text)
    # Not its own text, which is a method in some versions.
    return Received(200, raw.headers, raw.http_response.text)
