"""What of a challenge's files may be written: one region, or several of them.

A state is one text, the one that is graded. Guarantees: what a file shows is what is graded, byte for byte; a state that an
edit leads to differs in the regions only.
Not covered: how an edit is made (`rcb_env.env.edits`, `rcb_env.env.patches`); history (`rcb_env.env.workspace`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rcb_env.dataset.holes import Hole, Holes, header
from rcb_env.dataset.markers import Masked
from rcb_env.dataset.papers import Challenge
from rcb_env.env import edits
from rcb_env.env.edits import EditError, lines_of
from rcb_env.env.settings import Shown
from rcb_env.errors import counted


class Writable(Protocol):
    """The part of a challenge that may change."""

    files: tuple[str, ...]
    """The files it lies in."""
    placeholder: str
    """The state at first."""
    only: str
    """What may change, in words, for a message."""

    def text(self, path: str, code: str) -> str:
        """A file in this state."""
        ...

    def newline(self, path: str) -> str:
        """The line end of a file; "": it has both."""
        ...

    def with_text(self, path: str, text: str, code: str) -> str | None:
        """The state in which a file is this text; None: something else than regions would change."""
        ...

    def written(self, given: str, code: str) -> tuple[str, str]:
        """The state after ``given`` was written, and what was done to it, in words.

        Raises:
            EditError: it cannot be told where it belongs.
        """
        ...

    def where(self, code: str, before: str | None = None) -> str:
        """Where the regions are, in words; only those that differ from the state before, where there is one."""
        ...

    def marked(self, path: str) -> str:
        """What a list of files says of one of these files."""
        ...


def writable(challenge: Challenge, shown: Shown) -> Writable:
    """What may be written of a challenge."""
    if challenge.holes is None:
        masked = challenge.masked()
        return OneRegion(challenge, masked if shown.with_hint else masked.without_hint())
    return Regions(challenge.holes, with_hint=shown.with_hint)


class OneRegion:
    """The region of a challenge. A state is its text."""

    only = "only the region may change"

    def __init__(self, challenge: Challenge, masked: Masked) -> None:
        self._masked = masked
        self._indent = challenge.region.indent
        self.files: tuple[str, ...] = (challenge.file,)
        self.placeholder = masked.placeholder

    def text(self, path: str, code: str) -> str:  # noqa: ARG002 - there is one
        """The file, with the region's text in it."""
        return self._masked.before + code + self._masked.after

    def newline(self, path: str) -> str:  # noqa: ARG002 - there is one
        """Its line end."""
        return self._masked.newline

    def with_text(self, path: str, text: str, code: str) -> str | None:  # noqa: ARG002 - as above
        """The region in a file that is this text."""
        region = self._masked.region_of(text)
        return None if region is None else self._canonical(region)

    def written(self, given: str, code: str) -> tuple[str, str]:  # noqa: ARG002 - all of it is new
        """The region as it is given; at another indent than its own it is moved, where that is plainly meant."""
        moved = edits.reindented(given, self._indent)
        region = self._canonical(given if moved is None else moved)
        note = "" if moved is None else f"; indented to {width(self._indent)} like the region"
        return region, f"wrote {counted(len(lines_of(region)), 'line')}: {self.where(region)}{note}"

    def where(self, code: str, before: str | None = None) -> str:  # noqa: ARG002 - there is one
        """The lines of the region."""
        return place(self.files[0], self._masked.before, code, "region")

    def marked(self, path: str) -> str:  # noqa: ARG002 - there is one
        """That the region is in it."""
        return "the region to write is in it"

    def _canonical(self, region: str) -> str:
        # Through `fill`, so that the text shown is the text graded: a final newline, and the
        # file's line ends.
        canonical = self._masked.region_of(self._masked.fill(region))
        assert canonical is not None  # `fill` puts the frame around it
        return canonical


class Regions:
    """Several regions. A state is an answer that names all of them."""

    def __init__(self, holes: Holes, *, with_hint: bool) -> None:
        self._holes = holes
        self._with_hint = with_hint
        self._kind = "file" if holes.whole else "region"
        self.only = f"only the {self._kind}s may change"
        self.files: tuple[str, ...] = tuple(holes.files)
        self.placeholder = holes.join(holes.placeholders(with_hint=with_hint))

    def text(self, path: str, code: str) -> str:
        """The file with its regions."""
        return self._holes.files[path].fill(self._of(path, code))

    def newline(self, path: str) -> str:
        """Its line end."""
        return self._holes.files[path].newline

    def with_text(self, path: str, text: str, code: str) -> str | None:
        """The state with the regions of a file that is this text."""
        file, before = self._holes.files[path], self._of(path, code)
        found = file.codes_of(text, before)
        if found is None:
            return None
        changed = sum(one != other for one, other in zip(found, before, strict=True))
        if changed > 1 and not file.divides_in_one_way(text):
            raise EditError(
                "nothing was changed: it cannot be told which lines belong to which region; change one region at a time"
            )
        own = (hole.name for hole in self._holes.of(path))
        return self._joined({**self._codes(code), **dict(zip(own, found, strict=True))})

    def written(self, given: str, code: str) -> tuple[str, str]:
        """The state with the regions that are named in it; each is moved to its own indent, where that is plainly meant."""
        codes = self._holes.split(given)
        if not codes:
            raise EditError(
                f"write_region: there are several {self._kind}s: begin the code of each with a line"
                f" '{header('NAME', whole=self._holes.whole)}'; the names are"
                f" {', '.join(self._shown(self._holes))}"
            )
        moved = []
        for hole in self._holes:
            if hole.name in codes:
                better = edits.reindented(codes[hole.name], hole.region.indent)
                if better is not None:
                    codes[hole.name] = better
                    moved.append(hole)
        state = self._joined({**self._codes(code), **codes})
        note = f"; moved to their indents: {', '.join(self._shown(moved))}" if moved else ""
        count = f"{len(codes)} of {counted(len(self._holes), self._kind)}"
        return state, f"wrote {count}: {self.where(state, code)}{note}"

    def where(self, code: str, before: str | None = None) -> str:
        """The lines of each region; only of those that differ from the state before, where there is one."""
        codes = self._codes(code)
        was = {} if before is None else self._codes(before)
        told = []
        for hole in self._holes:
            if codes[hole.name] != was.get(hole.name):
                beside = self._holes.of(hole.file)
                around = self._holes.files[hole.file].around(
                    beside.index(hole), [codes[each.name] for each in beside]
                )
                (name,) = self._shown([hole])
                where = place(hole.file, around.before, codes[hole.name], name)
                told.append(where if self._holes.whole else f"{name}: {where}")
        return "; ".join(told)

    def marked(self, path: str) -> str:
        """How many regions are in it."""
        if self._holes.whole:
            return "to be written"
        count = len(self._holes.of(path))
        return "a region to write is in it" if count == 1 else f"{count} regions to write are in it"

    def _shown(self, holes: Iterable[Hole]) -> list[str]:
        return [self._holes.shown(hole, with_hint=self._with_hint) for hole in holes]

    def _codes(self, code: str) -> dict[str, str]:
        return self._holes.codes(code, with_hint=self._with_hint)

    def _of(self, path: str, code: str) -> list[str]:
        codes = self._codes(code)
        return [codes[hole.name] for hole in self._holes.of(path)]

    def _joined(self, codes: dict[str, str]) -> str:
        holes = self._holes
        return holes.join({hole.name: holes.fitted(hole, codes[hole.name]) for hole in holes})


def place(path: str, before: str, code: str, what: str) -> str:
    """Which lines of a file a code has."""
    first = before.count("\n") + 1
    count = len(lines_of(code))
    if not count:
        return f"{path}, nothing before line {first} (the {what} is empty)"
    return f"{path} {span(first, first + count - 1)}"


def span(first: int, last: int) -> str:
    """Lines by their numbers."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def width(indent: str) -> str:
    """An indent in words."""
    if not indent:
        return "column 0"
    kind = "tab" if set(indent) == {"\t"} else "blank" if set(indent) == {" "} else "character"
    return f"{len(indent)} {kind}{'s' if len(indent) != 1 else ''}"
