"""A paper's ``variants.yaml``: what of its method could as well have been made otherwise, and how all files say so.

A *knob* is one such decision. It has choices, the first of which is the published one, and pieces of text that read otherwise
for another choice: in ``paper.md``, ``src/`` and ``tests/``. ``names`` are words of the code that may be called otherwise; they
are replaced wherever they stand as a whole word, but for the lines of tags.

Guarantees: pure. Every piece is found exactly as often as the file says, no two pieces overlap and none touches a tag, so the
order of knobs does not matter, and where every choice is the published one, every file is, byte for byte. What cannot be
so is a `PaperError` with file, line and the name of the knob. Choices of a number are those of a hash: the same on every machine.
Not covered: papers and challenges of a variant (`variants.py`); whether they can be graded (`rcb_env.certify.variants`).
"""

from __future__ import annotations

import hashlib
import itertools
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import Field

from rcb_env.dataset.metadata import Document, FilePath, Name, Strict, Words, read_yaml
from rcb_env.errors import PaperError

FILE = "variants.yaml"
"""The file, in the folder of the paper; it is no part of what is shown, run, or hashed."""
TEXT = "paper.md"
NAMES = "names"
"""What the section of names is called beside the knobs."""
_TAG = re.compile(r"^[^\S\n]*#[^\n]*paper2code[^\n]*$", re.MULTILINE)
Choices = Mapping[str, str]
"""The choice by knob, and the word by name; what is missing is as published."""


class Piece(Strict):
    """A stretch of a file, and how it reads for each choice.

    Attributes:
        reads: the text by choice; a choice that is not listed reads as the published one.
        times: how often the published text stands in the file, or in ``within``.
        within: a longer text that stands in the file once; the piece is looked for only there.
    """

    file: FilePath
    reads: Mapping[str, str]
    times: int = Field(default=1, ge=1)
    within: Words | None = None


class Knob(Strict):
    """A decision of the method.

    Attributes:
        about: what is decided, in a line.
        choices: by name, the published one first: words that an agent sees only if this is the choice.
        semantic: whether an answer for one choice is wrong for another.
    """

    name: Name
    about: Words
    choices: Mapping[str, tuple[Words, ...] | None]
    semantic: bool = True
    pieces: tuple[Piece, ...]

    @property
    def published(self) -> str:
        """The choice of the paper."""
        return next(iter(self.choices))

    def traces(self, choice: str) -> tuple[str, ...]:
        """Words that an agent sees only if this is the choice."""
        return self.choices[choice] or ()


class Survivor(Strict):
    """A fault that no case notices in some variant, and why none has to."""

    region: Words
    description: Words
    reason: Words


class _File(Strict):
    knobs: tuple[Knob, ...]
    names: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    survivors: tuple[Survivor, ...] = ()


@dataclass(frozen=True)
class _Part:
    """A stretch of a file that belongs to a knob."""

    start: int
    end: int
    knob: Knob
    piece: Piece
    number: int


@dataclass(frozen=True)
class _Slot:
    """A place in a file that reads otherwise for some choices of a knob, or for another word of a name."""

    key: str
    published: str
    reads: Mapping[str, tuple[_Item, ...]]


_Item = str | _Slot


class Knobs:
    """The knobs of one paper.

    Args:
        document: its ``variants.yaml``.
        files: the texts that are rendered, as published, by path; ``paper.md`` is one of them.

    Raises:
        PaperError: the file does not fit the paper; with the knob and the line.
    """

    def __init__(self, document: Document, files: Mapping[str, str]) -> None:
        declared = document.parse(_File)
        self.path = document.path
        self.knobs = declared.knobs
        self.names = declared.names
        self.survivors = declared.survivors
        self._files = dict(files)
        self._document = document
        self._check_knobs()
        self._check_names()
        self._templates = {path: self._template(path) for path in self._files}

    # --- what there is -------------------------------------------------------------------------

    @cached_property
    def by_name(self) -> Mapping[str, Knob]:
        """The knobs by their names."""
        return {knob.name: knob for knob in self.knobs}

    def chosen(self, paper: str, number: int) -> dict[str, str]:
        """The choices of a variant; of 0 the published ones, of any other at least one semantic one that is not.

        Args:
            paper: id of the published paper.
            number: of the variant.
        """
        if not number:
            return {}
        found = {
            knob.name: [*knob.choices][_draw(len(knob.choices), paper, number, "knob", knob.name)]
            for knob in self.knobs
        }
        of_meaning = [knob for knob in self.knobs if knob.semantic] or [*self.knobs]
        if all(found[knob.name] == knob.published for knob in of_meaning):
            knob = of_meaning[_draw(len(of_meaning), paper, number, "instead")]
            others = [*knob.choices][1:]
            found[knob.name] = others[_draw(len(others), paper, number, "instead", knob.name)]
        for name, others_ in self.names.items():
            words = (name, *others_)
            found[name] = words[_draw(len(words), paper, number, "name", name)]
        return {key: choice for key, choice in found.items() if choice != self._as_published(key)}

    def _as_published(self, key: str) -> str:
        return self.by_name[key].published if key in self.by_name else key

    # --- rendering -----------------------------------------------------------------------------

    def render(self, choices: Choices) -> dict[str, str]:
        """The files that read otherwise for these choices, by path."""
        rendered = {}
        for path, template in self._templates.items():
            made = "".join(_written(template, choices))
            if made != self._files[path]:
                rendered[path] = made
        return rendered

    def _template(self, path: str) -> tuple[_Item, ...]:
        """A file as stretches of text, and slots for what knobs and names decide."""
        text, named = self._files[path], path.endswith((".py", ".md"))
        tags = [tag.span() for tag in _TAG.finditer(text)]
        places: list[tuple[int, int, _Slot]] = []
        for part in self._placed(path):
            reads = {
                choice: tuple(self._with_names(read) if named else (read,))
                for choice, read in part.piece.reads.items()
            }
            places.append((part.start, part.end, _Slot(part.knob.name, part.knob.published, reads)))
        taken = [*tags, *((start, end) for start, end, _ in places)]
        for start, end, slot in self._slots(text) if named else ():
            if not any(start < until and begin < end for begin, until in taken):
                places.append((start, end, slot))
        return tuple(_filled(text, sorted(places, key=lambda place: place[0])))

    def _with_names(self, text: str) -> Iterator[_Item]:
        return _filled(text, self._slots(text))

    def _slots(self, text: str) -> Iterator[tuple[int, int, _Slot]]:
        if self.names:
            for found in _whole_words([*self.names]).finditer(text):
                name = found[0]
                words = {word: (word,) for word in (name, *self.names[name])}
                yield (*found.span(), _Slot(name, name, words))

    # --- checks --------------------------------------------------------------------------------

    def _check_knobs(self) -> None:
        for number, knob in enumerate(self.knobs):
            place = ("knobs", number)
            if knob.name == NAMES or knob.name in self.names:
                raise self._error(knob.name, "is the name of something else here", *place, "name")
            if any(other.name == knob.name for other in self.knobs[:number]):
                raise self._error(knob.name, "stands here twice", *place, "name")
            if len(knob.choices) < 2 or not knob.pieces:
                raise self._error(knob.name, "needs two choices and a piece", *place)
            for index, piece in enumerate(knob.pieces):
                if told := self._misfit(knob, piece):
                    raise self._error(knob.name, told, *place, "pieces", index)

    def _misfit(self, knob: Knob, piece: Piece) -> str:
        """What is wrong with a piece, before it is looked for."""
        if piece.file not in self._files:
            known = ", ".join(self._files)
            return f"there is no file {piece.file!r} to be rendered: {known}"
        if unknown := next((each for each in piece.reads if each not in knob.choices), None):
            return f"{piece.file}: reads for {unknown!r}, which is none of its choices"
        if not piece.reads.get(knob.published, "").strip():
            return f"{piece.file}: does not say how it reads for {knob.published!r}, as published"
        if len(set(piece.reads.values())) < 2:
            return f"{piece.file}: reads the same for every choice"
        return ""

    def _check_names(self) -> None:
        every = "\n".join(self._files.values())
        taken = {word for others in self.names.values() for word in others}
        for name, others in self.names.items():
            for word in (name, *others):
                if not word.isidentifier() or keyword.iskeyword(word):
                    raise self._error(NAMES, f"{word!r} cannot be a name in Python", "names", name)
            if not others:
                raise self._error(NAMES, f"{name} has no other name", "names", name)
            if not _whole_words([name]).search(every):
                raise self._error(NAMES, f"{name} stands in no file as a word", "names", name)
            for word in others:
                if _whole_words([word]).search(every):
                    raise self._error(NAMES, f"{word} stands in a file already", "names", name)
        if len(taken) != sum(len(others) for others in self.names.values()):
            raise self._error(NAMES, "two names have an alternative in common", "names")
        reads = (text for knob in self.knobs for one in knob.pieces for text in one.reads.values())
        for text in reads:
            if found := taken.intersection(re.findall(r"\w+", text)):
                word = min(found)
                raise self._error(NAMES, f"{word} stands in a piece: write its published name")

    def _placed(self, path: str) -> list[_Part]:
        text = self._files[path]
        parts = sorted(self._found(path, text), key=lambda one: one.start)
        for before, after in itertools.pairwise(parts):
            if after.start < before.end:
                line = text.count("\n", 0, after.start) + 1
                message = f"{path}:{line}: its text overlaps with one of {before.knob.name}"
                raise self._error(after.knob.name, message, *self._place(after))
        for tag in _TAG.finditer(text):
            for part in parts:
                if part.start < tag.end() and tag.start() < part.end:
                    line = text.count("\n", 0, tag.start()) + 1
                    message = f"{path}:{line}: its text holds a tag, which must stay as it is"
                    raise self._error(part.knob.name, message, *self._place(part))
        return parts

    def _found(self, path: str, text: str) -> Iterator[_Part]:
        for number, knob in enumerate(self.knobs):
            for index, piece in enumerate(knob.pieces):
                if piece.file != path:
                    continue
                start, stop = 0, len(text)
                if piece.within is not None:
                    self._count(number, index, text, piece.within, 1, "within")
                    start = text.index(piece.within)
                    stop = start + len(piece.within)
                wanted = piece.reads[knob.published]
                self._count(number, index, text[start:stop], wanted, piece.times, "reads")
                while (at := text.find(wanted, start, stop)) >= 0:
                    start = at + len(wanted)
                    yield _Part(at, start, knob, piece, index)

    def _count(self, number: int, index: int, text: str, what: str, times: int, key: str) -> None:
        found = text.count(what)
        if found == times:
            return
        knob = self.knobs[number]
        file, shown = knob.pieces[index].file, what if len(what) <= 70 else f"{what[:67]}..."
        fix = "" if not found else "; write more of it, or `within` or `times`"
        raise self._error(
            knob.name,
            f"{file}: {shown!r} stands there {found} times, not {times}{fix}",
            *("knobs", number, "pieces", index, key),
        )

    def _place(self, part: _Part) -> tuple[str | int, ...]:
        return ("knobs", self.knobs.index(part.knob), "pieces", part.number)

    def _error(self, knob: str, message: str, *place: str | int) -> PaperError:
        told = message if knob == NAMES else f"the knob {knob!r}: {message}"
        return self._document.error(told, *place)

    def line(self, knob: str) -> int:
        """Where a knob begins in the file."""
        return self._document.line("knobs", [one.name for one in self.knobs].index(knob))


def read_knobs(path: Path, files: Mapping[str, str]) -> Knobs:
    """The knobs that a file declares.

    Raises:
        PaperError: it is broken, or does not fit these texts.
    """
    return Knobs(read_yaml(path), files)


def _draw(count: int, paper: str, number: int, *what: str) -> int:
    """One of so many, by a hash: the same on every machine and in every version."""
    digest = hashlib.sha256("\0".join((paper, str(number), *what)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % count


def _whole_words(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)")


def _filled(text: str, places: Iterable[tuple[int, int, _Slot]]) -> Iterator[_Item]:
    """A text with slots at some places, which are in order."""
    end = 0
    for start, stop, slot in places:
        yield from (text[end:start], slot)
        end = stop
    yield text[end:]


def _written(items: Iterable[_Item], choices: Choices) -> Iterator[str]:
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            choice = choices.get(item.key, item.published)
            yield from _written(item.reads.get(choice, item.reads[item.published]), choices)
