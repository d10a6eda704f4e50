"""A box for somebody else's program: the network and what it needs to start, and no answers.

The program is given by a command line, so what it needs is guessed: the system's programs and
libraries, the installations that the PATH and the words of the line lead to, and what
``--agent-mount`` names, all of it read-only. Its home and ``/tmp`` are empty and its own. Papers,
data sets, caches and run folders are not there; where an installation that is shown holds papers
(an installed rcb-env does), their folder is empty.

Guarantees: no file of the host is shown but these; no process of the host is seen; everything that
it started ends with it, and with this process, however that ends.
Not covered: the network is the host's own, so what listens there can be talked to; the environment
is passed on, keys included; processors, memory and disk are not limited.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rcb_env import UsageError

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/snap")
_READ_AT_BOOT = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
# Of an installation whose programs are in PREFIX/bin: what may lie beside them.
_OF_A_PREFIX = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include", "node_modules"),
    *("pyvenv.cfg", "versions", "version"),
)


def confined(
    line: str,
    *,
    workplace: Path,
    mounts: Iterable[str],
    answers: Sequence[Path],
    environment: Mapping[str, str],
) -> list[str]:
    """The command that runs a line by ``/bin/sh`` in such a box.

    Args:
        line: a shell's command line.
        workplace: the one folder that is shared and may be written.
        mounts: paths to show as well, read-only, or with ``:rw`` at the end.
        answers: folders that must not be seen.
        environment: of the program: its PATH and HOME.

    Raises:
        UsageError: there is no bubblewrap, or a path cannot be shown.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise UsageError(
            "a command agent runs in a bubblewrap box, and bubblewrap is not installed (`rcb doctor` says how to"
            " get it); --agent-sandbox none runs it without a box"
        )
    home = Path(environment.get("HOME") or "/root")
    wanted = [_asked_for(each, answers) for each in mounts]
    shown = _without_doubles(
        path for path in _needed(line, environment) if _may_be_shown(path, home, answers)
    )
    words = [program, "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "agent"]
    words += ["--tmpfs", "/tmp", "--dir", "/run", "--dir", "/var/tmp"]
    for name in _SYSTEM:
        words += _bound(Path(name))
    words += _resolver()
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm"]
    if home != Path("/"):
        words += ["--tmpfs", str(home)]
    for place in _READ_AT_BOOT:
        words += ["--ro-bind-try", place, place]
    for path in shown:
        words += _bound(path)
    for folder in answers:
        if any(folder.is_relative_to(path) for path in (*shown, *map(Path, _SYSTEM))):
            words += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    for path, writable in wanted:
        words += ["--bind" if writable else "--ro-bind", str(path), str(path)]
    words += ["--bind", str(workplace), str(workplace)]
    return [*words, "/bin/sh", "-c", line]


def _needed(line: str, environment: Mapping[str, str]) -> Iterator[Path]:
    """Installations and files that a line is likely to use."""
    for entry in environment.get("PATH", "").split(os.pathsep):
        if entry:
            yield from _installation(Path(entry))
    for word in _words(line):
        path = Path(word).expanduser() if word.startswith(("/", "~")) else None
        found = path or Path(shutil.which(word, path=environment.get("PATH")) or "/")
        if found.is_file():
            yield from _program(found)


def _program(path: Path) -> Iterator[Path]:
    yield path
    target = path.resolve()
    if target != path:
        yield target
        yield from _installation(target.parent)
    if path.parent.name in ("bin", "sbin", ".bin"):
        yield from _installation(path.parent)


def _installation(programs: Path) -> Iterator[Path]:
    """A folder of programs, and what of its prefix they may need."""
    yield programs
    prefix = programs.parent
    if programs.name == ".bin":  # of npm: links into the packages that lie around it
        yield prefix
    if programs.name not in ("bin", "sbin", "shims") or prefix == Path(prefix.anchor):
        return
    for name in _OF_A_PREFIX:
        if (prefix / name).exists():
            yield prefix / name
    settings = prefix / "pyvenv.cfg"
    if settings.is_file():
        for setting in settings.read_text("utf-8", "replace").splitlines():
            name, _, value = setting.partition("=")
            if name.strip() == "home" and value.strip() != str(programs):
                yield from _installation(Path(value.strip()))


def _may_be_shown(path: Path, home: Path, answers: Iterable[Path]) -> bool:
    """Not what is there anyhow, nor a folder that holds the whole home or lies among answers."""
    if not path.exists() or home.is_relative_to(path) or any(map(path.is_relative_to, _SYSTEM)):
        return False
    return not any(path.resolve().is_relative_to(folder) for folder in answers)


def _without_doubles(paths: Iterable[Path]) -> list[Path]:
    """Outer folders first; what lies in one that is shown already is left out."""
    shown: list[Path] = []
    for path in sorted(set(paths), key=lambda each: (len(each.parts), each)):
        if not any(path.is_relative_to(other) for other in shown):
            shown.append(path)
    return shown


def _asked_for(text: str, answers: Iterable[Path]) -> tuple[Path, bool]:
    name, _, mode = text.rpartition(":")
    writable = bool(name) and mode == "rw"
    path = Path(name if writable else text).expanduser().absolute()
    if not path.exists():
        raise UsageError(f"--agent-mount {text}: there is no {path}")
    for folder in answers:
        if folder.is_relative_to(path.resolve()) or path.resolve().is_relative_to(folder):
            raise UsageError(
                f"--agent-mount {text}: the answers in {folder} would be in sight; name a folder without them"
            )
    return path, writable


def _bound(path: Path) -> list[str]:
    """A path as it is on the host; a link stays one."""
    if path.is_symlink() and path.parent == Path("/"):
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]


def _resolver() -> list[str]:
    """The file that says how names of hosts are looked up, where it is a link to somewhere else."""
    target = Path("/etc/resolv.conf").resolve()
    if target.is_relative_to("/etc") or not target.is_file():
        return []
    return ["--ro-bind", str(target), str(target)]


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)  # `a.py; b` names a.py
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # an open quotation mark, of which the shell will say more
        return line.split()
