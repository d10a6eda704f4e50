"""Replies that came before: the same request, the same place in a run, and nothing is asked again.

The key is the whole request (address, model, messages, tools, every parameter, as wanted by the
settings), the index of the sample, and how often this episode has asked the same before; at any
temperature but 0 also the episode's seed. So a run that is repeated costs nothing, while samples
remain independent of each other. The key of an API is no part of it and is never stored.

One JSON file for each reply, written whole or not at all; a file that cannot be read is a miss. What is no answer is
not kept, and what an earlier version kept of it is a miss too.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from rcb_agents.intake import parsed
from rcb_env import UsageError


class ReplyCache:
    """A folder of replies, seen from one episode.

    Args:
        folder: where they are; made when it is needed.
        sample: the episode's index.
        seed: the episode's seed.
    """

    def __init__(self, folder: Path, *, sample: int, seed: int) -> None:
        self.folder = folder
        self._sample = sample
        self._seed = seed
        self._asked: Counter[str] = Counter()

    def key(self, url: str, body: Mapping[str, Any]) -> str:
        """The key of the next request of this kind; each call counts as one request."""
        request = json.dumps([url, body], sort_keys=True)
        asked = self._asked[request]
        self._asked[request] += 1
        seed = None if body.get("temperature") == 0 else self._seed
        return hashlib.sha256(json.dumps([request, self._sample, asked, seed]).encode()).hexdigest()

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored body of a reply."""
        try:
            data = parsed(self._path(key).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        response = data.get("response") if isinstance(data, dict) else None
        return response if isinstance(response, dict) else None

    def put(self, key: str, url: str, body: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        """Store one.

        Raises:
            UsageError: the folder cannot be written.
        """
        path = self._path(key)
        scratch = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=path.parent, delete=False
            ) as file:
                scratch = file.name
                json.dump({"url": url, "request": body, "response": response}, file)
            os.replace(scratch, path)  # noqa: PTH105 - one name for both, as strings
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(scratch)  # noqa: PTH108
            raise UsageError(
                f"the cache of replies {self.folder} cannot be written: {error.strerror};"
                " choose another --cache, or --cache off"
            ) from error

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def cache_folder(setting: str, host: str) -> Path | None:
    """Where the replies of a server are kept; None: nowhere.

    Args:
        setting: "off", "auto", or a folder. With "auto" replies are kept in the user's cache, except
            those of this machine's own servers: they cost nothing, and an address such as
            ``127.0.0.1:8000`` does not say which model answers there.
        host: of the server.
    """
    if setting == "off":
        return None
    if setting != "auto":
        return Path(setting).expanduser()
    if host == "localhost":
        return None
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    try:
        return Path(user_cache_dir("rcb-env")) / "replies"
    except RuntimeError:  # a user without a home
        return None
