"""`rcb pull`: a verified copy of a published data set in the user's cache.

The one commit that is meant is fetched into a temporary folder, its files are written as they are in the repository
(no hooks, no filters, no line-ending conversion), counted, hashed, loaded, and only then moved to their place in one step. So
a copy is there as a whole or not at all, whatever interrupts: Ctrl-C, a lost network, a full disk, a killed process.
What an interrupted pull leaves is removed by the next one. Two pulls at once wait for each other. Git, and whatever it
starts, ends with the pull, also where nothing but a SIGKILL ended that.
Guarantees: pulling again changes nothing when the copy is intact (its files are hashed anew), and replaces it when it is not.
Not covered: reading the data set (papers.py), and what its suites are worth (`rcb check`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.published import RECEIPT, Published
from rcb_env.errors import UsageError, without_credentials

if TYPE_CHECKING:
    import git

_STALLED_S = 60  # a transfer that brings nothing for so long is given up
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",  # a server that asks for a password is an error and no question
    "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    "LC_ALL": "C",
}

# Runs what it is given in a group of processes that ends when the pipe to stdin does, which no end of ours survives.
_LEASHED = """
exec 3<&0 </dev/null
"$@" 3<&- &
work=$!
{ read -r _; kill -KILL 0; } <&3 >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$work"
code=$?
kill -KILL "$watch" 2>/dev/null
exit "$code"
"""

Tell = Callable[[str], None]


def pull(
    wanted: Published,
    source: str | None = None,
    *,
    cache: Path | None = None,
    tell: Tell = lambda _: None,
) -> tuple[Path, bool]:
    """Have a verified copy of a published data set.

    Args:
        wanted: which.
        source: URL of a mirror, or path of a clone; None: the data set's own repository.
        cache: the folder of all copies; None: the user's.
        tell: is told, in short lines, what is going on.

    Returns:
        The folder with ``papers.yaml``, and whether it was fetched now.

    Raises:
        UsageError: it cannot be had: no network, no git, no such commit there, other content than expected, no room.
    """
    place = wanted.place(cache)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place.with_name(f".{place.name}.lock"), tell):
            _sweep(place)
            if _is_intact(wanted, place):
                return place / wanted.folder, False
            with tempfile.TemporaryDirectory(
                prefix=f".{place.name}-", dir=place.parent, ignore_cleanup_errors=True
            ) as temporary:
                made = _make(wanted, _address(source or wanted.url), Path(temporary), tell)
                if place.exists():
                    place.rename(Path(temporary, "old"))
                made.rename(place)
    except OSError as error:
        why = error.strerror or str(error)
        more = "; free some space and pull again" if error.errno in _FULL else ""
        raise UsageError(f"cannot write the copy to {place.parent}: {why}{more}") from None
    return place / wanted.folder, True


_FULL = (errno.ENOSPC, errno.EDQUOT)


def digest_of(folder: Path) -> str:
    """SHA-256 over the relative paths and contents of all files below a folder."""
    state = hashlib.sha256()
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(files.items()):
        if path.is_file():
            data = path.read_bytes()
            state.update(f"{name}\0{len(data)}\0".encode() + data)
    return state.hexdigest()


def _is_intact(wanted: Published, place: Path) -> bool:
    if not (place / RECEIPT).is_file():
        return False
    return digest_of(place / wanted.folder) == wanted.digest


@contextlib.contextmanager
def _alone(path: Path, tell: Tell) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another pull to end")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(place: Path) -> None:
    """Remove what pulls that were killed have left; nobody uses it, since the lock is ours."""
    for path in place.parent.glob(f".{place.name}-*"):
        shutil.rmtree(path, ignore_errors=True)


def _address(source: str) -> str:
    """A path as git finds it from anywhere; a URL as it is."""
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def _make(wanted: Published, address: str, temporary: Path, tell: Tell) -> Path:
    """The copy, complete and verified, in a temporary folder."""
    tell(f"fetching commit {wanted.commit[:7]} of {without_credentials(address)}")
    copy = temporary / "copy"
    copy.mkdir(mode=0o755)
    with _repository(temporary / "clone") as repository:
        _fetch(repository, wanted, address, tell)
        tell("writing and checking the files")
        _write_files(repository, wanted, address, copy)
    facts = _facts(wanted, address, copy / wanted.folder)
    expected = {"papers": wanted.papers, "challenges": wanted.challenges, "lines": wanted.lines}
    if facts != expected:
        raise _other(wanted, address, f"{_words(facts)} instead of {_words(expected)}")
    if digest_of(copy / wanted.folder) != wanted.digest:
        raise _other(wanted, address, "its files have another digest")
    receipt = {
        "name": wanted.name,
        "commit": wanted.commit,
        "from": without_credentials(address),
        **facts,
    }
    (copy / RECEIPT).write_text(json.dumps(receipt, indent=2) + "\n")
    for path in [*copy.rglob("*"), copy]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def _facts(wanted: Published, address: str, folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        raise _other(wanted, address, f"there is no folder {wanted.folder}")
    try:
        dataset = load_dataset(folder)
    except UsageError as error:
        raise _other(wanted, address, str(error).replace(f"{folder}/", "")) from None
    return {
        "papers": len(dataset.papers),
        "challenges": len(dataset.challenges),
        "lines": sum(challenge.lines for challenge in dataset.challenges),
    }


def _words(facts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in facts.items())


def _other(wanted: Published, address: str, why: str) -> UsageError:
    return UsageError(
        f"what {without_credentials(address)} holds as commit {wanted.commit[:7]} is not {wanted.name}: {why}"
    )


@contextlib.contextmanager
def _repository(folder: Path) -> Iterator[git.Repo]:
    """An empty repository; its lifetime is ours."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    import git

    try:
        repository = git.Repo.init(folder, bare=True)
    except git.GitCommandNotFound:
        raise UsageError(
            "pulling needs the program git: install it, for instance with `apt-get install git`"
        ) from None
    except git.GitCommandError as error:
        raise _failed(str(error.stderr), str(folder)) from None
    try:
        yield repository
    finally:
        repository.close()


def _fetch(repository: git.Repo, wanted: Published, address: str, tell: Tell) -> None:
    """Get the commit. Servers that do not give away single commits are asked for everything."""
    said = _git_fetch(repository, "--depth=1", "--", address, wanted.commit)
    if said is not None and "not our ref" not in said and "unadvertised object" not in said:
        raise _failed(said, address)
    if said is not None:
        tell("fetching the whole history")
        said = _git_fetch(repository, "--", address, "+refs/*:refs/pulled/*")
        if said is not None:
            raise _failed(said, address)


def _git_fetch(repository: git.Repo, *arguments: str) -> str | None:
    """Run git fetch; what it said if it failed. Its process never outlives this function."""
    settings = {
        "http.lowSpeedLimit": 1,
        "http.lowSpeedTime": _STALLED_S,
        "gc.auto": 0,
        "core.hooksPath": os.devnull,
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    command = ["git", *options, "fetch", "--no-tags", "--quiet", *arguments]
    with subprocess.Popen(
        ["/bin/sh", "-c", _LEASHED, "sh", *command],
        env={**os.environ, **_ENVIRONMENT, "GIT_DIR": str(repository.git_dir)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            said = process.stderr.read().decode(errors="replace")
            return None if process.wait() == 0 else said
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _write_files(repository: git.Repo, wanted: Published, address: str, copy: Path) -> None:
    import git

    try:
        tree = repository.commit(wanted.commit).tree
        blobs = [blob for blob in tree.traverse() if isinstance(blob, git.Blob)]
    except (git.BadName, git.BadObject, ValueError):
        raise UsageError(
            f"{without_credentials(address)} does not hold the commit {wanted.commit[:7]}"
            f" ({wanted.commit}) of {wanted.name}"
        ) from None
    for blob in blobs:
        path = str(blob.path)
        if not (path.startswith(f"{wanted.folder}/") or path in wanted.kept):
            continue
        if not stat.S_ISREG(blob.mode):
            raise UsageError(f"{without_credentials(address)}: {path} is not a plain file")
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(blob.data_stream.read())


def _failed(said: str, address: str) -> UsageError:
    """The error for what git said.

    Raises:
        OSError: it was a full disk.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))]
    why = (telling or lines or ["git failed"])[0].partition(": ")[2] or "git failed"
    for code in _FULL:
        if os.strerror(code) in said:
            raise OSError(code, os.strerror(code))
    return UsageError(
        f"cannot fetch from {without_credentials(address)}: {why.replace(address, without_credentials(address))};"
        " where this cannot be reached, name a mirror or a local clone with --from"
    )
