"""Boxes to try things in: a few lines of Python are sent into a real one and run there as a test run is.

Not covered: what they are to give (`conformance.py`).
"""

from __future__ import annotations

import contextlib
import io
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rcb_env import cases
from rcb_env.errors import BoxDied
from rcb_env.runner import wire
from rcb_env.sandbox import make
from rcb_env.sandbox.box import MIB, Box, BoxSettings, Limits, RunRequest, RunResult

LIMITS = Limits(wall_s=20.0, memory_bytes=256 * MIB, processes=40, file_size_bytes=8 * MIB)
SETTINGS = BoxSettings(scratch_bytes=16 * MIB)
_WITHIN_S = 30.0  # in which a process must be there, or gone, also on a busy machine
_PRELUDE = "import ctypes, os, signal, socket, subprocess, sys, threading, time\nfrom rcb_env.cases import case\n"


class Differs(Exception):
    """A box did something else than every box must; the message says what."""


class NotTried(Exception):
    """A check cannot be made here; the message says why."""


class Trial:
    """Boxes of one kind for checks. Close it.

    Args:
        sandbox: the name of the maker, or ``module:Class``.

    Raises:
        SandboxUnavailable: it does not work here.
    """

    def __init__(self, sandbox: str) -> None:
        self.sandbox = sandbox
        self.maker = make(sandbox)
        self.maker.prepare(SETTINGS.image, lambda _line: None)
        self._box: Box | None = None

    def new_box(self) -> Box:
        """One that nobody else has; whoever asks for it closes it."""
        box = Box(self.maker, SETTINGS)
        if not box.zygote("plain", ("numpy",)):
            box.close()
            raise Differs("a box has no process to fork test runs from")
        return box

    def box(self) -> Box:
        """The box that checks share, or a new one where a check before ended it."""
        if self._box is not None:
            try:
                self._box.ping()
            except BoxDied:
                self.close()
            else:
                if not self._box.clean:
                    self.close()
        if self._box is None:
            self._box = self.new_box()
        return self._box

    def run(
        self, body: str, limits: Limits = LIMITS, files: Mapping[str, bytes] | None = None
    ) -> RunResult:
        """Run the body of a function in the shared box."""
        return execute(self.box(), body, limits, files)

    def ask(
        self, body: str, limits: Limits = LIMITS, files: Mapping[str, bytes] | None = None
    ) -> Any:
        """What the body of a function returns in the shared box."""
        return answer(self.run(body, limits, files))

    def close(self) -> None:
        """End the shared box. Idempotent."""
        if self._box is not None:
            self._box.close()
            self._box = None


def execute(
    box: Box, body: str, limits: Limits = LIMITS, files: Mapping[str, bytes] | None = None
) -> RunResult:
    """Run the body of a function in a box that has the zygote "plain"; what it returns is read by `answer`."""
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    source = f"{_PRELUDE}@case(seeds=1)\ndef probe(tree, rng):\n{indented}"
    sources = wire.pack({"sources": {"tests/cases.py": source}})
    made = box.run("plain", RunRequest("rcb_env.runner.case_run:compiled", sources, limits))
    _, code = wire.unpack(io.BytesIO(made.result).read)
    argument = wire.pack({"file": "src/x.py", "purpose": "final", "paper": "probe"}, code)
    request = RunRequest("rcb_env.runner.case_run:run", argument, limits, files=files or {})
    return box.run("plain", request)


def answer(run: RunResult) -> Any:
    """What the body returned.

    Raises:
        Differs: it did not come to that.
    """
    if (run.ended, run.exit_code) != ("exit", 0):
        raise Differs(f"a run ended by {run.ended} with {run.exit_code}: {run.stderr[-300:]}")
    header, outputs = wire.unpack(io.BytesIO(run.result).read)
    if header["error"] is not None:
        raise Differs(f"a run raised {header['error']}")
    return cases.decode(outputs[0])


def error(run: RunResult) -> str:
    """The type of the exception that ended the body; "" where there is none."""
    header, _ = wire.unpack(io.BytesIO(run.result).read) if run.result else ({}, [])
    return str((header.get("error") or {}).get("type", ""))


def expect(found: object, wanted: object) -> None:
    """Raise `Differs` unless this was found."""
    if found != wanted:
        raise Differs(f"{found!r} instead of {wanted!r}")


def hold(sandbox: str, marker: str) -> None:
    """Have a process sleep in a box for as long as this driver lives."""
    with contextlib.closing(Trial(sandbox)) as trial:
        trial.run(f"subprocess.run(['sleep', '{marker}'])", Limits(wall_s=600.0))


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true within a time that is enough on a busy machine."""
    deadline = time.monotonic() + _WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def sleeps(marker: str) -> bool:
    """Whether a process of this machine sleeps for that long."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{marker}\0".encode():
                return True
    return False
