"""Boxes made with bubblewrap: namespaces without a daemon, about 10 ms each.

A box has its own process, network, IPC, host name and mount namespaces: no network, a read-only root made of the host's
programs and libraries, the Python in use and the image's packages, three size-capped temporary folders, and no capabilities. Started by
root, it runs as a user of its own; started by anybody else, in a user namespace. Closing it kills every process in it.
Its memory is counted and bounded by a control group where this user may make one (`control_groups.py`); elsewhere the
runner counts kind by kind.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import control_groups, images
from rcb_env.sandbox.bootstrap import BOOTSTRAP
from rcb_env.sandbox.box import BOX_MEMORY_BYTES, BoxSettings
from rcb_env.sandbox.control_groups import ControlGroup
from rcb_env.sandbox.namespaces import refusal
from rcb_env.sandbox.process import ProcessChannel
from rcb_env.sandbox.users import User

_INSTALL = (
    "install it: sudo apt-get install bubblewrap (Debian, Ubuntu), sudo dnf install bubblewrap (Fedora),"
    " sudo pacman -S bubblewrap (Arch), sudo zypper install bubblewrap (openSUSE)"
)
# Fixed places in a box, whatever the host's: a Python or a cache below /tmp would vanish under the box's own /tmp.
_PYTHON, _PACKAGES = Path("/opt/rcb/python"), Path("/opt/rcb/packages")
_SYSTEM = (Path("/usr"), Path("/usr/local"))
_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libexec")  # of each prefix
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
# What becomes the program named after it, once it has written its process id into the file named after it.
_COME_IN = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"')


class Bubblewrap:
    """Makes boxes with the ``bwrap`` program."""

    name = "bubblewrap"
    bounds_processes = True

    def __init__(self) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxUnavailable("bubblewrap is not installed", fix=_INSTALL)
        self._program = program
        self.version = _output([program, "--version"])[1]
        namespaces = _isolation(int(os.geteuid() == 0))
        mounts = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        works, said = _output([program, *namespaces, *mounts, "/bin/true"])
        if not works:
            raise refusal(program, self.version, said)

    def digest(self, image: str) -> str:
        """The digest of the image's lock file; see `Maker.digest`."""
        return f"sha256:{images.digest(image)}"

    def prepare(self, image: str, progress: Callable[[str], None]) -> None:
        """Install the image's packages, where they are not there yet; see `Maker.prepare`."""
        images.realise(image, progress)

    def start(self, settings: BoxSettings) -> tuple[BubblewrapChannel, Mapping[str, Any]]:
        """A fresh box; see `Maker.start`."""
        python = images.realise(settings.image)
        user = User() if os.geteuid() == 0 else None
        uid = 0 if user is None else user.uid
        executable = python.executable.resolve()
        base = python.base_prefix.resolve()
        if base not in _SYSTEM:
            executable = _PYTHON / executable.relative_to(base)
        environment = {
            **settings.environment(),
            "PYTHONPATH": str(_PACKAGES),
            "LD_LIBRARY_PATH": str(_PYTHON / "lib"),
        }
        group = control_groups.make(BOX_MEMORY_BYTES)
        command = [
            *([] if group is None else [*_COME_IN, str(group.door)]),
            self._program,
            *_isolation(uid),
            *_file_system(python, settings, group),
            "--clearenv",
            *(word for item in environment.items() for word in ("--setenv", *item)),
            *("--chdir", "/work", str(executable), "-s", "-S", "-P", "-B", "-c", BOOTSTRAP),
        ]
        runner = {"uid": uid, "dies_with_parent": True}
        return _spawner.call(lambda: BubblewrapChannel(command, group, user)), runner


def _output(command: list[str]) -> tuple[bool, str]:
    """Whether a command succeeds, and its last line."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else ""


def _isolation(uid: int) -> list[str]:
    shared = [
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    # As the first process of its namespace the runner can be neither killed nor stopped from within.
    shared += ["--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "box"]
    shared += ["--cap-drop", "ALL"]
    if uid:  # root: the runner becomes this user as its first act, and the kernel takes all capabilities with it
        return [*shared, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*shared, "--unshare-user", "--uid", "1000", "--gid", "1000"]


def _file_system(
    python: images.BoxPython, settings: BoxSettings, group: ControlGroup | None
) -> list[str]:
    words: list[str] = []
    for folder in ("/usr", "/usr/local", "/usr/share"):
        words += ["--perms", "0755", "--dir", folder]
    for system in _SYSTEM:
        words += _bind(system, system)
    words += ["--ro-bind-try", "/usr/share/zoneinfo", "/usr/share/zoneinfo"]
    for name in ("bin", "lib", "lib32", "lib64", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            words += ["--ro-bind", str(path), str(path)]
    for file in _SYSTEM_FILES:
        words += ["--ro-bind-try", file, file]
    words += ["--proc", "/proc", "--dev", "/dev"]
    packages = next(python.prefix.glob("lib/python3*/site-packages"))
    for folder in (
        "/opt",
        "/opt/rcb",
    ):  # root makes folders that only root can enter, unless told otherwise
        words += ["--perms", "0755", "--dir", folder]
    words += ["--ro-bind", str(packages), str(_PACKAGES)]
    base = python.base_prefix.resolve()
    if base not in _SYSTEM:
        words += ["--perms", "0755", "--dir", str(_PYTHON), *_bind(base, _PYTHON)]
    scratch, shared = settings.scratch_bytes, settings.shared_memory_bytes
    for folder, size in (("/work", scratch), ("/tmp", scratch), ("/dev/shm", shared)):
        words += ["--perms", "1777", "--size", str(size), "--tmpfs", folder]
    if group is not None:
        words += _show(group)
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]


def _show(group: ControlGroup) -> list[str]:
    """Let the runner read the group of its box, in the place where containers have theirs."""
    words: list[str] = []
    for folder in ("/sys", "/sys/fs", "/sys/fs/cgroup"):
        words += ["--perms", "0755", "--dir", folder]
    return [*words, "--ro-bind", str(group.folder), str(group.box_place)]


def _bind(prefix: Path, place: Path) -> list[str]:
    """Programs and libraries below a prefix, read-only, without any packages of the Pythons there.

    Nothing else of the host is shown: a checkout below /usr/src, or this very tool among the packages of the system's
    Python, would hold the papers, and with them the answers.
    """
    words = []
    for name in _FOLDERS:
        folder = prefix / name
        if folder.is_dir():
            words += ["--ro-bind", str(folder), str(place / name)]
            for packages in sorted(folder.glob("python3*/*-packages")):
                hidden = str(place / packages.relative_to(prefix))
                words += ["--tmpfs", hidden, "--remount-ro", hidden]
    return words


class BubblewrapChannel(ProcessChannel):
    """The standard streams of a ``bwrap`` process."""

    def __init__(self, command: list[str], group: ControlGroup | None, user: User | None) -> None:
        super().__init__(command, "bubblewrap box")
        self._group, self._user = group, user

    def _how_it_ended(self) -> tuple[bool, bool]:
        """Killed from outside if bwrap, or its first process, was sent SIGKILL: nothing in the box can do that to either."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            killed = self._process.wait(10.0) in (-signal.SIGKILL, 128 + signal.SIGKILL)
            out_of_memory = killed and self._group is not None and self._group.kills() > 0
            return out_of_memory, killed and not out_of_memory
        return False, False

    def children(self) -> list[int]:
        """The first process of the box, as the host numbers it; none when it has ended."""
        if self._process.poll() is not None:
            return []  # its number may be another process's by now
        pid = self._process.pid
        with contextlib.suppress(OSError):
            return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
        return []

    def close(self) -> None:
        """See `Channel.close`."""
        super().close()
        if self._group is not None:
            self._group.remove()
        if self._user is not None:
            self._user.let_go()

    def _end_box(self) -> None:
        # bwrap has given up the right to end its child, so the kernel does not do it in its name.
        for child in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


class _Spawner:
    """Starts boxes from one thread that never ends.

    A box dies with the thread that started it (bubblewrap asks the kernel for that, so that no box outlives a driver
    that was killed), and the threads that need boxes come and go.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()

    def call(self, job: Callable[[], BubblewrapChannel]) -> BubblewrapChannel:
        with self._lock:
            if self._owner != os.getpid():  # first use, or a fork of a process that used it
                self._owner = os.getpid()
                self._jobs = queue.SimpleQueue()
                threading.Thread(
                    target=self._serve, args=(self._jobs,), name="rcb-spawner", daemon=True
                ).start()
        done: Future[BubblewrapChannel] = Future()
        self._jobs.put((job, done))
        try:
            return done.result()
        except OSError as error:
            raise SandboxUnavailable(f"bubblewrap cannot be started: {error}") from None

    @staticmethod
    def _serve(jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]) -> None:
        while True:
            job, done = jobs.get()
            try:
                done.set_result(job())
            except BaseException as error:  # noqa: BLE001 (raised again where the box was asked for)
                done.set_exception(error)


_spawner = _Spawner()
