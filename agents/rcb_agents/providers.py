"""Who serves a model: ``provider/name`` becomes an address, a key variable, and the name to send.

The rule: an address given with the model (``--base-url``, else the variable OPENAI_BASE_URL) is
where everything goes, and the name is sent as it stands, since servers have names with slashes of
their own; it speaks the OpenAI protocol, unless the settings name another API. Without one, the first part of a name with a slash is the provider, which must stand in the
table and is not sent; any other name is OpenAI's. ``local/`` is never sent.
Keys are read from variables when they are needed and kept in no record.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from rcb_env import ModelSettings, UsageError, without_credentials


@dataclass(frozen=True)
class Provider:
    """Where a provider is.

    Attributes:
        base_url: of its OpenAI-compatible API.
        key_variable: what holds the key; None: it takes none.
        reports_cost: whether every reply says what it costs.
        api: the one that is used unless the settings name another.
    """

    base_url: str
    key_variable: str | None
    reports_cost: bool = False
    api: str = "chat"


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "google": Provider(
        *("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"), api="google"
    ),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", reports_cost=True),
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", api="anthropic"),
    "local": Provider("http://127.0.0.1:8000/v1", None),
}

_ANY_SERVER = "OPENAI_API_KEY"  # the key for an address that is in no table
# How an address may end though it is not part of the API's own, as the libraries want it.
_TAILS = {"anthropic": "/v1", "google": "/openai"}


@dataclass(frozen=True)
class Endpoint:
    """Where requests go.

    Attributes:
        base_url: of the API, as it is called.
        model: the name to send.
        key_variable: what holds the key, for messages.
        key: the key; "" for none.
        reports_cost: whether replies say what they cost.
        api: what is spoken there.
    """

    base_url: str
    model: str
    key_variable: str
    key: str
    reports_cost: bool = False
    api: str = "chat"

    @property
    def host(self) -> str:
        """The server's name."""
        return urllib.parse.urlsplit(self.base_url).hostname or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be in no message and no record: the key, and a password in the address."""
        password = urllib.parse.urlsplit(self.base_url).password or ""
        return (self.key, password, urllib.parse.unquote(password))

    def __repr__(self) -> str:
        return f"Endpoint({without_credentials(self.base_url)!r}, {self.model!r})"


def resolve(settings: ModelSettings, more: Mapping[str, Provider] | None = None) -> Endpoint:
    """Where a model is.

    Args:
        settings: its name, and its address if it has one.
        more: providers of the user's own, before the table's.

    Raises:
        UsageError: the provider is unknown, the address cannot be one, or the provider's key is not set.
    """
    table = {**PROVIDERS, **(more or {})}
    given = (settings.base_url or os.environ.get("OPENAI_BASE_URL") or "").strip()
    prefix, slash, rest = settings.name.partition("/")
    named = table.get(prefix) if slash else None
    model = settings.name
    if slash and not (given or named):
        raise UsageError(
            f"unknown provider {prefix!r} of the model {model!r}; they are {', '.join(sorted(table))};"
            " for a server of your own set OPENAI_BASE_URL or --base-url"
        )
    if given:
        provider = None
        model = rest if named and prefix == "local" else model
    else:
        provider = named or table["openai"]
        model = rest if named else model
    api: str = settings.api
    if api == "auto":
        api = provider.api if provider else "chat"
    base_url = _cleaned(given or (provider.base_url if provider else ""), api)
    if not model:
        raise UsageError(f"the model {settings.name!r} has no name after the provider's")
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{without_credentials(base_url)!r} is not the address of a model's server;"
            " write it like http://127.0.0.1:8000/v1"
        )
    if provider is None:
        provider = _at(parts.hostname, table)
    variable = provider.key_variable if provider else _ANY_SERVER
    key = os.environ.get(variable, "").strip() if variable else ""
    if provider and variable and not key:
        raise UsageError(
            f"{variable} is not set, and {without_credentials(base_url)} needs it;"
            " set it, or name another server with --base-url"
        )
    reports_cost = provider is not None and provider.reports_cost
    return Endpoint(base_url, model, variable or _ANY_SERVER, key, reports_cost, api)


def _cleaned(base_url: str, api: str) -> str:
    base_url = base_url.rstrip("/")
    for path in ("/chat/completions", "/responses", "/messages", _TAILS.get(api, "")):
        base_url = base_url.removesuffix(path)
    return base_url


def _at(host: str, table: Mapping[str, Provider]) -> Provider | None:
    """The provider that has this host, so that its key goes there and no other one."""
    for provider in table.values():
        if provider.key_variable and urllib.parse.urlsplit(provider.base_url).hostname == host:
            return provider
    return None
