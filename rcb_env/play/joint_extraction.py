"""From a model's raw reply to the code of several regions; the rules for a single one are in `rcb_env.play.extraction`.

Reasoning is dropped and blocks are found as for one region. Then:

1. A line ``# region: NAME`` begins a region's code, in whichever block; ``# file: PATH`` that of a file that is missing as a
   whole. A hint is as good as a name.
2. A block without such a line belongs to the region, or the file, that its first comment, its fence or the line above the fence
   names. Of a file that came back whole what stands in its regions is taken.
3. Each code is placed like that of a single region. Of several for one region the last counts; a region that is not there is left
   as it is, and a note says so.

Guarantees: as there: pure, never raises, and a reply that was cut off in a block gives no code.
Not covered: a block that names nothing, where there are several regions: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rcb_env.dataset.holes import Hole, Holes
from rcb_env.dataset.markers import Masked
from rcb_env.dataset.papers import Challenge
from rcb_env.env.settings import Extractor
from rcb_env.play.echoes import Frame, aligned, parse
from rcb_env.play.extraction import (
    Block,
    Extracted,
    Reason,
    code_blocks,
    extract,
    extract_by,
    extract_official,
    spoken,
)

_COMMENT = re.compile(r"\s*#+(.*)")
_MARKUP = re.compile(r"^[ #>*+-]*(?:\d{1,3}[.)] ?)?")
_LABEL = re.compile(r"^(?:region|part|file|path)\s*[:=]?\s*", re.IGNORECASE)
_WORD = re.compile(r"[\w./-]+")


def extract_joint(
    reply: str | None, holes: Holes, *, finish_reason: str | None = None
) -> Extracted:
    """The code for all regions, as the text of an answer; see `rcb_env.play.extraction.extract`."""
    frames, kind = _Frames(holes), "file" if holes.whole else "region"
    told = spoken(reply, finish_reason)
    if isinstance(told, Extracted):
        return told
    blocks, candidates = code_blocks(told.text, frames)
    if not candidates and not blocks and holes.split(told.text):  # no fence at all
        candidates = [Block("python", told.text, closed=True)]
    if candidates and told.cut_off and not candidates[-1].closed:
        return Extracted(None, "truncated", ("the reply was cut off inside its block of code",))
    codes: dict[str, str] = {}
    notes: list[str] = []
    for number, block in enumerate(candidates, 1):
        found = dict(frames.codes(block))
        if not found:
            notes.append(f"block {number} of {len(candidates)} names no {kind}")
        codes |= found
    if not codes and len(holes) == 1:
        (hole,) = holes
        alone = extract(reply, frames.masked(hole), finish_reason=finish_reason)
        code = None if alone.code is None else holes.join({hole.name: alone.code})
        return Extracted(code, alone.reason, alone.notes)
    if not codes:
        if told.open_ended:
            return Extracted(None, "truncated", ("the reply ends inside its reasoning",))
        reason: Reason = "truncated" if told.cut_off else "no_code"
        return Extracted(None, reason, (*notes, f"no block of code names a {kind}"))
    missing = [hole.name for hole in holes if hole.name not in codes]
    if missing:
        notes.append(f"{len(missing)} of {len(holes)} {kind}s are missing: {', '.join(missing)}")
    return Extracted(holes.join(codes), None, tuple(notes))


class _Frames:
    """The files around each region, ``pass`` in all others, as something to compare a reply with."""

    def __init__(self, holes: Holes) -> None:
        self._holes = holes
        self._frames: dict[str, Frame] = {}

    def masked(self, hole: Hole) -> Masked:
        """The file around one region."""
        beside = self._holes.of(hole.file)
        passes = [f"{each.region.indent}pass\n" for each in beside]
        return self._holes.files[hole.file].around(beside.index(hole), passes)

    def frame(self, hole: Hole) -> Frame:
        """The same for comparison."""
        if hole.name not in self._frames:
            self._frames[hole.name] = Frame(self.masked(hole))
        return self._frames[hole.name]

    def fits(self, text: str) -> bool:
        """Whether each code in a text is valid Python in its place or alone."""
        codes = self._holes.split(text)
        if not codes:
            return parse(aligned(text)) is not None
        return all(self.frame(self._named(name)).fits(code) for name, code in codes.items())

    def codes(self, block: Block) -> Iterator[tuple[str, str]]:
        """The regions' codes in a block, by name."""
        codes: Mapping[str, str] = self._holes.split(block.text)
        if not codes:
            codes = self._by_words(block)
        for name, code in codes.items():
            placed, _ = self.frame(self._named(name)).place(code)
            if placed is not None and placed.strip():
                yield name, placed

    def _named(self, name: str) -> Hole:
        return next(hole for hole in self._holes if hole.name == name)

    def _by_words(self, block: Block) -> Mapping[str, str]:
        """What a block holds by what is said about it."""
        first, _, rest = block.text.lstrip("\n").partition("\n")
        comment = _COMMENT.match(first)
        for words, text in (
            (comment[1] if comment else "", rest),
            (block.info, block.text),
            (block.before, block.text),
        ):
            if name := self._region_in(words):
                return {name: text}
            if path := self._file_in(words):
                return self._of_file(path, text)
        return {}

    def _region_in(self, words: str) -> str | None:
        """The one region that some words name."""
        bare = _LABEL.sub("", _MARKUP.sub("", " ".join(words.split()).rstrip(" :*#")))
        if name := self._holes.named(bare):
            return name
        found = {self._holes.named(word) for word in _WORD.findall(words)} - {None}
        return found.pop() if len(found) == 1 else None

    def _file_in(self, words: str) -> str | None:
        """The one file that some words name."""
        said = {word.strip("./:") for word in _WORD.findall(words)}
        found = [path for path in self._holes.files if path in said]
        return found[0] if len(found) == 1 else None

    def _of_file(self, path: str, text: str) -> Mapping[str, str]:
        """The regions of a file that came back whole, or of which there is one."""
        holes, file = self._holes.of(path), self._holes.files[path]
        whole = text.strip("\n") + "\n"
        found = file.divided(whole) or file.divided("\n" + whole)
        if found is not None:
            return {hole.name: code for hole, code in zip(holes, found, strict=True)}
        if len(holes) == 1:
            return {holes[0].name: text}
        return {hole.name: text for hole in holes if self.frame(hole).repeated_in(text)}


def extract_for(
    challenge: Challenge,
    reply: str | None,
    *,
    extractor: Extractor = "robust",
    with_hint: bool = True,
    finish_reason: str | None = None,
) -> Extracted:
    """The code in a reply to a challenge, of one region or of several.

    Args:
        challenge: what was asked for.
        reply: the raw text.
        extractor: the rule, by name.
        with_hint: whether placeholders said what is missing.
        finish_reason: as the API gave it.
    """
    if challenge.holes is None:
        masked = challenge.masked()
        masked = masked if with_hint else masked.without_hint()
        return extract_by(extractor, reply, masked, finish_reason=finish_reason)
    if extractor == "official":
        return extract_official(reply)
    return extract_joint(reply, challenge.holes, finish_reason=finish_reason)
