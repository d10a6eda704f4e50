"""The packages of boxes are installed once, whoever asks and whatever happened before.

The package is run from a copy with an image of its own, whose one package is a wheel made here: no network is needed.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import rcb_env

_REALISE = """\
import sys
from rcb_env.errors import RcbError
from rcb_env.sandbox import images
try:
    box = images.realise(sys.argv[1], lambda line: print(line, flush=True))
except RcbError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print("prefix", box.prefix, flush=True)
"""


class Machine:
    """A copy of the package with one image, `tiny`, and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(
            Path(rcb_env.__file__).parent,
            folder / "site" / "rcb_env",
            ignore=shutil.ignore_patterns("_data", "__pycache__"),
        )
        self.lock = folder / "site" / "rcb_env" / "_data" / "images" / "tiny" / "requirements.lock"
        self.lock.parent.mkdir(parents=True)
        self.lock.write_text("rcb-tiny==1.0\n")
        _write_wheel(folder / "wheels", "rcb_tiny", "1.0")

    def start(
        self, image: str = "tiny", *, umask: int = 0o022, told: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Have an image realised; `told` says to the installers where to look, in place of what pip is told."""
        usual = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder / "wheels")}
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))},
            "PYTHONPATH": str(self.folder / "site"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            **(usual if told is None else told),
        }
        return subprocess.Popen(
            [sys.executable, "-c", _REALISE, image],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.folder,
            umask=umask,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> tuple[list[str], Path]:
        out, errors = process.communicate(timeout=180)
        assert process.returncode == 0, errors
        *lines, last = out.splitlines()
        return lines, Path(last.removeprefix("prefix "))


def _write_wheel(folder: Path, name: str, version: str) -> None:
    folder.mkdir()
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "ANSWER = 42\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_two_processes_that_start_together_build_once_and_anybody_can_read_it(
    machine: Machine,
) -> None:
    first, second = machine.start(umask=0o077), machine.start(umask=0o077)
    built = [machine.finish(process) for process in (first, second)]
    assert sum("making" in line for lines, _ in built for line in lines) == 1
    assert built[0][1] == built[1][1]
    closed = [
        path
        for path in built[0][1].rglob("*")
        if not path.is_symlink()
        and path.stat().st_mode & (0o005 if path.is_dir() else 0o004)
        != (0o005 if path.is_dir() else 0o004)
    ]
    assert closed == []
    assert stat.S_IMODE(built[0][1].stat().st_mode) == 0o755


def test_a_build_that_was_killed_is_started_again(machine: Machine) -> None:
    process = machine.start()
    assert process.stdout is not None
    assert process.stderr is not None
    assert "making" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    lines, prefix = machine.finish(machine.start())
    assert any("making" in line for line in lines)
    assert list(prefix.glob("lib/python3*/site-packages/rcb_tiny.py"))


def test_a_changed_lock_makes_a_new_environment_and_leaves_the_old_one(machine: Machine) -> None:
    _, before = machine.finish(machine.start())
    machine.lock.write_text("# a comment changes it, too\nrcb-tiny==1.0\n")
    _, after = machine.finish(machine.start())
    assert before != after
    assert before.is_dir()


def test_packages_that_cannot_be_installed_are_one_line_with_the_installers_words(
    machine: Machine,
) -> None:
    machine.lock.write_text("rcb-tiny==2.0\n")
    process = machine.start()
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 1
    (line,) = errors.strip().splitlines()
    assert line.startswith("SandboxUnavailable: ")
    assert "'tiny'" in line
    assert "rcb-tiny==2.0" in line


def test_an_unknown_image_is_named(machine: Machine) -> None:
    process = machine.start("tinny")
    _, errors = process.communicate(timeout=60)
    assert "UsageError: unknown image 'tinny'. Did you mean tiny?" in errors


def installer(prefix: Path) -> str:
    """Who installed the package of the image."""
    (written,) = prefix.glob("lib/python3*/site-packages/rcb_tiny-*.dist-info/INSTALLER")
    return written.read_text().strip()


needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed here")


@needs_uv
def test_uv_installs_where_it_is(machine: Machine) -> None:
    told = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(machine.folder / "wheels")}
    _, prefix = machine.finish(machine.start(told=told))
    assert installer(prefix) == "uv"


def test_pip_installs_where_it_was_told_where_to_look(machine: Machine) -> None:
    """A mirror that only pip is told of may be the only place there is, or the only one allowed."""
    _, prefix = machine.finish(machine.start())
    assert installer(prefix) == "pip"


@needs_uv
def test_pip_has_a_try_where_uv_fails(machine: Machine) -> None:
    (wheel,) = (machine.folder / "wheels").iterdir()
    machine.lock.write_text(f"rcb-tiny @ {wheel.as_uri()}\n")
    lines, prefix = machine.finish(
        machine.start(told={"UV_CONFIG_FILE": str(machine.folder / "none.toml")})
    )
    assert any(line.startswith("uv fails, so pip tries: ") for line in lines)
    assert installer(prefix) == "pip"
