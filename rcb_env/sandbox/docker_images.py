"""Docker images for boxes: a base with a Python, and the packages of a lock file under ``images/``.

The packages are collected on the host, as `images.py` says, and copied in, so a build needs no
network and runs nothing in the image. A tag is made of everything the image depends on, so a changed lock makes a new
image and never changes one that a run has recorded. The runner is not in the image: it comes over the stream.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors

from rcb_env.dataset.bundled import LOCK_FILE
from rcb_env.errors import SandboxUnavailable, unknown
from rcb_env.sandbox import images
from rcb_env.sandbox.engine import ENGINE_ERRORS, engine, reason
from rcb_env.sandbox.scratch import scratch_folder

REPOSITORY = "rcb-env"
_BASE = "base"  # what images/make-base makes, which is no image of boxes
DEFAULT_BASE = "python:3.11-slim-bookworm"
ASK_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_NO_WHEEL = "No matching distribution found for "  # pip's words, before the name and the version
_NEWEST_GLIBC = 36  # of Debian 12, the oldest base we build for


def tag(image: str) -> str:
    """The full name of the Docker image for a named environment, built or not.

    Raises:
        UsageError: there is no such image.
    """
    folder = images.folder() / image
    if image not in images.names():
        raise unknown("image", image, images.names())
    digest = hashlib.sha256()
    for name in (LOCK_FILE, "Dockerfile"):
        digest.update((folder / name).read_bytes())
    for path in sorted((folder / images.STAND_INS).rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{REPOSITORY}/{image}:{digest.hexdigest()[:12]}"


def missing(image: str) -> SandboxUnavailable:
    """The error for an image that is not built."""
    return SandboxUnavailable(
        f"the Docker engine has no image {tag(image)}", fix=f"run `rcb images build {image}`"
    )


def digest(image: str) -> str:
    """The engine's id of a built image, or "" when it is not built."""
    try:
        found = str(engine().images.get(tag(image)).id)
    except docker.errors.ImageNotFound:
        return ""
    return found


def build(
    image: str, *, base: str = DEFAULT_BASE, progress: Callable[[str], None] | None = None
) -> str:
    """Build the image unless it is there already; returns its tag.

    Args:
        image: the name of a folder under ``images/``.
        base: an image with a ``python3`` of at least 3.11, taken from the engine or pulled.
        progress: told, in short lines, what is being done.

    Raises:
        SandboxUnavailable: no engine, no base, packages that cannot be had, or a failed build.
    """
    tell = progress or (lambda _line: None)
    name = tag(image)
    client = engine()
    if digest(image):
        tell(f"{name} is built already")
        return name
    with warnings.catch_warnings():
        # A helper for credentials that is missing is an error of the engine's client as well, and told as one.
        warnings.filterwarnings("ignore", "docker-credential-", UserWarning)
        _build(client, image, name, base, tell)
    tell(f"{name} is ready")
    return name


def _build(
    client: docker.DockerClient, image: str, name: str, base: str, tell: Callable[[str], None]
) -> None:
    try:
        tell(f"looking for a Python in {base}")
        version = client.containers.run(
            base, ["python3", "-c", ASK_VERSION], remove=True, network_mode="none"
        )
    except ENGINE_ERRORS as error:
        raise SandboxUnavailable(
            f"the base image {base!r} cannot be used ({reason(error)}); name another with --base,"
            " or make one where no registry can be reached: images/make-base"
        ) from None
    with build_context(image, version.decode().strip(), tell) as context:
        tell(f"building {name}")
        try:
            client.images.build(
                path=str(context),
                tag=name,
                buildargs={"BASE": base},
                network_mode="none",
                rm=True,
                forcerm=True,
            )
        except docker.errors.BuildError as error:
            raise SandboxUnavailable(f"the image {name} cannot be built: {error.msg}") from None
        except ENGINE_ERRORS as error:
            raise SandboxUnavailable(f"the image {name} cannot be built: {reason(error)}") from None


@contextlib.contextmanager
def build_context(image: str, version: str, tell: Callable[[str], None]) -> Iterator[Path]:
    """A folder that an image can be built from without network: its Dockerfile, and its packages.

    Args:
        image: the name of a folder under ``images/``.
        version: of the base's Python, such as "3.11".
        tell: told, in short lines, what is being done.

    Raises:
        SandboxUnavailable: the packages cannot be had.
    """
    with scratch_folder() as context:
        shutil.copy(images.folder() / image / "Dockerfile", context)
        _collect(image, version, context / "packages", tell)
        yield context


@dataclass(frozen=True)
class Built:
    """An image of ours on the engine."""

    tag: str
    digest: str  # the engine's id, which runs record
    size_bytes: int
    wanted: bool  # whether a present lock asks for it


def built() -> list[Built]:
    """Our images on the engine, by tag."""
    wanted = {tag(name) for name in images.names()}
    return [
        Built(name, str(image.id), int(image.attrs["Size"]), name in wanted)
        for name, image in _ours()
    ]


def prune() -> list[str]:
    """Remove the images that no present lock asks for; returns their tags."""
    wanted = {tag(name) for name in images.names()}
    old = [name for name, _ in _ours() if name not in wanted]
    for name in old:
        engine().images.remove(name)
    return old


def _ours() -> list[tuple[str, Any]]:
    found = [(name, image) for image in engine().images.list() for name in image.tags]
    return sorted((pair for pair in found if is_ours(pair[0])), key=lambda pair: pair[0])


def is_ours(name: str) -> bool:
    """Whether an image of boxes has this name; what they are built on has not."""
    return name.startswith(f"{REPOSITORY}/") and not name.startswith(f"{REPOSITORY}/{_BASE}:")


def _collect(image: str, version: str, target: Path, tell: Callable[[str], None]) -> None:
    """Install an image's packages into a folder, for a Python that may be another than ours."""
    machine = platform.machine()
    platforms = [f"manylinux_2_{n}_{machine}" for n in range(_NEWEST_GLIBC, 4, -1)]
    tell(f"collecting packages for Python {version}")
    wanted = ["--target", str(target), "--only-binary", ":all:", "--python-version", version]
    for_pip = [*wanted, "--quiet", "--implementation", "cp", "--no-compile"]
    for name in (*platforms, f"manylinux2014_{machine}", f"linux_{machine}"):
        for_pip += ["--platform", name]
    for_uv = [*wanted, "--quiet", "--python-platform", f"{machine}-manylinux_2_{_NEWEST_GLIBC}"]
    lock_file = images.folder() / image / LOCK_FILE
    with scratch_folder() as wheels:
        made: set[str] = set()
        while True:
            source = ["--find-links", str(wheels)]
            commands = images.install_commands(
                lock_file,
                sys.executable,
                pip_options=[*for_pip, *source],
                uv_options=[*for_uv, *source],
            )
            failed = _first_that_works(commands, target)
            package = failed.removeprefix(_NO_WHEEL) if failed.startswith(_NO_WHEEL) else ""
            if package and package not in made:
                made.add(package)
                tell(f"making a wheel of {package}, which has none")
                failed = _make_wheel(package, wheels)
            elif not failed:
                break
            if failed:
                raise SandboxUnavailable(
                    f"the packages of image {image!r} cannot be collected: {failed}"
                )
    images.copy_stand_ins(image, target)
    images.let_everybody_read(target)


def _first_that_works(commands: list[list[str]], target: Path) -> str:
    """Run commands until one succeeds; returns why the last failed, or "" when one did not."""
    failed = ""
    for words in commands:
        failed = _why_it_fails(words)
        if not failed:
            break
        shutil.rmtree(target, ignore_errors=True)
    return failed


def _make_wheel(package: str, wheels: Path) -> str:
    """Build a package from its source; it must be of Python alone, as ours may be another. Returns why it failed, or ""."""
    pip = [sys.executable, "-I", "-m", "pip", "wheel", "--quiet", "--no-input", "--no-deps"]
    failed = _why_it_fails([*pip, "--wheel-dir", str(wheels), package])
    if not failed and any(not path.name.endswith("-none-any.whl") for path in wheels.iterdir()):
        return f"{package} has no wheel and must be compiled, which is not done here"
    return failed


def _why_it_fails(words: list[str]) -> str:
    """Run an installer; returns what it says first of why it failed, or "" when it did not."""
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
        env=images.install_environment(),
    )
    if not done.returncode:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    found = [line for line in errors if _NO_WHEEL in line] or errors
    return (found or done.stderr.splitlines() or ["pip failed"])[0].removeprefix("ERROR: ")
