"""The folder in which somebody else's program works on a challenge, and what stands in it afterwards.

Guarantees: what is read afterwards is read below the folder that was made, whatever the program put
in its place; no link out of it is followed; the folder is removed.
Not covered: running the program (program.py), and what its report means (usage_reports.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from rcb_agents.joint_prompts import listed, missing_parts
from rcb_agents.usage_reports import Report, read_report
from rcb_env import NoAnswer, Task

_PROMPT = """\
One part of `{file}` is missing{hint}: two comment lines that begin with "# TODO: Implement block"
stand in its place. Replace these two lines by {code} at
their indentation.{paper}{read_later}

Change nothing else in `{file}`, not even blanks: an attempt that changes the text before or after
the missing part does not count. The tests use this file and no other that you may write.
"""
_LINES = "about {lines} line(s) of working code that start"
_OPEN = "working code that starts"
_PAPER = " The paper it comes from is in `{path}`."
_READ_LATER = " Later code reads from it: {names}."
_JOINT_PROMPT = """\
{missing}

{parts}

Write working code that starts at the indentation of these lines, in their place.{paper}

Change nothing else, not even blanks: an attempt that changes the text around a missing part does not
count. The tests use these files and no other that you may write.
"""
_LIBRARY_PROMPT = """\
{missing}

{parts}
{paper}

The tests use these files and no other that you may write.
"""
_MAX_FILE_BYTES = 4 << 20  # of the edited file, and of the report
_MAX_PATH_CHARS = 200  # of what was done to other files

PROMPTS_VERSION = hashlib.sha256(
    (_PROMPT + _LINES + _OPEN + _PAPER + _READ_LATER + _JOINT_PROMPT + _LIBRARY_PROMPT).encode()
).hexdigest()[:12]
"""Changes with the words of the prompt."""


class Workplace:
    """A scratch folder with the files of a challenge. A context manager."""

    def __init__(self, task: Task) -> None:
        self._scratch = tempfile.TemporaryDirectory(
            prefix="rcb-command-", ignore_cleanup_errors=True
        )
        self.shared = Path(self._scratch.name)
        """All that the program may write."""
        self.path = self.shared / "workspace"
        self._usage = self.shared / "usage.jsonl"
        self._contents: dict[str, bytes] = {}
        for name, data in task.files.items():
            self._write(name, data)
        self._paper = self._beside(task, "PAPER") if task.paper_text else ""
        self._prompt = self._beside(task, "PROMPT")
        self.prompt = _prompt(task, _PAPER.format(path=self._paper) if self._paper else "")
        self._write(self._prompt, self.prompt.encode())
        if self._paper:
            self._write(self._paper, task.paper_text.encode("utf-8", "replace"))
        # Opened now: what the program puts in the folder's place later is not looked into.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._root, self._reports = os.open(self.path, flags), os.open(self.shared, flags)
        self._modes = _modes_below(self._root)

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)
        os.close(self._reports)
        self._scratch.cleanup()

    def environment(self, task: Task) -> dict[str, str]:
        """The user's own, and what the module's docstring promises."""
        return {
            **os.environ,
            "RCB_PROMPT": self.prompt,
            "RCB_PROMPT_FILE": str(self.path / self._prompt),
            "RCB_PAPER_FILE": str(self.path / self._paper) if self._paper else "",
            "RCB_WORKSPACE": str(self.path),
            "RCB_USAGE_FILE": str(self._usage),
            "RCB_FILE": task.file,
            "RCB_CHALLENGE": task.challenge.id,
            "RCB_SEED": str(task.seed),
            "RCB_MODEL": task.model.name if task.model else "",
            "RCB_BASE_URL": (task.model.base_url or "") if task.model else "",
        }

    def region(self, task: Task) -> str:
        """What stands in the place of the missing part.

        Raises:
            NoAnswer: a file is not there any more, or is not what it was around what is missing in it.
        """
        return "".join(self._answer(task, path) for path in task.challenge.files)

    def _answer(self, task: Task, path: str) -> str:
        try:
            text = _read_below(self._root, path).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise NoAnswer("frame_changed", f"{path}: {error.strerror or error}") from None
        code = task.answer_in(path, text)
        if code is None:
            what = f"{path} was changed around the missing parts"
            raise NoAnswer("frame_changed", what if task.parts else _first_change(task, text))
        return code

    def elsewhere(self, task: Task) -> list[str]:
        """What became of everything but the file with the missing part: "src/other.py: changed" and the like.

        Of a folder that is new or gone only the folder is named.
        """
        folders = {path for path, mode in self._modes.items() if stat.S_ISDIR(mode)}
        now = _modes_below(self._root, folders)
        there = {".", *(path for path in folders if stat.S_ISDIR(now.get(path, 0)))}
        told = []
        for path in sorted({*self._modes, *now}.difference(task.challenge.files)):
            what = self._difference(path, self._modes.get(path), now.get(path))
            if what and there.issuperset(map(str, PurePosixPath(path).parents)):
                shown = path.encode("utf-8", "backslashreplace").decode()
                told.append(f"{shown[:_MAX_PATH_CHARS]}: {what}")
        return told

    def _difference(self, path: str, was: int | None, mode: int | None) -> str:
        if was is None:
            return "made"
        if mode is None:
            return "deleted"
        if stat.S_ISLNK(mode):
            return "replaced by a link"
        if stat.S_IFMT(mode) != stat.S_IFMT(was):
            return "replaced"
        if path in self._contents and not self._holds(path, self._contents[path]):
            return "changed"
        return "" if mode == was else "given another mode"

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return _read_below(self._root, path) == data
        except OSError:
            return False

    def report(self) -> Report:
        """What the program told of its model calls."""
        try:
            data = _read_below(self._reports, self._usage.name)
        except OSError:
            data = b""
        return read_report(data.decode("utf-8", "replace"))

    def _beside(self, task: Task, stem: str) -> str:
        name = f"{stem}.md"
        while name in task.files:
            name = f"_{name}"
        return name

    def _write(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._contents[name] = data


def _prompt(task: Task, paper: str) -> str:
    if task.parts:
        words = _LIBRARY_PROMPT if task.parts[0].whole else _JOINT_PROMPT
        said = paper.strip() if task.parts[0].whole else paper
        return words.format(missing=missing_parts(task), paper=said, parts=listed(task))
    names = ", ".join(f"`{name}`" for name in task.defines)
    return _PROMPT.format(
        file=task.file,
        hint=f' ("{task.hint}")' if task.hint else "",
        code=_OPEN if task.challenge.is_open else _LINES.format(lines=task.challenge.lines),
        paper=paper,
        read_later=_READ_LATER.format(names=names) if names else "",
    )


def _read_below(root: int, path: str) -> bytes:
    """A regular file below a folder, by no link.

    Raises:
        OSError: it is something else, is not there, or is too large.
    """
    *folders, name = path.split("/")
    here = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        # Without O_NONBLOCK a pipe in the file's place would wait for a writer.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    with open(file, "rb") as opened:  # noqa: PTH123 - a descriptor has no path
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is no longer a regular file")
        if found.st_size > _MAX_FILE_BYTES:
            raise OSError(f"it has more than {_MAX_FILE_BYTES} bytes")
        return opened.read(_MAX_FILE_BYTES)


def _modes_below(root: int, within: Collection[str] | None = None) -> dict[str, int]:
    """The mode of everything below a folder, by path; no link is followed, and these folders only are entered."""
    modes: dict[str, int] = {}
    for here, folders, files, descriptor in os.fwalk(".", dir_fd=root):
        paths = {name: os.path.normpath(f"{here}/{name}") for name in (*folders, *files)}
        for name, path in paths.items():
            with contextlib.suppress(OSError):
                modes[path] = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        if within is not None:
            folders[:] = [name for name in folders if paths[name] in within]
    return modes


def _first_change(task: Task, text: str) -> str:
    """Where the frame is not as it was, for the record."""
    before, now = task.masked.before.split("\n")[:-1], text.split("\n")
    for number, (was, line) in enumerate(zip(before, now, strict=False), 1):
        if was != line:
            return f"{task.file} line {number} was changed, before the missing part: {line[:80]!r}"
    if len(now) < len(before):
        return f"{task.file} ends before the missing part"
    after = task.masked.after.split("\n")
    for number, (was, line) in enumerate(zip(reversed(after), reversed(now), strict=False), 1):
        if was != line:
            return (
                f"{task.file} was changed after the missing part,"
                f" line {number} from the end: {line[:80]!r}"
            )
    return f"{task.file} was changed around the missing part"
