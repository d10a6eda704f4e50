"""The line of a fence in a model's reply: what opens or closes a block of code, and what it says that the block holds.

Guarantees: pure; never raises, whatever the text.
Not covered: which of a reply's blocks is the answer (`rcb_env.play.extraction`).
"""

from __future__ import annotations

import re

PYTHON = frozenset(("python", "python2", "python3", "py", "py2", "py3", "ipython", "ipython3"))
"""What a fence may call Python."""
FENCE = re.compile(
    r"^(?P<lead>[ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)"
    r"(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$"
)
FENCE_AFTER_PROSE = re.compile(
    r"^(?P<lead>[ \t]*)\S.*?(?P<marks>`{3,})[ \t]*(?P<info>(?:lang(?:uage)?-)?(?:python3?|py)|[\w./-]+\.py)[ \t]*$",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    r"[{.\s]*(?:language-|lang-|source-)?([a-z][\w+#-]*)?(?=[\s,;{}()\[]|:(?![\\/])|$)",
    re.IGNORECASE,
)
_FILE_KEYS = frozenset(("file", "filename", "path", "title", "name", "lang", "language"))
_PYTHON_FILE = re.compile(r"\.py[iw]?\b(?!\.\w)|(?<!\.)\bpy(?:thon)?[23]?\b", re.IGNORECASE)
_EXTENSION = re.compile(r"\.(\w+)\W*$")


def info_of(fence: re.Match[str]) -> str:
    """The info string of a fence."""
    return "" if is_tail(fence["info"]) else str(fence["info"]).strip()


def is_tail(text: str) -> bool:
    """Whether what follows a fence is no info string but a tag, a token, punctuation or a sentence."""
    words = text.split()
    if not words or language_of(words[0]) in PYTHON:
        return False
    if not re.match(r"[{.@#/\\]*[^\W_]", words[0]):
        return True
    return text.rstrip().endswith((".", "!", "?")) or (len(words) > 2 and "=" not in text)


def language_of(info: str) -> str:
    """What a fence says its block holds, in lower case; a file is what its name ends in."""
    found = _LANGUAGE.match(info)
    word = (found[1] or "").lower() if found else None
    if word is not None and word not in _FILE_KEYS:
        return word
    if _PYTHON_FILE.search(info):
        return "python"
    extension = _EXTENSION.search(info)
    return extension[1].lower() if extension else info.strip().lower()


def in_block(rest: str) -> bool:
    """Whether the next fence is the end of a block rather than the beginning of one."""
    fences = [found for line in rest.split("\n") if (found := FENCE.match(line))]
    return bool(fences) and not info_of(fences[0]) and len(fences) % 2 == 1


def without_lead(line: str, lead: str) -> str:
    """A line of a block without the indentation and the quote marks its fence has too."""
    kept = 0
    for mark in lead:
        if kept < len(line) and (line[kept] in " \t" or (mark == ">" == line[kept])):
            kept += 1
        else:
            break
    return line[kept:]


def can_close(line: str, marks: str) -> bool:
    """Whether a line may end the block that these marks began."""
    after = line.lstrip().lstrip(marks[0])
    long_enough = len(line.lstrip()) - len(after) >= len(marks)
    return long_enough and (not after.strip() or is_tail(after))
