"""Several missing parts of a paper's code as one answer: the text of it, and the files it is put into.

The answer is one text. Each part of it stands below a line ``# region: NAME``, or ``# file: PATH``; a part that the text does not name stays the
placeholder it was. So an answer is stored, hashed and handed on like that of a single region, and it is what a model writes.

Guarantees: pure. `Holes.split` is the inverse of `Holes.join`, which leaves out a line of a code that would begin another part:
so none can hold one; files outside of the parts are as published, byte for byte. Text is as in `rcb_env.dataset.markers`.
Not covered: which parts make a challenge (`rcb_env.dataset.scopes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rcb_env.dataset import interface, markers
from rcb_env.dataset.markers import Masked, Region

_HEADER = re.compile(r"[ \t]*#+[ \t]*(?:region|file)[ \t]*:(?P<name>.+)", re.IGNORECASE)
_QUOTES = "\"'`*<>"


@dataclass(frozen=True)
class Hole:
    """One missing part.

    Attributes:
        name: how an answer calls it; unique in its paper.
        region: its place; of a file that is missing as a whole all of it.
        surface: what is left of such a file; None: it is a region.
    """

    name: str
    file: str
    region: Region
    surface: str | None = None

    @property
    def hint(self) -> str:
        """The short phrase that says what is missing."""
        return self.region.name

    @property
    def header(self) -> str:
        """The line that begins it in an answer."""
        return header(self.name, whole=self.surface is not None)


@dataclass(frozen=True)
class Holed:
    """A file with several regions cut out: the frame is one piece longer than the placeholders."""

    frame: tuple[str, ...]
    placeholders: tuple[str, ...]
    newline: str = "\n"

    @property
    def text(self) -> str:
        """The file, as an agent sees it at first."""
        return self.fill(self.placeholders)

    def without_hints(self) -> Holed:
        """The same with placeholders that do not say what is missing."""
        bare = (self.around(n).without_hint() for n in range(len(self.placeholders)))
        return replace(self, placeholders=tuple(one.placeholder for one in bare))

    def fill(self, codes: Sequence[str]) -> str:
        """The file with these codes in its holes; line ends are as in `Masked.fill`."""
        fitted = (markers.fit(code, self.newline) for code in codes)
        return self.frame[0] + "".join(
            code + piece for code, piece in zip(fitted, self.frame[1:], strict=True)
        )

    def around(self, number: int, codes: Sequence[str] | None = None) -> Masked:
        """The file around one hole, with these codes (None: the placeholders) in the other ones."""
        codes = self.placeholders if codes is None else codes
        left = Holed(self.frame[: number + 1], (), self.newline)
        right = Holed(self.frame[number + 1 :], (), self.newline)
        return Masked(
            before=left.fill(codes[:number]),
            placeholder=self.placeholders[number],
            after=right.fill(codes[number + 1 :]),
            newline=self.newline,
        )

    def codes_of(self, text: str, codes: Sequence[str]) -> tuple[str, ...] | None:
        """What the holes hold in ``text``; None if the frame is not there, byte for byte and in order.

        Where the frame's pieces occur several times, a change of one hole is seen as one. What is then left open matters to
        nobody who reads the file: every way to divide it gives the same text.

        Args:
            text: the whole file.
            codes: what the holes held before.
        """
        for number in range(len(codes)):
            code = self.around(number, codes).region_of(text)
            if code is not None:
                return (*codes[:number], code, *codes[number + 1 :])
        for whole in dict.fromkeys((text, markers.without_mark(text))):
            if (found := self.divided(whole)) is not None:
                return found
        return None

    def divides_in_one_way(self, text: str) -> bool:
        """Whether it is plain which line of such a text belongs to which hole."""
        text = markers.without_mark(text)
        turned = Holed(tuple(map(_turned, reversed(self.frame))), ())
        return self.divided(text) == tuple(
            map(_turned, reversed(turned.divided(_turned(text)) or ()))
        )

    def divided(self, text: str) -> tuple[str, ...] | None:
        """The text divided at the first place of each piece."""
        first, *middle, last = self.frame
        if not text.startswith(first) or len(text) < len(first) + len(last):
            return None
        end = len(text) - len(last)
        at, found = len(first), []
        for piece in middle:
            start = _at_line(text, piece, at, end)
            if start < 0:
                return None
            found.append(text[at:start])
            at = start + len(piece)
        return (*found, text[at:end]) if text.endswith(last) else None


def _turned(text: str) -> str:
    """The lines from the last to the first."""
    return "".join(reversed(markers.split_lines(text)))


def _at_line(text: str, piece: str, at: int, end: int) -> int:
    """Where a piece stands next, at the beginning of a line; -1: nowhere."""
    start = text.find(piece, at, end)
    while start > at and text[start - 1] != "\n":
        start = text.find(piece, start + 1, end)
    return start


class Holes:
    """The missing parts of one challenge, in the order of its files.

    Args:
        holes: the parts; none lies in another one.
        files: the annotated files they are in, by path.
    """

    def __init__(self, holes: Sequence[Hole], files: Mapping[str, str]) -> None:
        self._holes = tuple(holes)
        self._files = {hole.file: files[hole.file] for hole in holes}
        self.files = {path: self._holed(path) for path in self._files}
        """The files with the parts cut out."""

    def __iter__(self) -> Iterator[Hole]:
        return iter(self._holes)

    @property
    def whole(self) -> bool:
        """Whether files are missing as a whole, and no regions."""
        return self._holes[0].surface is not None

    def __len__(self) -> int:
        return len(self._holes)

    def _holed(self, path: str) -> Holed:
        text, holes = self._files[path], self.of(path)
        if (whole := holes[0].surface) is not None:
            return Holed(("", ""), (whole,), markers.newline_of(text))
        return Holed(*markers.mask_all(text, [hole.region for hole in holes]))

    def of(self, path: str) -> tuple[Hole, ...]:
        """The parts of one file."""
        return tuple(hole for hole in self._holes if hole.file == path)

    @cached_property
    def _names(self) -> dict[str, str]:
        """Names of parts by everything they may be called; what several may be called is none of them."""
        found: dict[str, str] = {}
        for words in (
            [_plain(hole.hint) for hole in self._holes],
            self._numbers,
            [_plain(hole.name) for hole in self._holes],
        ):
            found |= {
                word: hole.name
                for word, hole in zip(words, self._holes, strict=True)
                if words.count(word) == 1
            }
        return found

    @cached_property
    def _numbers(self) -> list[str]:
        """Names that say nothing, and that are no part's own."""
        taken = {_plain(words) for hole in self._holes for words in (hole.name, hole.hint)}
        kind = "part"
        while any(words.startswith(f"{kind}-") for words in taken):
            kind = f"missing-{kind}"
        return [f"{kind}-{number}" for number in range(1, len(self._holes) + 1)]

    def named(self, words: str) -> str | None:
        """The part that is called so; None: none is."""
        name = _bare(words)
        exact = any(hole.name == name for hole in self._holes)
        return name if exact else self._names.get(name.lower())

    def shown(self, hole: Hole, *, with_hint: bool) -> str:
        """What an agent is told to call a part: a name that says nothing, where hints are not shown."""
        return (
            hole.name
            if with_hint or hole.surface is not None
            else self._numbers[self._holes.index(hole)]
        )

    # --- answers ------------------------------------------------------------------------------

    def _begins(self, line: str) -> str | None:
        found = _HEADER.match(line)
        return self.named(found["name"].strip()) if found else None

    def split(self, answer: str) -> dict[str, str]:
        """The codes of an answer by the names of their parts; the last of a name counts.

        What stands before the first line that names a part belongs to none, or, where there is one part only, to that.
        """
        found: dict[str, list[str]] = {}
        before: list[str] = []
        lines = before
        for line in markers.split_lines(markers.without_mark(answer)):
            name = self._begins(line)
            if name is not None:
                lines = found[name] = []
            else:
                lines.append(line)
        if len(self) == 1 and "".join(before).strip():
            found.setdefault(self._holes[0].name, before)
        return {name: "".join(lines) for name, lines in found.items()}

    def join(self, codes: Mapping[str, str]) -> str:
        """The text of an answer with these codes by the names of their parts."""
        return "".join(
            f"{hole.header}\n{self._bare(markers.fit(codes[hole.name], ''))}"
            for hole in self._holes
            if hole.name in codes
        )

    def _bare(self, code: str) -> str:
        if "#" not in code:
            return code
        return "".join(line for line in markers.split_lines(code) if not self._begins(line))

    def codes(self, answer: str, *, with_hint: bool = True) -> dict[str, str]:
        """What each part holds by an answer: its code, else its placeholder."""
        return {**self.placeholders(with_hint=with_hint), **self.split(answer)}

    def placeholders(self, *, with_hint: bool = True) -> dict[str, str]:
        """What each part holds at first."""
        return {
            hole.name: placeholder
            for path, file in self.files.items()
            for hole, placeholder in zip(
                self.of(path),
                (file if with_hint or self.whole else file.without_hints()).placeholders,
                strict=True,
            )
        }

    def merged(self, answer: str, before: str) -> str:
        """An answer with the parts it does not name as in another one."""
        return self.join({**self.split(before), **self.split(answer)})

    def fitted(self, hole: Hole, code: str) -> str:
        """A code as it stands in its file: with a final newline, and the file's line ends."""
        return markers.fit(code, self.files[hole.file].newline)

    def filled(self, codes: Mapping[str, str]) -> dict[str, str]:
        """The files with a code for each part."""
        return {
            path: file.fill([codes[hole.name] for hole in self.of(path)])
            for path, file in self.files.items()
        }

    @cached_property
    def references(self) -> dict[str, str]:
        """The code that stands in each part, without tags."""
        return {
            hole.name: markers.body(self._files[hole.file], hole.region)
            if hole.surface is None
            else markers.strip_tags(self._files[hole.file])
            for hole in self._holes
        }

    def defines(self, hole: Hole, others: Mapping[str, str]) -> tuple[str, ...]:
        """What code outside of all parts reads from one, see `rcb_env.dataset.interface`; a surface says it itself.

        Args:
            hole: the part.
            others: the files without any part, by path.
        """
        if hole.surface is not None:
            return ()
        passes = {each.name: f"{each.region.indent}pass\n" for each in self._holes}
        bare = self.filled(passes)
        del bare[hole.file]
        beside = self.of(hole.file)
        masked = self.files[hole.file].around(
            beside.index(hole), [passes[each.name] for each in beside]
        )
        first = masked.before.count("\n") + 1
        code = self.references[hole.name]
        return interface.defines(
            masked.fill(code),
            range(first, first + code.count("\n")),
            file=hole.file,
            others={**others, **bare},
        )


def header(name: str, *, whole: bool) -> str:
    """The line that begins a part of an answer."""
    return f"# {'file' if whole else 'region'}: {name}"


def _plain(words: str) -> str:
    """A name without its quotes, in lower case, blanks as one."""
    return _bare(words).lower()


def _bare(words: str) -> str:
    """A name without its quotes, blanks as one."""
    return " ".join(words.strip(_QUOTES + " \t").split())
