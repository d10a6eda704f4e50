"""The packages of a box: a lock file under ``images/`` realised as a virtual environment.

`realise` builds the environment of a named image once and returns it at once ever after. It lies in the user's cache,
under a name made of everything it depends on: the image, the Python, and the lock file's content, so a changed lock
makes a new environment and never changes one that boxes are using. Processes that ask at the same time build it once;
a build that was interrupted is started again; whatever the umask, everybody may read the result (the user inside a box
is somebody else).
They are installed with pip where that was told where to look (its settings, ``PIP_…`` variables), else with uv where it is,
which gets the build of torch for the CPU; where uv fails, pip has a try.
Not covered: starting boxes (bubblewrap.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rcb_env.caches import user_cache
from rcb_env.dataset import bundled
from rcb_env.dataset.bundled import LOCK_FILE, image_names
from rcb_env.errors import SandboxUnavailable, unknown

STAND_INS = "stand-ins"  # packages of ours in place of ones that suites import but never call
_COMPLETE = (
    "rcb-complete"  # written last: an environment without it is the rest of an interrupted build
)
_PIP_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index")
_NOT_FOR_PIP = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class BoxPython:
    """A Python with the packages of an image.

    Attributes:
        executable: the environment's Python; a link to the one it was made with.
        prefix: the environment's folder, packages in ``lib/python3.X/site-packages``.
        base_prefix: the installation the environment was made with; it holds the standard library.
        digest: SHA-256 of the image's lock file and stand-ins, recorded with every run.
    """

    executable: Path
    prefix: Path
    base_prefix: Path
    digest: str


def names() -> tuple[str, ...]:
    """The images that exist."""
    return image_names()


def digest(image: str) -> str:
    """SHA-256 of an image's lock file and stand-ins, in hexadecimal.

    Raises:
        UsageError: there is no such image.
    """
    return _place(image)[0].digest


def find(image: str) -> BoxPython | None:
    """The environment of an image if it is already there; never builds.

    Raises:
        UsageError: there is no such image.
    """
    box, _ = _place(image)
    return box if _is_complete(box) else None


def realise(image: str, progress: Progress | None = None) -> BoxPython:
    """The environment of an image, built now if it is not there yet.

    Args:
        image: the name of a folder under ``images/``.
        progress: told, in short lines, what a build is doing; a build takes a minute or more.

    Raises:
        UsageError: there is no such image.
        SandboxUnavailable: the packages cannot be installed; with the installer's last words.
    """
    box, lock_file = _place(image)
    if _is_complete(box):
        return box
    tell = progress or (lambda _line: None)
    try:
        box.prefix.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(box.prefix.with_name(box.prefix.name + ".lock")) as held:
            if not _is_complete(box):  # else somebody else built it while we waited
                _build(image, box, lock_file, tell, held)
    except OSError as error:
        raise SandboxUnavailable(
            f"the environment of image {image!r} cannot be made in {box.prefix.parent}: {error.strerror or error}"
        ) from None
    return box


def unfinished() -> list[tuple[Path, Path]]:
    """Environments that are being built, or whose build was cut short; each with its lock."""
    found = []
    for lock in sorted(cache_folder().glob("*.lock")):
        prefix = lock.with_suffix("")
        if prefix.is_dir() and not (prefix / _COMPLETE).exists():
            found.append((prefix, lock))
    return found


def cache_folder() -> Path:
    """Where environments are kept."""
    return user_cache("boxes")


def folder() -> Path:
    """Where the images are described: a folder each, with a lock file and a Dockerfile."""
    return bundled.folder("images")


def _place(image: str) -> tuple[BoxPython, Path]:
    if image not in names():
        raise unknown("image", image, names())
    lock_file = folder() / image / LOCK_FILE
    content = lock_file.read_bytes()
    for path in sorted((folder() / image / STAND_INS).rglob("*.py")):
        content += path.read_bytes()
    base_prefix = Path(sys.base_prefix)
    # Two installations of one version have equal names but not equal standard libraries.
    installation = f"{sys.version} {base_prefix}".encode()
    key = hashlib.sha256(content + installation).hexdigest()[:12]
    name = f"{image}-{platform.python_version()}-{platform.machine()}-{key}"
    prefix = cache_folder() / name
    digest = hashlib.sha256(content).hexdigest()
    return BoxPython(prefix / "bin" / "python", prefix, base_prefix, digest), lock_file


def _is_complete(box: BoxPython) -> bool:
    # The link to the Python is followed: an environment whose Python was removed is of no use.
    return (box.prefix / _COMPLETE).is_file() and box.executable.exists()


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[int]:
    """Hold the lock at `path`; yields its descriptor for children to inherit."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _build(image: str, box: BoxPython, lock_file: Path, tell: Progress, held: int) -> None:
    if box.prefix.exists():
        shutil.rmtree(box.prefix)
    tell(f"making the Python environment of image {image!r} (once)")
    _run([sys.executable, "-I", "-m", "venv", str(box.prefix)], image, tell, held)
    # With dependencies: which ones torch has depends on its build, and the lock holds those of the CPU's.
    for attempt in install_commands(lock_file, box.executable):
        try:
            _run(attempt, image, tell, held)
            break
        except SandboxUnavailable as error:
            if "uv" not in Path(attempt[0]).name:
                raise
            tell(f"uv fails, so pip tries: {error.why}")
    copy_stand_ins(image, next(box.prefix.glob("lib/python3*/site-packages")))
    let_everybody_read(box.prefix)
    heavy = [m for m in ("numpy", "torch") if f"\n{m}==" in "\n" + lock_file.read_text()]
    if heavy:
        tell(f"importing {' and '.join(heavy)} once")
        _run([str(box.executable), "-I", "-c", f"import {', '.join(heavy)}"], image, tell, held)
    (box.prefix / _COMPLETE).touch()
    (box.prefix / _COMPLETE).chmod(0o644)
    tell(f"the environment of image {image!r} is ready")


def install_commands(
    lock_file: Path,
    python: str | Path,
    *,
    pip_options: Sequence[str] = (),
    uv_options: Sequence[str] = (),
) -> list[list[str]]:
    """The commands that install a lock file, each for where the one before it fails.

    Args:
        lock_file: what to install.
        python: into whose environment; pip is that environment's.
        pip_options: more words for pip.
        uv_options: the same for uv.
    """
    pip = [str(python), "-I", "-m", "pip"]
    by_pip = [*pip, "install", "--no-input", "--progress-bar", "off", *pip_options]
    by_pip += ["-r", str(lock_file)]
    uv = shutil.which("uv")
    if uv is None or _knows_where_to_look(pip):
        return [by_pip]
    return [
        [uv, "pip", "install", "--python", str(python), *uv_options, "-r", str(lock_file)],
        by_pip,
    ]


def install_environment() -> dict[str, str]:
    """The environment variables for these commands: the user's, with torch for the CPU where uv was told nothing else."""
    environment = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_PIP}
    return {"UV_TORCH_BACKEND": "cpu", **environment}


def _knows_where_to_look(pip: Sequence[str]) -> bool:
    """Whether pip was told about other places than the public index: those hold, and uv knows nothing of them."""
    words = [*pip, "config", "list"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    settings = (line.partition("=")[0].rpartition(".")[2] for line in done.stdout.splitlines())
    return any(name in _PIP_SOURCES for name in settings)


def _run(command: list[str], image: str, tell: Progress, held: int) -> None:
    # The child holds the lock too: if we are killed, nobody starts a second build while the first still writes.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=install_environment(),
        umask=0o022,
        pass_fds=(held,),
    ) as process:
        assert process.stdout is not None
        last = worst = ""
        try:
            for raw in process.stdout:
                line = raw.strip()
                if not line:
                    continue
                last = line
                if line.startswith(("ERROR", "error:")):
                    worst = line
                if line.startswith(("Downloading", "Installing")):
                    tell(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        why = (worst or last or f"exit code {process.returncode}").removeprefix("ERROR: ")
        raise SandboxUnavailable(
            f"the packages of image {image!r} cannot be installed: {why}",
            fix="pip's own settings say where it looks; `rcb doctor --prepare` tries again",
        )


def copy_stand_ins(image: str, packages: Path) -> None:
    """Put an image's stand-in packages, if it has any, beside the packages that pip installed."""
    source = folder() / image / STAND_INS
    if source.is_dir():
        for package in source.iterdir():
            shutil.rmtree(
                packages / package.name, ignore_errors=True
            )  # the real one, if pip brought it
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, packages, ignore=ignore, dirs_exist_ok=True)


def let_everybody_read(folder: Path) -> None:
    """Add the modes that let any user read the files below a folder, and nothing else."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink():
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            wanted = mode | (0o555 if name in folders or mode & 0o100 else 0o444)
            if wanted != mode:
                path.chmod(wanted)
