"""What comes from a server, before anybody reads it: bounded in size, time and depth, and without the key.

Guarantees: a reply of any status is at most `MOST_BYTES` long, unpacked, and whole within the time for one reply,
however it is compressed or drips; what goes beyond is the server's fault, an error of the connection. A body that is
read holds no key, nests at most `DEEPEST` levels, and every number in it can be written as JSON again.
Not covered: headers that drip, each byte just within the time for one read.
"""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

MOST_BYTES = 8_000_000
"""A long answer has a few hundred thousand."""
DEEPEST = 60
ACCEPTED = "gzip, deflate"
"""Encodings that can be unpacked piece by piece, for the header Accept-Encoding."""

_PIECE_BYTES = 256 * 1024
_SHORTEST_SECRET = 4  # shorter ones are words, and would be found everywhere
_BEGAN = "rcb_began"
_SHORTEST_WAIT_S = 0.001
_CONNECT_S = 10.0
_TOO_DEEP = f"it is nested deeper than {DEEPEST} levels"


def hooks() -> dict[str, list[Callable[[Any], None]]]:
    """Event hooks for the HTTP library's client that put bounds on every reply.

    The longest time for one read is the longest from the request to the end of its reply, too.
    """

    def note(request: Any) -> None:
        request.extensions[_BEGAN] = time.monotonic()
        waits = request.extensions["timeout"]
        waits["connect"] = min(waits["read"], _CONNECT_S)

    def bound(response: Any) -> None:
        waits = response.request.extensions["timeout"]
        ends = response.request.extensions[_BEGAN] + waits["read"]
        waits["read"] = max(_SHORTEST_WAIT_S, ends - time.monotonic())  # silence in the middle
        encoding = response.headers.pop("content-encoding", "").strip().lower()
        # Versions of the `openai` package bring different HTTP libraries: this is the one at work.
        http = sys.modules[type(response).__module__.partition(".")[0]]
        response.stream = _bounded(http, response.stream, encoding, ends)

    return {"request": [note], "response": [bound]}


def _bounded(http: Any, stream: Any, encoding: str, ends: float) -> Any:
    class Bounded(http.SyncByteStream):  # type: ignore[misc]  # known at run time only
        def __iter__(self) -> Iterator[bytes]:
            packed = unpacked = 0
            unpack = _unpacker(encoding, http.DecodingError)
            for chunk in stream:
                packed += len(chunk)
                if time.monotonic() > ends:
                    raise http.ReadTimeout("the reply is not whole in time")
                for piece in unpack(chunk):
                    unpacked += len(piece)
                    if max(packed, unpacked) > MOST_BYTES:
                        raise http.ReadError(
                            f"the reply is longer than {MOST_BYTES // 1_000_000} MB"
                        )
                    yield piece

        def close(self) -> None:
            stream.close()

    return Bounded()


def _unpacker(encoding: str, wrong: type[Exception]) -> Callable[[bytes], Iterable[bytes]]:
    """Unpacks a compressed reply chunk by chunk, in pieces of bounded size."""
    if encoding in ("", "identity"):
        return lambda chunk: (chunk,)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise wrong(f"the reply is compressed by {encoding[:40]!r}, which was not asked for")
    state = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: of gzip and zlib whichever it is

    def unpack(chunk: bytes) -> Iterator[bytes]:
        while chunk:
            try:
                piece = state.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise wrong(f"the reply cannot be unpacked: {error}") from error
            yield piece
            chunk = state.unconsumed_tail

    return unpack


def parsed(text: str, secrets: Sequence[str] = ()) -> Any:
    """The JSON of a body.

    Args:
        text: the body.
        secrets: are replaced wherever they stand.

    Raises:
        ValueError: it is no JSON, or not such as anybody could answer with; the message says why.
    """
    try:
        data = json.loads(without(text, secrets))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return _tamed(data, secrets, DEEPEST)


def without(text: str, secrets: Sequence[str]) -> str:
    """A text without what must not be shown or kept, such as a key that a server repeats."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    return text


def _tamed(value: Any, secrets: Sequence[str], levels: int) -> Any:
    if isinstance(value, str):
        return without(value, secrets)  # again: in the body it may have been written with escapes
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list):
        return value
    if not levels:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, list):
        return [_tamed(each, secrets, levels - 1) for each in value]
    return {without(k, secrets): _tamed(each, secrets, levels - 1) for k, each in value.items()}
