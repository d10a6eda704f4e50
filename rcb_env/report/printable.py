"""Text from anywhere, as it may be shown in a terminal."""

from __future__ import annotations

import re

# Control characters beside tab and newline; what turns the direction of text; halves of characters.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with everything escaped that would do something to a terminal instead of being shown.

    Models, servers and tested code write what we print: a title, a cleared screen or a link may be in it.
    """
    return _CONTROL.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
