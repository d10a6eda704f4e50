"""From a model's raw reply to the code of a region: one rule, for every agent and every stored reply.

1. *Reasoning* is dropped: think sections, also with only their closing tag. A section that never
   ends means the reply was cut off. So is what follows a token that ends the turn.
2. *Blocks* are found. A fence closes a block only if it begins its line, has the same character, is
   at least as long, has no info string (a tag, a token, a sentence after it is none), and is indented
   no deeper than the opening one; of several such lines the first that leaves valid code. A reply
   that has only a closing fence began inside its block.
3. *The block*: python blocks come before blocks without a language; other languages are never code.
   Of several, the last that has the region's indentation or repeats the function around it; if none
   does, the last that is valid in the file; else the last. A reply without any block is code if all
   of it is. A diff is never code.
4. *Copied lines* are dropped: tags, the TODO comment, and, where the whole function, class or file
   came back, everything of it that the file holds already.
5. *Placed* at the region's indentation. Lines inside multi-line strings are not moved.

Guarantees: pure; never raises, whatever the text; no code is invented or repaired. A reply that was
cut off in its block gives no code, so it is never counted as a wrong answer of another kind.
Beside it stands the public benchmark's own rule, `extract_official`, for comparison with its numbers.
Not covered: whether the code is any good; keeping the raw reply, which is the agent's duty.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from rcb_env.dataset.markers import Masked
from rcb_env.env.settings import Extractor
from rcb_env.play.echoes import Frame, aligned, parse
from rcb_env.play.fences import (
    FENCE,
    FENCE_AFTER_PROSE,
    PYTHON,
    can_close,
    info_of,
    is_tail,
    language_of,
    without_lead,
)
from rcb_env.play.reasoning import (
    begins_reasoning,
    ends_in_reasoning,
    ends_of_turn,
    ends_reasoning,
    ends_turn,
    without_channels,
    without_reasoning,
    without_start_of_turn,
)

Reason = Literal["truncated", "empty", "refused", "no_code"]
"""Why a reply holds no code."""

_UNNAMED = frozenset(("", "code", "source"))
_DIFFS = frozenset(("diff", "patch", "udiff"))
_WRAPPERS = frozenset(("markdown", "md", "mdx"))

_ANSWER_TAG = r"(?:</?(?:answer|solution|code|output|response|result|python)>|<\|(?:begin|end)_of_solution\|>)"
_ANSWER_TAGS_AROUND = re.compile(
    rf"\A\s*?(?:[ \t]*{_ANSWER_TAG}[ \t]*\n?)+|(?:\s*{_ANSWER_TAG})+\s*\Z", re.IGNORECASE
)
_OFFICIAL_FENCE = "```python\n"
_MAX_CLOSERS = 40  # lines that could close one block and are tried; more are a game, not an answer
_MAX_BLOCKS = 200  # of one reply, likewise


@dataclass(frozen=True)
class Extracted:
    """What a reply holds.

    Attributes:
        code: text of the region, with its indentation and a final newline; None: nothing usable.
        reason: why there is none.
        notes: what was left out or decided on the way, in the reader's words.
    """

    code: str | None
    reason: Reason | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """A block of a reply, or what takes the place of one."""

    language: str
    text: str
    closed: bool
    begun: bool = False  # by the prompt
    info: str = ""  # of the fence
    before: str = ""  # the words above the fence


class Fitting(Protocol):
    """Something that tells code from other text."""

    def fits(self, text: str) -> bool:
        """Whether a text is valid Python in its place, or alone."""
        ...


@dataclass(frozen=True)
class Spoken:
    """A reply without its reasoning.

    Attributes:
        open_ended: whether it ends inside its reasoning.
        cut_off: whether the server says that it was cut off.
    """

    text: str
    open_ended: bool
    cut_off: bool


def extract(reply: str | None, masked: Masked, *, finish_reason: str | None = None) -> Extracted:
    """The code for the region that is missing in ``masked``.

    Args:
        reply: the raw text; None and "" mean that no text came.
        masked: the file around the region.
        finish_reason: as the API gave it: "length" and "content_filter" make a difference.
    """
    told = spoken(reply, finish_reason)
    if isinstance(told, Extracted):
        return told
    text, open_ended, cut_off = told.text, told.open_ended, told.cut_off
    nothing: Reason = "truncated" if cut_off else "no_code"
    frame = Frame(masked)
    blocks, candidates = code_blocks(text, frame)
    if candidates:
        return _from_blocks(candidates, frame, cut_off)
    if open_ended:
        return Extracted(None, "truncated", ("the reply ends inside its reasoning",))
    if any(block.language in _DIFFS for block in blocks):
        return Extracted(None, nothing, ("only a diff came back, not code",))
    if blocks:
        names = ", ".join(sorted({block.language or "unnamed" for block in blocks}))
        return Extracted(None, nothing, (f"no block of python code, only: {names}",))
    for plain in _plain_code(text, frame):
        if frame.fits(plain) and _does_something(plain):
            code, notes = frame.place(plain)
            return Extracted(code, None, ("no fence: all of the reply is code", *notes))
    if ends_in_reasoning(text):
        return Extracted(None, "truncated", ("the reply ends inside its reasoning",))
    return Extracted(None, nothing, ("neither a block of code nor plain code",))


def spoken(reply: str | None, finish_reason: str | None) -> Spoken | Extracted:
    """What a reply says; or why there is nothing in it."""
    cut_off = finish_reason in ("length", "max_tokens")
    if finish_reason == "content_filter":
        return Extracted(None, "refused", ("the server's content filter ended the reply",))
    text = (reply or "").replace("\r\n", "\n")
    if not text.strip():
        return Extracted(None, "truncated" if cut_off else "empty", ("no text came",))
    text, open_ended = without_channels(without_start_of_turn(text))
    if not open_ended:
        text, open_ended = without_reasoning(text)
    return Spoken(text, open_ended, cut_off)


def code_blocks(text: str, frame: Fitting) -> tuple[list[Block], list[Block]]:
    """All blocks of a reply, and those that may be code."""
    blocks = list(itertools.islice(_blocks(text.split("\n"), frame), _MAX_BLOCKS))
    candidates = [block for block in blocks if block.language in PYTHON] or [
        block for block in blocks if block.language in _UNNAMED
    ]
    return blocks, [block for block in candidates if block.text.strip()]


def extract_official(reply: str | None) -> Extracted:
    """The public benchmark's rule: the last block opened by exactly "```python" and a line feed.

    It ends at the next three backquotes, wherever they stand; a block that does not end is none.
    Without a block the answer is the empty text, which is put into the region and graded: there
    is no such thing as no answer. Nothing is moved, dropped or looked at otherwise.
    """
    text, at, blocks = reply or "", 0, 0
    code = ""
    while (start := text.find(_OFFICIAL_FENCE, at)) >= 0:
        end = text.find("```", start + len(_OFFICIAL_FENCE))
        if end < 0:
            break
        code, at, blocks = text[start + len(_OFFICIAL_FENCE) : end], end + 3, blocks + 1
    return Extracted(code, None, (f"official rule: the last of {blocks} blocks",))


def extract_by(
    extractor: Extractor, reply: str | None, masked: Masked, *, finish_reason: str | None = None
) -> Extracted:
    """`extract` or `extract_official`, by name."""
    if extractor == "official":
        return extract_official(reply)
    return extract(reply, masked, finish_reason=finish_reason)


def _from_blocks(candidates: Sequence[Block], frame: Frame, cut_off: bool) -> Extracted:
    notes: list[str] = []
    # A block that was cut off is what the model meant to answer: an earlier one was a draft.
    if cut_off and not candidates[-1].closed:
        return Extracted(None, "truncated", ("the reply was cut off inside its block of code",))
    usable = [block for block in candidates if not frame.is_diff(block.text)]
    if not usable:
        return Extracted(None, "no_code", ("only a diff came back, not code",))
    chosen = (
        [block for block in usable if frame.at_home(block.text)]
        or [block for block in usable if block.begun]
        or [block for block in usable if frame.fits(block.text)]
        or usable
    )[-1]
    if len(candidates) > 1:
        notes.append(
            f"{len(candidates)} blocks of code: took number {candidates.index(chosen) + 1}"
        )
    if not chosen.closed:
        notes.append("the block is never closed")
        if not frame.fits(chosen.text) and cut_off:
            return Extracted(None, "truncated", tuple(notes))
    code, more = frame.place(chosen.text)
    notes += more
    if code is None or not code.strip():
        return Extracted(None, "no_code", (*notes, "nothing is left of the block"))
    return Extracted(code, None, tuple(notes))


# --- blocks -----------------------------------------------------------------------------------


def _blocks(lines: Sequence[str], frame: Fitting) -> Iterator[Block]:
    block, at = _headless(lines, frame)
    if block:
        yield block
    while at < len(lines):
        line = lines[at]
        opening = FENCE.match(line) or FENCE_AFTER_PROSE.match(line)
        if begins_reasoning(line):  # in the middle of a reply
            ends = (n for n in range(at, len(lines)) if ends_reasoning(lines[n]))
            at = next(ends, len(lines)) + 1
            continue
        at += 1
        if opening is None or is_tail(opening["info"]):
            if ends_turn(line):
                return
            continue
        language = language_of(opening["info"])
        following = next((line for line in lines[at:] if line.strip()), "")
        inner = FENCE.match(following)
        if language in _WRAPPERS or (not language and inner and info_of(inner)):
            continue  # a block around the whole answer: look inside
        above = next((each for each in reversed(lines[: at - 1]) if each.strip()), "")
        before = line[: opening.start("marks")].strip() or above
        block, at = _read_block(lines, at, opening, language, frame)
        yield replace(block, info=opening["info"], before=before)
        if ends_turn(lines[at - 1]):
            return


def _headless(lines: Sequence[str], frame: Fitting) -> tuple[Block | None, int]:
    """The block that the reply begins in, as its opening fence was in the prompt; and where to go on."""
    fences = [(n, found) for n, line in enumerate(lines) if (found := FENCE.match(line))]
    for number, (at, fence) in enumerate(fences[:_MAX_CLOSERS], start=1):
        code = _unlabelled("\n".join(lines[:at]))
        if frame.fits(code):
            closes = not info_of(fence) and (len(fences) - number) % 2 == 0
            if closes and _does_something(code):
                return Block("python", code, closed=True, begun=True), at + 1
            break
    return None, 0


def _read_block(
    lines: Sequence[str], start: int, opening: re.Match[str], language: str, frame: Fitting
) -> tuple[Block, int]:
    """The block that begins at ``start``, and where to go on."""
    marks, lead = opening["marks"], opening["lead"]
    content = [without_lead(line, lead) for line in lines[start:]]
    every = (n for n, line in enumerate(content) if can_close(line, marks))
    closers = list(itertools.islice(every, _MAX_CLOSERS))
    flush = [n for n in closers if not content[n][:1].isspace()]
    bare = [n for n in flush if not content[n].strip(marks[0] + " \t")]

    def text(end: int) -> str:
        return "\n".join(content[:end])

    def closed(end: int) -> tuple[Block, int]:
        return Block(language, text(end), closed=True), start + end + 1

    # A string may hold a line that looks like the end. Then the code stops inside the string.
    code = language in PYTHON or language in _UNNAMED
    if bare and (not code or len(flush) == 1):
        return closed(bare[0])
    valid = next((n for n in flush if frame.fits(text(n))), None) if code else None
    if valid is None and flush:
        valid = (bare or flush)[0]
    if valid is None:  # some models indent the last fence like the code
        valid = next((n for n in closers if frame.fits(text(n))), None)
    if valid is not None:
        return closed(valid)
    rest = text(len(content)).rstrip()
    before, fence, after = rest.rpartition(marks)  # behind the last line of the code
    if fence and (not after or ("\n" not in after and is_tail(after))):
        return Block(language, before, closed=True), len(lines)
    return Block(language, _ended(rest, frame), closed=False), len(lines)


# --- plain code -------------------------------------------------------------------------------


def _plain_code(text: str, frame: Frame) -> Iterator[str]:
    """The whole reply, or what follows an introduction that ends with a colon."""
    yield _unlabelled(_ended(text, frame))
    head, newline, rest = text.lstrip("\n").partition("\n")
    if newline and head.rstrip().endswith(":"):
        yield _ended(rest, frame)


def _unlabelled(text: str) -> str:
    """Without a first line that is the info string of a fence in the prompt."""
    head, newline, rest = text.lstrip("\n").partition("\n")
    return rest if newline and head.strip().lower() in PYTHON else text


def _ended(text: str, frame: Fitting) -> str:
    """Code without the tags around it and without what follows a token that ends the turn."""
    if frame.fits(text):
        return text
    for cut in (*itertools.islice(ends_of_turn(text), _MAX_CLOSERS), len(text)):
        code = _ANSWER_TAGS_AROUND.sub("", text[:cut])
        if frame.fits(code):
            return code
    return text


def _does_something(text: str) -> bool:
    """Whether this is more than words that happen to be valid Python, such as ``Sorry``."""
    module = parse(aligned(text))
    if module is None:
        return any(mark in text for mark in "=([")
    return any(
        not isinstance(node, ast.Expr)
        or any(isinstance(part, ast.Call | ast.Yield | ast.Await) for part in ast.walk(node))
        for node in module.body
    )
