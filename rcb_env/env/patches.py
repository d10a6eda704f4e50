"""Apply a unified diff to one text, or to several. Pure.

Guarantees: a diff is applied as a whole or not at all, and only to the files that may change;
context lines keep the bytes of the file. How a hunk finds its place:

1. where its header says, if the lines it keeps and removes stand there;
2. else at the one other place where they stand (reported as an offset);
3. else not at all: with several such places the hunk is ambiguous, with none it does not fit, and
   then the nearest lines of the file are shown. A hunk that keeps and removes nothing goes where
   its header says.

Lines are compared without their line ends, and exactly otherwise. The line counts in hunk headers
are not trusted; models get them wrong, and the hunk's own lines say it all.
Not covered: which part of the file may change (`rcb_env.env.workspace`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from rcb_env.env.edits import EditError, cut, lines_of, nearest, without_end

_HUNK = re.compile(r"^@@ -([0-9]{1,9})(?:,[0-9]+)? \+([0-9]{1,9})(?:,[0-9]+)? @@")
_HUNK_COUNTS = re.compile(r"^@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@")
# git's prefixes: a/ and b/, with diff.mnemonicPrefix c/ i/ o/ w/, with --no-index 1/ and 2/.
_SOURCE_PREFIX = re.compile(r"^[acio1]/")
_TARGET_PREFIX = re.compile(r"^[biow2]/")
_NOWHERE = "/dev/null"
_NO_HUNK = (
    "apply_patch: there is no hunk in this patch; it needs file lines '--- a/PATH' and"
    " '+++ b/PATH', a line such as '@@ -12,3 +12,4 @@', and lines that begin with"
    " a blank, '-' or '+'"
)


@dataclass
class _Section:
    """What a diff says about one file, as text."""

    source: str = ""
    target: str = ""
    marks: str = ""  # "added", "deleted", "renamed", "binary"; from git's own header lines
    hunks: list[list[str]] | None = None

    def add_hunk(self, lines: list[str]) -> None:
        self.hunks = [*(self.hunks or []), lines]


@dataclass(frozen=True)
class _Hunk:
    number: int
    stated: int  # 0-based line where its header puts it
    lines: tuple[tuple[str, str], ...]  # (" ", "-" or "+", line without its end)

    @property
    def source(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "+"]


def apply_patch(
    text: str, patch: str, *, path: str, paths: Collection[str], newline: str
) -> tuple[str, tuple[str, ...]]:
    """Apply a unified diff to one file.

    Args:
        text: the file.
        patch: the diff; fences and prose around it, missing ``a/`` and ``b/``, missing file lines
            and wrong line numbers and counts are tolerated.
        path: the only file that may change.
        paths: every file there is, to tell a folder called ``a`` from the prefix ``a/``.
        newline: line end of added lines; "": that of the line before.

    Returns:
        The changed text, and what was not as the diff said.

    Raises:
        EditError: nothing was changed, and why.
    """
    texts, notes = apply_patches({path: text}, patch, paths=paths, newlines={path: newline})
    return texts[path], notes


def apply_patches(
    texts: Mapping[str, str], patch: str, *, paths: Collection[str], newlines: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Apply a unified diff to all files that may change, see `apply_patch`.

    Args:
        texts: these files, by path; where there are several, the diff has to name those it is of.
        patch: the diff.
        paths: every file there is.
        newlines: the line ends of these files.

    Returns:
        The files that the diff is of, and what was not as the diff said.

    Raises:
        EditError: nothing was changed, and why.
    """
    only = next(iter(texts)) if len(texts) == 1 else ""
    sections = _sections(patch, only)
    if not only and any(not section.source for section in sections):
        raise EditError(
            "apply_patch: this patch does not say of which file it is; begin it with the lines"
            " '--- a/PATH' and '+++ b/PATH'"
        )
    _refuse_other_files(sections, [*texts], paths)
    changed, notes = {}, list[str]()
    for path, text in texts.items():
        own = [one for one in sections if _resolved(one.source, one.target, paths)[0] == path]
        if own or only:
            changed[path], more = _applied(text, own, path, newlines[path])
            notes += more if only else (f"{path}: {note}" for note in more)
    if not changed:
        raise EditError(_NO_HUNK)
    return changed, tuple(notes)


def _applied(
    text: str, sections: Sequence[_Section], path: str, newline: str
) -> tuple[str, Sequence[str]]:
    hunks: list[_Hunk] = []
    for section in sections:
        hunks += _parsed(section, path, first=len(hunks) + 1)
    if not hunks:
        raise EditError(_NO_HUNK)
    if all(kind == " " for hunk in hunks for kind, _ in hunk.lines):
        raise EditError("apply_patch: the hunks have no line with '-' or '+', so nothing changes")
    lines = lines_of(text)
    keys = [without_end(line) for line in lines]
    notes: list[str] = []
    placed: list[tuple[int, _Hunk]] = []
    for hunk in hunks:
        place = _place(hunk, keys)
        if place != hunk.stated:
            notes.append(
                f"hunk {hunk.number} fits at line {place + 1}, not at line {hunk.stated + 1}"
            )
        placed.append((place, hunk))
    return _patched(lines, sorted(placed, key=lambda item: item[0]), newline), notes


def _sections(patch: str, path: str) -> list[_Section]:
    """Cut a diff into files and hunks. Only the cutting is done here, unidiff reads the pieces."""
    lines = patch.replace("\r\n", "\n").split("\n")
    if any(line.startswith("*** Begin Patch") for line in lines):
        raise EditError(
            "apply_patch: this is not a unified diff; write '--- a/PATH', '+++ b/PATH' and"
            " '@@ -12,3 +12,4 @@' lines instead of '*** Begin Patch'"
        )
    sections: list[_Section] = []
    from_git = False  # the newest section was opened by "diff --git" and has no file lines yet
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("diff --git "):
            sections.append(_Section(*_git_names(line)))
            from_git = True
        elif line.startswith("--- ") and lines[number + 1 : number + 2] != []:
            following = lines[number + 1]
            if following.startswith("+++ "):
                names = _file_name(line), _file_name(following)
                if not (from_git and _goes_on(sections[-1], names)):
                    sections.append(_Section())
                sections[-1].source, sections[-1].target = names
                from_git = False
                number += 1
        elif line.startswith("@@"):
            if not _HUNK.match(line):
                raise EditError(
                    f"apply_patch: the hunk header on line {number + 1} of the patch,"
                    f" {cut(line)!r}, has no line numbers; write '@@ -12,3 +12,4 @@'"
                )
            if not sections:
                sections.append(_Section(path, path))
            end = _end_of_hunk(lines, number)
            sections[-1].add_hunk(lines[number:end])
            from_git = False
            number = end - 1
        elif sections and not sections[-1].hunks:
            sections[-1].marks = _mark(line) or sections[-1].marks
        number += 1
    return sections


def _mark(line: str) -> str:
    marks = {
        "new file mode ": "added",
        "deleted file mode ": "deleted",
        "rename from ": "renamed",
        "copy from ": "added",
        "Binary files ": "binary",
        "GIT binary patch": "binary",
    }
    return next((mark for start, mark in marks.items() if line.startswith(start)), "")


def _git_names(line: str) -> tuple[str, str]:
    names = line.removeprefix("diff --git ")
    source, _, target = names.partition(" b/")
    if target:
        return source, "b/" + target
    source, _, target = names.partition(" ")
    return source, target


def _file_name(line: str) -> str:
    return line[4:].split("\t")[0].strip().strip('"')


def _goes_on(section: _Section, names: tuple[str, str]) -> bool:
    """Whether file lines with these names belong to the section git's header line has opened."""
    opened = _without_prefixes(section.source, section.target)
    return all(
        name in (_NOWHERE, other)
        for name, other in zip(_without_prefixes(*names), opened, strict=True)
    )


def _end_of_hunk(lines: list[str], header: int) -> int:
    """Where the hunk that begins on line ``header`` ends."""
    counts = _HUNK_COUNTS.match(lines[header])
    removes, adds = (int(((counts and counts[n]) or "1")[:9]) for n in (1, 2))
    end = header + 1
    while end < len(lines):
        line = lines[end]
        # Prose behind a complete hunk may begin with "-", too.
        if (line and line[0] not in " +-\\") or (not line and (removes, adds) == (0, 0)):
            break
        is_file_line = (
            line.startswith("--- ")
            and lines[end + 1 : end + 2] != []
            and lines[end + 1].startswith("+++ ")
        )
        # A removed "-- x" and an added "++ y" look the same; there the counts have to decide.
        if is_file_line and (removes, adds) != (1, 1):
            break
        removes -= line[:1] in ("", " ", "-")
        adds -= line[:1] in ("", " ", "+")
        end += 1
    while not lines[end - 1] and (removes, adds) != (0, 0):
        removes, adds, end = removes + 1, adds + 1, end - 1
    return end


def _refuse_other_files(
    sections: list[_Section], allowed: Sequence[str], paths: Collection[str]
) -> None:
    refused = []
    for section in sections:
        source, target = _resolved(section.source, section.target, paths)
        if source == _NOWHERE or section.marks == "added":
            refused.append(f"adds {cut(target)}")
        elif target == _NOWHERE or section.marks == "deleted":
            refused.append(f"deletes {cut(source)}")
        elif section.marks == "renamed" or source != target:
            refused.append(f"renames {cut(source)} to {cut(target)}")
        elif section.marks == "binary":
            refused.append(f"holds binary data for {cut(source)}")
        elif source not in allowed:
            known = "changes" if source in paths else "changes the unknown file"
            refused.append(f"{known} {cut(source)}")
    if refused:
        raise EditError(
            f"apply_patch: nothing was changed, because this patch {', '.join(refused)};"
            f" only {', '.join(allowed)} may change"
        )


def _resolved(source: str, target: str, paths: Collection[str]) -> tuple[str, str]:
    """Names without git's prefixes, where these are prefixes and no folders."""
    names = source.removeprefix("./"), target.removeprefix("./")
    bare = _without_prefixes(*names)
    prefixed = tuple(
        name == _NOWHERE or name != short for name, short in zip(names, bare, strict=True)
    )
    if all(prefixed):  # as git writes them
        return bare
    resolved = [
        short if name not in paths and short in paths else name
        for name, short in zip(names, bare, strict=True)
    ]
    return resolved[0], resolved[1]


def _without_prefixes(source: str, target: str) -> tuple[str, str]:
    return _SOURCE_PREFIX.sub("", source), _TARGET_PREFIX.sub("", target)


def _parsed(section: _Section, path: str, first: int) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    for lines in section.hunks or []:
        body = [line if line else " " for line in lines[1:]]
        removes = sum(line[0] in " -" for line in body)
        adds = sum(line[0] in " +" for line in body)
        if not removes + adds:
            continue
        found = _HUNK.match(lines[0])
        if found is None:  # checked when the diff was cut
            continue
        header = f"@@ -{found[1]},{removes} +{found[2]},{adds} @@"
        whole = [f"--- {path}", f"+++ {path}", header, *body]
        try:
            parsed = PatchSet([line + "\n" for line in whole])
        except (UnidiffParseError, ValueError) as error:
            reason = cut(" ".join(str(error).split()))
            raise EditError(f"apply_patch: this patch cannot be read: {reason}") from None
        hunk = parsed[0][0]
        hunks.append(
            _Hunk(
                number=first + len(hunks),
                stated=hunk.source_start - (1 if removes else 0),
                lines=tuple(
                    (line.line_type, without_end(line.value))
                    for line in hunk
                    if line.line_type in (" ", "-", "+")
                ),
            )
        )
    return hunks


def _place(hunk: _Hunk, keys: list[str]) -> int:
    """0-based line of the file where a hunk fits, by the rule of this module."""
    source = hunk.source
    if not source:
        if 0 <= hunk.stated <= len(keys):
            return hunk.stated
        raise EditError(
            f"apply_patch: hunk {hunk.number} only adds lines, and its line {hunk.stated} is beyond"
            f" the end of the file ({len(keys)} lines); give lines of context"
        )
    size = len(source)
    places = [n for n in range(len(keys) - size + 1) if keys[n : n + size] == source]
    if hunk.stated in places:
        return hunk.stated
    if len(places) == 1:
        return places[0]
    if places:
        lines = ", ".join(str(place + 1) for place in places[:20])
        raise EditError(
            f"apply_patch: hunk {hunk.number} is ambiguous: it fits at lines {lines}, but not at"
            f" line {hunk.stated + 1}, where its header puts it; give more lines of context"
        )
    raise EditError(
        f"apply_patch: hunk {hunk.number} does not fit: the lines it keeps and removes stand"
        f" nowhere in the file{nearest(keys, source)}"
    )


def _patched(lines: list[str], placed: list[tuple[int, _Hunk]], newline: str) -> str:
    result: list[str] = []
    done = 0
    for place, hunk in placed:
        if place < done:
            raise EditError(
                f"apply_patch: hunk {hunk.number} overlaps another one at line {place + 1}"
            )
        result += lines[done:place]
        done = place
        for kind, text in hunk.lines:
            if kind == "+":
                around = result[-1] if result else lines[0] if lines else "\n"
                end = newline or ("\r\n" if around.endswith("\r\n") else "\n")
                if result and not result[-1].endswith("\n"):
                    result[-1] += end
                result.append(text + end)
            else:
                if kind == " ":
                    result.append(lines[done])
                done += 1
    return "".join(result + lines[done:])
