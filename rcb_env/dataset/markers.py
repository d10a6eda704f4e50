"""The tags that mark challenges in a source file: find them, mask them, fill them.

A start tag is a comment line ``# <paper2code name="HINT">``, an end tag the same with
``</paper2code name="HINT">``; the lines between the two are a region, and every region is one
challenge. Regions nest. Such lines inside a string are text: they mark nothing and stay where they are.

Guarantees: pure functions from text to text. Text is bytes decoded with ``utf-8`` and
``surrogateescape``; lines end at line feeds only and keep their ends. So a byte that is not part of
an edit comes back exactly: CRLF, mixed line ends, tabs, form feeds, a byte order mark, no final
newline, bytes that are no UTF-8. Tag grammar, line count and placeholder follow the public
benchmark (ResearchCodeBench, arXiv 2506.02314).
Not covered: which files hold tags and what a challenge is called (`rcb_env.dataset.papers`); Python syntax.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rcb_env.dataset.layout import Layout, layout
from rcb_env.errors import PaperError

_START = re.compile(r'^(\s*)#\s*<paper2code\s+name="([^"]+)">\s*$')
_END = re.compile(r'^(\s*)#\s*</paper2code\s+name="([^"]+)">\s*$')
# A comment that means to be a tag. Passing over it would silently lose a challenge, so it is an
# error instead.
_ALMOST = re.compile(r"^[\s\ufeff]*#\s*<\s*/?\s*paper2code\b", re.IGNORECASE)
_MARK = "\ufeff"
_LONE_NEWLINE = re.compile(r"(?<!\r)\n")


@dataclass(frozen=True)
class Region:
    """The lines between one pair of tags.

    Attributes:
        name: the hint, as written in the tag; not unique, not even within one file.
        start: 0-based index of the start tag's line.
        end: 0-based index of the end tag's line.
        indent: leading white space of the least indented statement (of the tag, in an empty
            region).
        lines: lines of code by the public rule, see `count_code_lines`.
        parent: index, among the regions of the file, of the region that directly holds this one.
    """

    name: str
    start: int
    end: int
    indent: str
    lines: int
    parent: int | None


@dataclass(frozen=True)
class Masked:
    """A file with one region cut out.

    `before` and `after` are the frame; no tag line is left in them. `newline` is the one line end
    the annotated file uses, or "" if it uses both kinds.
    """

    before: str
    placeholder: str
    after: str
    newline: str = "\n"

    @property
    def text(self) -> str:
        """The masked file, as an agent sees it."""
        return self.before + self.placeholder + self.after

    def without_hint(self) -> Masked:
        """The same with a placeholder that does not say what is missing."""
        first, end, rest = self.placeholder.partition("\n")
        bare = first.partition(' "')[0] + ("\r" if first.endswith("\r") else "")
        return replace(self, placeholder=bare + end + rest)

    def fill(self, code: str) -> str:
        """The file with ``code`` in place of the region.

        Line ends of ``code`` become those of the file where the file has only one kind, and a
        missing final newline is added. An empty ``code`` leaves nothing between the two halves of
        the frame.
        """
        return self.before + fit(code, self.newline) + self.after

    def region_of(self, text: str) -> str | None:
        """What lies between the frame in ``text``; None if the frame is not there byte for byte.

        A byte order mark before it, which some editors and models write, is no part of the text.
        """
        for whole in (text, without_mark(text)):
            room = len(whole) - len(self.before) - len(self.after)
            if room >= 0 and whole.startswith(self.before) and whole.endswith(self.after):
                return whole[len(self.before) : len(self.before) + room]
        return None


def find_regions(text: str, *, path: str) -> tuple[Region, ...]:
    """All regions of a file, in the order of their start tags.

    Args:
        text: the annotated file.
        path: how messages name the file.

    Raises:
        PaperError: a tag is misspelt, unclosed, closes nothing, overlaps another region, or its end
            is indented unlike its start. The error carries the 1-based line.
    """
    lines = split_lines(text)
    shape = _layout(text)
    opened: list[int] = []
    found: list[tuple[str, int, str, int | None]] = []  # name, start, indent, parent
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        if number in shape.in_strings:
            continue
        if start := _START.match(line):
            found.append((start[2], number, start[1], opened[-1] if opened else None))
            opened.append(len(found) - 1)
        elif end := _END.match(line):
            ends[_close(end[2], end[1], number, opened, found, path)] = number
        elif _ALMOST.match(line):
            raise PaperError(
                f"this looks like a tag but is not one: {line.strip()!r}. Write"
                ' `# <paper2code name="HINT">` or `# </paper2code name="HINT">`, alone on its line',
                path=path,
                line=number + 1,
            )
    if opened:
        name, start_line, _, _ = found[opened[-1]]
        raise PaperError(
            f'the region "{name}" is never closed; add `# </paper2code name="{name}">`',
            path=path,
            line=start_line + 1,
        )
    return tuple(
        Region(
            name=name,
            start=start_line,
            end=ends[index],
            indent=tag_indent
            if (least := shape.indent_of(range(start_line + 1, ends[index]))) is None
            else least,
            lines=count_code_lines(lines[start_line + 1 : ends[index]]),
            parent=parent,
        )
        for index, (name, start_line, tag_indent, parent) in enumerate(found)
    )


def count_code_lines(lines: Iterable[str]) -> int:
    """Lines of code by the public rule: not blank, and something stands before the first ``#``."""
    return sum(1 for line in lines if line.split("#", 1)[0].strip())


def mask(text: str, region: Region, *, note: str = "") -> Masked:
    """Cut ``region`` out of the annotated file ``text``; all other tag lines go too.

    Args:
        text: the file.
        region: one of its regions.
        note: the second line of the placeholder; "": how many lines of code are missing.
    """
    newline = newline_of(text)
    end = newline or "\n"
    second = note or f"Approximately {region.lines} line(s) of code."
    return Masked(
        before=_untagged(text, 0, region.start),
        placeholder=(
            f'{region.indent}# TODO: Implement block "{region.name}"{end}'
            f"{region.indent}# {second}{end}"
        ),
        after=_untagged(text, region.end + 1),
        newline=newline,
    )


def mask_all(text: str, regions: Sequence[Region]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """The frame of a file around several regions, piece by piece, their placeholders, and its line end.

    Args:
        text: the annotated file.
        regions: some of its regions, in order; none lies in another one.
    """
    starts = [0, *(region.end + 1 for region in regions)]
    ends = [*(region.start for region in regions), None]
    return (
        tuple(_untagged(text, start, end) for start, end in zip(starts, ends, strict=True)),
        tuple(mask(text, region).placeholder for region in regions),
        newline_of(text),
    )


def body(text: str, region: Region) -> str:
    """The region's lines without the tag lines of inner regions."""
    return _untagged(text, region.start + 1, region.end)


def body_rows(text: str, region: Region) -> list[int]:
    """For each line of `body` the 0-based number it has in the annotated file."""
    return _untagged_rows(text, region.start + 1, region.end)


def rows_in_regions(text: str) -> set[int]:
    """The lines, from 1, of the file without tags that stand in some region of it."""
    regions = find_regions(text, path="")
    inside = {row for one in regions for row in range(one.start, one.end)}
    return {number for number, row in enumerate(_untagged_rows(text, 0, None), 1) if row in inside}


def raw_body(text: str, region: Region) -> str:
    """The region's lines, tag lines of inner regions included."""
    return "".join(split_lines(text)[region.start + 1 : region.end])


def splice(text: str, region: Region, code: str) -> str:
    """The annotated file with ``code`` between the region's two tag lines.

    ``splice(text, region, raw_body(text, region)) == text``, byte for byte.
    """
    lines = split_lines(text)
    return (
        "".join(lines[: region.start + 1])
        + fit(code, newline_of(text))
        + "".join(lines[region.end :])
    )


def without_mark(text: str) -> str:
    """Text without the byte order mark at its start, which inside a file is no Python."""
    return text.removeprefix(_MARK)


def strip_tags(text: str) -> str:
    """The file without any tag line."""
    return _untagged(text)


def fit(code: str, newline: str) -> str:
    """``code`` with a final newline, and with the file's line ends if the file has one kind."""
    if not code:
        return code
    if not code.endswith("\n"):
        code += newline or "\n"
    if newline == "\r\n":
        return _LONE_NEWLINE.sub("\r\n", code)
    if newline == "\n":
        return code.replace("\r\n", "\n")
    return code  # mixed: there is no style to follow, and changing one would break exactness


def split_lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends a line."""
    # str.splitlines would also split at form feeds, lone carriage returns and Unicode separators.
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _untagged(text: str, start: int = 0, end: int | None = None) -> str:
    """Lines ``start`` to ``end`` of a file without those that are tags in it."""
    lines = split_lines(text)
    return "".join(lines[row] for row in _untagged_rows(text, start, end))


def _untagged_rows(text: str, start: int, end: int | None) -> list[int]:
    in_strings = _layout(text).in_strings
    return [
        row
        for row, line in enumerate(split_lines(text)[start:end], start)
        if row in in_strings or not (_START.match(line) or _END.match(line))
    ]


@functools.lru_cache(maxsize=64)
def _layout(text: str) -> Layout:
    return layout(text)


def newline_of(text: str) -> str:
    """The one line end that a file uses, or "" if it uses both kinds."""
    if "\r\n" not in text:
        return "\n"
    return "" if _LONE_NEWLINE.search(text) else "\r\n"


def _close(
    name: str,
    indent: str,
    number: int,
    opened: list[int],
    found: list[tuple[str, int, str, int | None]],
    path: str,
) -> int:
    """Match an end tag with the innermost open region; returns that region's index."""
    if not opened:
        raise PaperError(
            f'this end tag closes nothing: no region "{name}" is open here',
            path=path,
            line=number + 1,
        )
    open_name, open_line, open_indent, _ = found[opened[-1]]
    if open_name != name:
        if any(found[index][0] == name for index in opened):
            reason = (
                f'the regions "{name}" and "{open_name}" (line {open_line + 1}) overlap;'
                " close the inner one first"
            )
        else:
            reason = (
                f'this end tag says "{name}" but the open region is "{open_name}"'
                f" (line {open_line + 1}); the names must be equal"
            )
        raise PaperError(reason, path=path, line=number + 1)
    if open_indent != indent:
        raise PaperError(
            f'the end tag of "{name}" is indented by {indent!r}, its start tag on line'
            f" {open_line + 1} by {open_indent!r}; they must be equal",
            path=path,
            line=number + 1,
        )
    return opened.pop()
