"""Any program as an agent: ``--agent "command:LINE"`` runs LINE in a folder and takes what it wrote.

The program gets the challenge's files in a scratch folder, in which it is started by a shell, what
it is to do in ``PROMPT.md`` and, where the task has it, the paper in ``PAPER.md``. The same is told
by environment variables:

    RCB_PROMPT         the text of PROMPT.md          RCB_FILE       the file with the missing part
    RCB_PROMPT_FILE    path of PROMPT.md              RCB_CHALLENGE  id of the challenge
    RCB_PAPER_FILE     path of PAPER.md, or empty     RCB_SEED       of this episode
    RCB_WORKSPACE      the folder                     RCB_MODEL      what --model said, or empty
    RCB_USAGE_FILE     where it may report usage      RCB_BASE_URL   what --base-url said, or empty

When it ends, the region is what stands in the file between the text before and the text after it;
if these are not there byte for byte, the attempt is invalid ("frame_changed"). Nothing else in the
folder is graded; the record "command" of the trajectory names the other files that were changed,
deleted, replaced, made or given another mode, ten of them at most. Usage is reported, if at all, as lines of JSON in RCB_USAGE_FILE, with
any of prompt_tokens, completion_tokens, reasoning_tokens and cost_usd, one line a model call.

Guarantees: a wall-time budget ends the program shortly before it is gone, and what is there is
graded; everything of its process group is killed when it ends and when this process does; its
output is in the trajectory; no link out of the folder is followed; the folder is removed.
Not covered: the program runs on this machine, as you, with your environment: it is your own program.
Nothing keeps it from reading the answer where the papers are; run_tests is not offered to it; it
is not stopped when tokens or money are spent, only afterwards; processes that leave its session,
and a driver ended by SIGKILL, leave things running.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import functools
import hashlib
import json
import os
import selectors
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, ClassVar

from rcb_env import AgentError, BudgetSpent, NoAnswer, Task, ToolCall, Turn, Usage, UsageError

_PROMPT = """\
One part of `{file}` is missing{hint}: two comment lines that begin with "# TODO: Implement block"
stand in its place. Replace these two lines by about {lines} line(s) of working code that start at
their indentation.{paper}

Change nothing else in `{file}`, not even blanks: an attempt that changes the text before or after
the missing part does not count. The tests use this file and no other that you may write.
"""
_PAPER = " The paper it comes from is in `{path}`."
_MAX_FILE_BYTES = 4 << 20  # of the edited file
_MAX_OUTPUT_BYTES = 1 << 20  # kept in the trajectory
_MAX_PATHS, _MAX_PATH_CHARS = 10, 200  # of what was done to other files
_FLUSH_BYTES, _FLUSH_S = 8_192, 1.0
_POLL_S = 0.05
_TO_COLLECT_S = 1.0  # kept of the wall-time budget, at most a tenth of it
_TO_END_S = 0.5  # between asking a program to end and killing it
_NOT_STARTED = (126, 127)  # what a shell says of a command it cannot run


@dataclass(frozen=True)
class Command:
    """Any program: ``command:LINE`` runs LINE in a folder with the files, on this machine."""

    line: str
    """For ``/bin/sh -c``."""

    name: ClassVar[str] = "command"
    whole_setting: ClassVar[str] = "line"  # all that follows the name, commas included
    prompts_version: ClassVar[str] = hashlib.sha256((_PROMPT + _PAPER).encode()).hexdigest()[:12]

    def __post_init__(self) -> None:
        """Refuse an empty line.

        Raises:
            ValueError: there is no command.
        """
        if not self.line.strip():
            raise ValueError('there is no command; write --agent "command:my-agent --flag"')

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        """Run it, then hand in what it left."""
        with _Folder(task) as folder:
            ended = _run(self.line, folder, task)
            elsewhere = folder.elsewhere(task)
            about: dict[str, object] = {"exit_code": ended.code, "out_of_time": ended.out_of_time}
            if elsewhere:
                about["elsewhere"] = {"count": len(elsewhere), "paths": elsewhere[:_MAX_PATHS]}
            task.record("command", about)
            code = folder.region(task)
            usage = folder.usage()
        changed = code != task.masked.placeholder
        if not changed and not ended.out_of_time:
            if ended.code in _NOT_STARTED:
                raise UsageError(f"the command cannot be run: {ended.last_line or self.line}")
            if ended.code:
                said = f"its last line: {ended.last_line}" if ended.last_line else "no output"
                raise AgentError(
                    f"the command ended with code {ended.code} and changed nothing; {said}"
                )
        if changed:
            turn = yield ToolCall("write_region", {"code": code})
            if turn.error:
                raise NoAnswer("no_code", turn.text)
        task.spend(usage)
        if ended.out_of_time:
            raise BudgetSpent("wall_time_spent")
        yield ToolCall("submit")


# --- the folder -------------------------------------------------------------------------------


class _Folder:
    """A scratch folder with the files of a challenge. A context manager."""

    def __init__(self, task: Task) -> None:
        self._scratch = tempfile.TemporaryDirectory(
            prefix="rcb-command-", ignore_cleanup_errors=True
        )
        self.path = Path(self._scratch.name, "workspace")
        self._usage = Path(self._scratch.name, "usage.jsonl")
        self._contents: dict[str, bytes] = {}
        for name, data in task.files.items():
            self._write(name, data)
        self._paper = self._beside(task, "PAPER") if task.paper_text else ""
        self._prompt = self._beside(task, "PROMPT")
        self.text = _PROMPT.format(
            file=task.file,
            hint=f' ("{task.hint}")' if task.hint else "",
            lines=task.challenge.lines,
            paper=_PAPER.format(path=self._paper) if self._paper else "",
        )
        self._write(self._prompt, self.text.encode())
        if self._paper:
            self._write(self._paper, task.paper_text.encode("utf-8", "replace"))
        # Opened now: what the program puts in the folder's place later is not looked into.
        self._root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._modes = _modes_below(self._root)

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)
        self._scratch.cleanup()

    def environment(self, task: Task) -> dict[str, str]:
        """The user's own, and what the module's docstring promises."""
        return {
            **os.environ,
            "RCB_PROMPT": self.text,
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
            NoAnswer: the file is not there any more, or is not what it was around the region.
        """
        try:
            text = _read_below(self._root, task.file).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise NoAnswer("frame_changed", f"{task.file}: {error.strerror or error}") from None
        code = task.masked.region_of(text)
        if code is None:
            raise NoAnswer("frame_changed", _first_change(task, text))
        return code

    def elsewhere(self, task: Task) -> list[str]:
        """What became of everything but the file with the missing part: "src/other.py: changed" and the like.

        Of a folder that is new or gone only the folder is named.
        """
        folders = {path for path, mode in self._modes.items() if stat.S_ISDIR(mode)}
        now = _modes_below(self._root, folders)
        there = {".", *(path for path in folders if stat.S_ISDIR(now.get(path, 0)))}
        told = []
        for path in sorted({*self._modes, *now} - {task.file}):
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

    def usage(self) -> Usage:
        """What the program reported; nothing reported is an unknown cost, not none.

        Raises:
            UsageError: a line is not of the form.
        """
        total = Usage()
        try:
            lines = self._usage.read_text("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        for line in filter(str.strip, lines):
            try:
                total += _reported(json.loads(line))
            except (ValueError, TypeError) as error:
                raise UsageError(
                    f"the command wrote a line to RCB_USAGE_FILE that is none: {line[:80]!r} ({error})"
                ) from None
        return total if lines else Usage(cost_usd=None)

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


def _reported(record: object) -> Usage:
    if not isinstance(record, Mapping):
        raise ValueError("not a JSON object")
    names = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
    counts = [int(record.get(name) or 0) for name in names]
    cost = record.get("cost_usd")
    if min(counts) < 0 or (cost is not None and not float(cost) >= 0):
        raise ValueError("a number is below 0")
    return Usage(
        prompt_tokens=counts[0],
        completion_tokens=counts[1],
        reasoning_tokens=counts[2],
        cost_usd=None if cost is None else float(cost),
        calls=1,
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
            raise OSError("it is no regular file any more")
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


# --- the process ------------------------------------------------------------------------------


@dataclass
class _Ended:
    code: int
    """As the shell's; negative: the signal that ended it."""
    out_of_time: bool
    last_line: str
    """Of its output."""


@dataclass
class _Output:
    """What a program prints, put into the trajectory as it comes."""

    task: Task
    began: float = field(default_factory=time.monotonic)
    last_line: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _waiting: str = ""
    _seen: int = 0
    _flushed: float = field(default_factory=time.monotonic)

    def add(self, data: bytes) -> None:
        room = max(0, _MAX_OUTPUT_BYTES - self._seen)
        cut = self._seen <= _MAX_OUTPUT_BYTES < self._seen + len(data)
        self._seen += len(data)
        text = self._decoder.decode(data)
        if stripped := text.strip():
            self.last_line = stripped.rpartition("\n")[2][:200]
        self._waiting += text if room >= len(data) else text[:room]
        if cut:
            self._waiting += "\n[further output is left out]\n"
        if len(self._waiting) >= _FLUSH_BYTES or time.monotonic() - self._flushed > _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            elapsed_s = round(time.monotonic() - self.began, 3)
            self.task.record("output", {"text": self._waiting, "elapsed_s": elapsed_s})
        self._waiting, self._flushed = "", time.monotonic()


def _run(line: str, folder: _Folder, task: Task) -> _Ended:
    """Run a command line to its end, or to the end of its time."""
    left = task.seconds_left()
    reserve_s = 0.0 if left is None else min(_TO_COLLECT_S, left / 10)
    output = _Output(task)
    process = subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd=folder.path,
        env=folder.environment(task),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    _groups().add(process.pid)
    out_of_time = False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            is_open = True
            while not _over(process.pid):
                left = task.seconds_left()
                if left is not None and left <= reserve_s:
                    out_of_time = True
                    break
                if not is_open:
                    time.sleep(_POLL_S)
                elif selector.select(_POLL_S):
                    is_open = _drain(process.stdout, output, once=True)
        if out_of_time:
            _signal(process.pid, signal.SIGTERM)
            # The shell ends at once, what it started may need the time to write its files.
            time.sleep(min(_TO_END_S, reserve_s / 2))
    finally:
        # Before the process is waited for: until then nobody else can get its number.
        _signal(process.pid, signal.SIGKILL)
        process.wait()
        _groups().discard(process.pid)
        _drain(process.stdout, output)
        process.stdout.close()
    output.flush()
    return _Ended(process.returncode, out_of_time, output.last_line)


def _drain(stream: IO[bytes], output: _Output, *, once: bool = False) -> bool:
    """Take what there is; False when there will be nothing more."""
    for _ in range(1 if once else 64):  # a process that escaped could go on for ever
        try:
            data = os.read(stream.fileno(), 65_536)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.add(data)
    return True


def _over(pid: int) -> bool:
    """Whether a child has ended; it stays to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal(group: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


@functools.cache
def _groups() -> set[int]:
    """The process groups that are to end with this process."""
    groups: set[int] = set()

    def end() -> None:
        for group in groups.copy():
            _signal(group, signal.SIGKILL)

    atexit.register(end)
    return groups
