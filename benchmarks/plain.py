"""The plain way to test a completion of a native paper: a process of its own that runs the cases and compares.

`Plain.fresh` starts an interpreter for it, as one does without a sandbox that is kept warm: import torch, run the cases on
the candidate, compare with the reference's outputs, run the checks. `Plain.warm` asks a process that did all that
before to do it once more: what is left is the tests themselves. Both use the packages that bubblewrap's boxes have,
and no isolation at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import rcb_env
from rcb_env.dataset.papers import Challenge
from rcb_env.runner import wire
from rcb_env.sandbox import images

_PROGRAM = """
import io, sys
from pathlib import Path
from rcb_env.runner import case_run, wire
import torch
torch.set_num_threads(1)
tests, place = Path(sys.argv[1]), str(Path.cwd())

def compiled(path):
    out = io.BytesIO()
    sources = {"tests/" + path: (tests / path).read_text()}
    case_run.compiled(wire.pack({"sources": sources}), out)
    return case_run.parse(out.getvalue())[1][0]

def records(data):
    stream, found = io.BytesIO(data), []
    while len(found) == 0 or "done" not in found[-1][0]:
        found.append(wire.unpack(stream.read))
    return [header for header, _ in found[:-1]], [blobs[0] for _, blobs in found[:-1]]

def once(cases, checks):
    out = io.BytesIO()
    header, _ = case_run.parse((tests / "argument").read_bytes())
    case_run.run(wire.pack(header, [cases]), out)
    if not (tests / "reference").exists():
        (tests / "reference").write_bytes(out.getvalue())
    wanted, outputs = records((tests / "reference").read_bytes())
    got, theirs = records(out.getvalue())
    verdict = io.BytesIO()
    argument = wire.pack({"reference": wanted, "candidate": got}, [checks, *outputs, *theirs])
    case_run.judge(argument, verdict)
    outcomes = case_run.parse(verdict.getvalue())[0]["outcomes"]
    assert outcomes and all(o["outcome"] == "passed" for o in outcomes), outcomes

cases, checks = compiled("cases.py"), compiled("checks.py")
once(cases, checks)
if len(sys.argv) > 2:
    print("ready", flush=True)
    for line in sys.stdin:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(place):
                del sys.modules[name]
        once(cases, checks)
        print("done", flush=True)
"""
_NEEDED = ("errors.py", "cases.py", "outputs.py", "runner")


class Plain:
    """A challenge's reference as the candidate, tested outside of any sandbox. Close it, or use it in a ``with`` block."""

    def __init__(self, challenge: Challenge) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rcb-benchmark-"))
        self._python = str(images.realise(challenge.paper.image).executable)
        package = Path(rcb_env.__file__).parent
        library = self._folder / "library" / "rcb_env"
        library.mkdir(parents=True)
        (library / "__init__.py").touch()
        for name in _NEEDED:
            if (package / name).is_dir():
                shutil.copytree(package / name, library / name)
            else:
                shutil.copy(package / name, library / name)
        header = {"file": challenge.file, "purpose": "final", "paper": challenge.paper.id}
        hidden = self._folder / "hidden"
        hidden.mkdir()
        (hidden / "argument").write_bytes(wire.pack(header))
        for path, content in challenge.paper.tests.items():
            (hidden / Path(path).name).write_bytes(content)
        self._tree = self._folder / "tree"
        for path, content in challenge.tree().items():
            (self._tree / path).parent.mkdir(parents=True, exist_ok=True)
            (self._tree / path).write_bytes(content)
        self._environment = {**os.environ, "PYTHONPATH": str(library.parent)}
        self._command = [self._python, "-c", _PROGRAM, str(hidden)]
        self._warm: subprocess.Popen[str] | None = None
        self.fresh()  # makes the reference's outputs, and bytecode for the next ones

    def __enter__(self) -> Plain:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where the tree, the library and the tests lie."""
        return self._folder

    def program(self) -> str:
        """A shell command that does what `fresh` does, wherever the folder is mounted at its path."""
        script = self._folder / "test.py"
        script.write_text(_PROGRAM)
        return f"cd {self._tree} && PYTHONPATH=$PYTHONPATH:{self._folder / 'library'} python3 {script} {self._folder / 'hidden'}"

    def fresh(self, tree: Path | None = None) -> None:
        """Test once, in a fresh interpreter; a copy of the tree where one is given."""
        subprocess.run(self._command, cwd=tree or self._tree, env=self._environment, check=True)

    def warm(self) -> None:
        """Test once, in a process that has done so before."""
        if self._warm is None:
            self._warm = subprocess.Popen(
                [*self._command, "stay"],
                cwd=self._tree,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._expect("ready")
        assert self._warm.stdin is not None
        self._warm.stdin.write("again\n")
        self._warm.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self._warm is not None
        assert self._warm.stdout is not None
        if self._warm.stdout.readline().strip() != word:
            raise RuntimeError("the warm process of the comparison has failed")

    def close(self) -> None:
        """End the warm process and remove the files."""
        if self._warm is not None:
            self._warm.communicate()
        shutil.rmtree(self._folder)
