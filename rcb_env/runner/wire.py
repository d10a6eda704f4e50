"""Length-prefixed messages: a JSON header and binary blobs. Used by the host and by the runner inside a box.

    4 bytes big-endian length of the header | header (JSON, its "blobs" is the list of blob lengths) | blobs

The host treats everything it reads as hostile: `Limit` bounds the header and the blobs before they are allocated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MAX_HEADER_BYTES = 8 * 1024 * 1024
MAX_MESSAGE_BYTES = 512 * 1024 * 1024

Message = tuple[dict[str, Any], list[bytes]]


class WireError(Exception):
    """The other end closed the stream or sent something that is not a message."""


def pack(header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """One message as bytes."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join([len(text).to_bytes(4, "big"), text, *blobs])


def unpack(
    read_exactly: Callable[[int], bytes], *, max_header_bytes: int = MAX_HEADER_BYTES
) -> Message:
    """Read one message with a function that returns exactly n bytes.

    A header of empty lists takes twenty times its length once it is parsed; whoever reads headers of a process that may
    be hostile sets `max_header_bytes` accordingly.

    Raises:
        WireError: the header or the blobs are malformed or larger than the limits.
    """
    size = int.from_bytes(read_exactly(4), "big")
    if size > max_header_bytes:
        raise WireError(f"a header of {size} bytes is larger than {max_header_bytes}")
    try:
        header = json.loads(read_exactly(size))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a header is not JSON: {error}") from None
    lengths = header.pop("blobs", None) if isinstance(header, dict) else None
    if not isinstance(lengths, list) or not all(type(n) is int and n >= 0 for n in lengths):
        raise WireError("a header does not say how long its blobs are")
    if sum(lengths) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {sum(lengths)} bytes is larger than {MAX_MESSAGE_BYTES}")
    return header, [read_exactly(n) for n in lengths]
