"""What an agent sees of a challenge, and the regions it may change. Pure, in memory.

The files are a mapping from path to bytes that the driver holds; no file system is behind it. A path
is a key of that mapping or an error, so ``..``, absolute paths and links lead nowhere by
construction, for reading as for writing.

Guarantees: an edit is accepted only if the text around the regions, the frame, is still
there byte for byte; else nothing changes. What is graded is exactly what is shown. Every
mistake of an agent is a `WorkspaceError` with a text for it; no pattern or patch hangs the driver.
Not covered: budgets and tests (`rcb_env.env.environment`); how single edits work (`rcb_env.env.edits`,
`rcb_env.env.patches`), and where they may go (`rcb_env.env.writable`).
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import regex  # type: ignore[import-untyped]

from rcb_env.dataset.papers import Challenge
from rcb_env.dataset.sections import Sections
from rcb_env.env import edits, patches
from rcb_env.env.edits import EditError, cut, lines_of, numbered, without_end
from rcb_env.env.settings import Shown, fingerprint
from rcb_env.env.writable import span, writable
from rcb_env.errors import counted

SEARCH_TIME_LIMIT_S = 1.0  # for one search over all files
MAX_MATCHES = 100
MAX_LINE_CHARS = 400  # of one matching line

# The `regex` package writes counted repeats out when it compiles, which no time-out covers: nested
# ones take minutes and gigabytes. The product of all counts bounds how much is written out. With the
# verbose flag blanks and comments could hide counts.
_MAX_REPEATS = 10_000
_COUNTS = re.compile(r"\{([0-9]*),?([0-9]*)\}")
_VERBOSE_FLAG = re.compile(r"\(\?[\w-]*x")
# Matching a pattern inside itself takes memory without bound, faster than the time-out.
_RECURSION = re.compile(r"\(\?(?:R|[0-9]|&|P>)")


class WorkspaceError(ValueError):
    """A call that cannot be done; the text is for the agent."""


@dataclass(frozen=True)
class Snapshot:
    """A state of a workspace: the region's text, and what it was before each edit."""

    region: str
    history: tuple[str, ...] = ()
    trail: tuple[bytes, ...] = ()
    """For each text of the history a digest of it and all before it."""

    def edited(self, region: str) -> Snapshot:
        """The state after an edit."""
        before = self.trail[-1] if self.trail else bytes(32)
        link = hashlib.sha256(before + _bytes(self.region)).digest()
        return Snapshot(region, (*self.history, self.region), (*self.trail, link))


def code_hash(code: str) -> str:
    """SHA-256 of a region's text, as steps and episodes are recorded with."""
    return hashlib.sha256(_bytes(code)).hexdigest()


class Workspace:
    """The files of one challenge.

    Args:
        challenge: whose.
        shown: what of it is shown.
    """

    def __init__(self, challenge: Challenge, shown: Shown = Shown()) -> None:  # noqa: B008 - frozen
        self._challenge = challenge
        self._shown = shown
        self._writable = writable(challenge, shown)
        self._state = Snapshot(self._writable.placeholder)

    # --- state --------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The region's present text; what is graded."""
        return self._state.region

    @property
    def changed(self) -> bool:
        """Whether the region is something else than the placeholder."""
        return self.code != self._writable.placeholder

    @property
    def state_hash(self) -> str:
        """SHA-256 of all that later calls depend on: same hash, same answers, on any machine.

        The files of the challenge, what of it is shown, the region, and what `undo` would bring
        back.
        """
        challenge = self._challenge
        fixed = f"{challenge.id}\0{challenge.content_hash}\0{fingerprint(self._shown)}\0"
        last = self._state.trail[-1] if self._state.trail else bytes(32)
        return hashlib.sha256(fixed.encode() + last + _bytes(self.code)).hexdigest()

    def snapshot(self) -> Snapshot:
        """The present state; it never changes."""
        return self._state

    def restore(self, snapshot: Snapshot) -> None:
        """Go back (or forth) to a state of a workspace of the same challenge."""
        self._state = snapshot

    def region_lines(self) -> str:
        """Where the region is now, in words; of several all of them."""
        return self._writable.where(self.code)

    @property
    def not_shown(self) -> tuple[str, ...]:
        """Paths of the files that tests can use and nobody is shown here."""
        return tuple(path for path in self._challenge.paper.files if path not in self._texts)

    # --- looking ------------------------------------------------------------------------------

    def list_files(self, path: str | None = None) -> str:
        """The files, with their numbers of lines.

        Args:
            path: only the files below this folder, or this file.
        """
        return "\n".join(self._described(name) for name in self._below(path))

    def read_file(self, path: str, start: int | None = None, end: int | None = None) -> str:
        """Numbered lines of a file.

        Args:
            path: the file.
            start: first line, from 1; None: the first.
            end: last line, included; None: the last. One beyond the end means the last.
        """
        text = self._text(self._file(path))
        crlf = " (CRLF line ends)" if "\r\n" in text else ""
        return _excerpt(path, text, start, end, crlf)

    def read_paper(self, start: int | None = None, end: int | None = None) -> str:
        """Numbered lines of the paper; the arguments are those of `read_file`."""
        if not self._shown.with_paper:
            raise WorkspaceError("read_paper: the paper is not part of this task")
        return _excerpt("the paper", self._paper, start, end, "")

    def search(self, pattern: str, path: str | None = None) -> str:
        """The lines that match a regular expression (of the `regex` package).

        Args:
            pattern: searched in each line by itself.
            path: only this file, or the files below this folder.
        """
        compiled = _compiled(pattern)
        # Without quantifiers nothing can take long, and a time-out costs ten times the search.
        needs_limit = any(sign in pattern for sign in "*+?{")
        deadline = time.monotonic() + SEARCH_TIME_LIMIT_S
        found: list[str] = []
        for name in self._below(path):
            for number, line in enumerate(lines_of(self._text(name)), 1):
                try:
                    limit = _time_left(deadline) if needs_limit else None
                    hit = compiled.search(without_end(line), timeout=limit)
                except (TimeoutError, MemoryError):
                    raise WorkspaceError(
                        f"search: gave up at {name} line {number}, after at most {SEARCH_TIME_LIMIT_S:g} s;"
                        " use a simpler pattern, without nested repeats"
                    ) from None
                if hit:
                    found.append(f"{name}:{number}: {cut(without_end(line), MAX_LINE_CHARS)}")
                if len(found) > MAX_MATCHES:
                    return "\n".join([*found[:-1], f"[only the first {MAX_MATCHES} matches]"])
        where = f"in {path}" if path else "in any file"
        return "\n".join(found) or f"no line {where} matches {cut(pattern)!r}"

    # --- editing ------------------------------------------------------------------------------

    def write_region(self, code: str) -> str:
        """Put ``code`` in place of the whole region; of several regions in place of those it names.

        It gets the line ends of the file. If it stands at another indent than the region and can
        plainly be moved, it is moved, and the answer says so.
        """
        try:
            region, told = self._writable.written(code, self.code)
        except EditError as error:
            raise WorkspaceError(str(error)) from None
        self._change(region)
        return told

    def replace(self, old: str, new: str, path: str | None = None) -> str:
        """Replace a text that occurs exactly once in the region's file.

        ``old`` may reach into the frame if ``new`` has the same text there.
        """
        if path is not None and self._file(path) not in self._writable.files:
            raise WorkspaceError(f"replace: {path} may not change; {self._limits()}")
        if path is None and len(self._writable.files) > 1:
            raise WorkspaceError(
                f"replace: say which file with 'path': {', '.join(self._writable.files)}"
            )
        before = self.code
        path = path or self._writable.files[0]
        try:
            text = edits.replace_once(self._text(path), old, new, self._writable.newline(path))
            self._change_files("replace", {path: text})
        except EditError as error:
            raise WorkspaceError(str(error)) from None
        return f"replaced: {self._writable.where(self.code, before)}"

    def apply_patch(self, patch: str) -> str:
        """Apply a unified diff of the files with regions; see `rcb_env.env.patches` for its rules."""
        before, files = self.code, self._writable.files
        try:
            texts, notes = patches.apply_patches(
                {path: self._text(path) for path in files},
                patch,
                paths=self._challenge.paper.files,
                newlines={path: self._writable.newline(path) for path in files},
            )
            self._change_files("apply_patch", texts)
        except EditError as error:
            raise WorkspaceError(str(error)) from None
        return "; ".join([f"patched: {self._writable.where(self.code, before)}", *notes])

    def undo(self) -> str:
        """Take back the last edit."""
        if not self._state.history:
            raise WorkspaceError("undo: there is no edit to take back")
        *history, region = self._state.history
        self._state = Snapshot(region, tuple(history), self._state.trail[:-1])
        left = len(history)
        return f"took back the last edit, {left} left: {self.region_lines()}"

    def _change_files(self, tool: str, texts: Mapping[str, str]) -> None:
        code: str | None = self.code
        for path, text in texts.items():
            code = None if code is None else self._writable.with_text(path, text, code)
        if code is None:
            raise WorkspaceError(
                f"{tool}: nothing was changed, because lines outside the region would change;"
                f" {self._limits()}"
            )
        self._change(code, tool)

    def _change(self, code: str, tool: str = "write_region") -> None:
        if code == self.code:
            raise WorkspaceError(f"{tool}: the region already holds exactly this")
        self._state = self._state.edited(code)

    def _limits(self) -> str:
        return f"{self._writable.only}: {self.region_lines()}"

    # --- files --------------------------------------------------------------------------------

    @cached_property
    def _paper(self) -> str:
        text = self._challenge.paper.text
        if self._shown.paper == "full":
            return text
        sections = Sections(text, *self._challenge.topic(with_hint=self._shown.with_hint))
        return sections.joined(sections.best())

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {
            path: data.decode("utf-8", "surrogateescape")
            for path, data in sorted(self._challenge.workspace().items())
            if self._shown.with_context or self._challenge.is_open or path in self._writable.files
        }

    def _text(self, path: str) -> str:
        if path in self._writable.files:
            return self._writable.text(path, self.code)
        return self._texts[path]

    def _file(self, path: str) -> str:
        if path in self._texts:
            return path
        raise WorkspaceError(self._no_such(path, "file"))

    def _below(self, path: str | None) -> list[str]:
        """The file called ``path``, or the files of that folder; None, "" and ".": all."""
        if path in (None, "", ".", "./"):
            return list(self._texts)
        assert path is not None
        if path in self._texts:
            return [path]
        folder = path.removesuffix("/") + "/"
        found = [name for name in self._texts if name.startswith(folder)]
        if not found:
            raise WorkspaceError(self._no_such(path, "file or folder"))
        return found

    def _no_such(self, path: str, kind: str) -> str:
        shown = repr(cut(path, 200))
        if "\0" in path:
            return f"no such {kind} {shown}: a path holds no NUL"
        if path.startswith(("/", "\\", "~")):
            return (
                f"no such {kind} {shown}: paths are relative, such as {self._writable.files[0]!r}"
            )
        if ".." in path.replace("\\", "/").split("/"):
            return f"no such {kind} {shown}: there is nothing outside the workspace"
        near = difflib.get_close_matches(path[:200], self._texts, n=1, cutoff=0.4)
        same_name = [n for n in self._texts if n.rpartition("/")[2] == path.rpartition("/")[2]]
        meant = (same_name or near)[:1]
        hint = f"; did you mean {meant[0]!r}?" if meant else "; list_files shows all"
        return f"no such {kind} {shown}{hint}"

    def _described(self, path: str) -> str:
        mark = f"; {self._writable.marked(path)}" if path in self._writable.files else ""
        return f"{path}  ({counted(len(lines_of(self._text(path))), 'line')}{mark})"


def _bytes(text: str) -> bytes:
    # A model may have written half a character, which UTF-8 cannot carry.
    return text.encode("utf-8", "surrogatepass")


def _time_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:  # the `regex` package would take this for "no limit"
        raise TimeoutError
    return left


def _compiled(pattern: str) -> regex.Pattern[str]:
    if "{" in pattern:
        counts = (count for pair in _COUNTS.findall(pattern) for count in pair if count)
        # Nine digits are far too many already, and int() refuses very long numbers.
        repeats = math.prod(max(int(count[:9]), 1) for count in counts)
        if repeats > _MAX_REPEATS or _VERBOSE_FLAG.search(pattern):
            raise WorkspaceError(
                "search: the counted repeats of this pattern are too large; use * or + instead"
            )
    if _RECURSION.search(pattern):
        raise WorkspaceError("search: patterns that call themselves are not supported")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        reason = cut(" ".join(str(error).split())) or type(error).__name__
        raise WorkspaceError(
            f"search: {cut(pattern)!r} is not a regular expression: {reason};"
            " put a backslash before ( ) [ ] { } . * + ? | ^ $ to find them as they are"
        ) from None


def _excerpt(name: str, text: str, start: int | None, end: int | None, remark: str) -> str:
    lines = lines_of(text)
    if not lines:
        return f"{name} is empty"
    first, last = start or 1, min(end or len(lines), len(lines))
    if first > len(lines):
        raise WorkspaceError(
            f"{name} has {counted(len(lines), 'line')}; line {first} is beyond its end"
        )
    if first > last:
        raise WorkspaceError(f"the first line, {first}, comes after the last, {last}")
    heading = f"{name}, {span(first, last)} of {len(lines)}{remark}"
    return f"{heading}\n{numbered(lines[first - 1 : last], first)}"
