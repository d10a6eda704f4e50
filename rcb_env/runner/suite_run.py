"""What a test run of a public folder executes: its unittest suite.

`run` is guarded grading's: candidate and reference are in one process, whose random generators we seed. The suite and the modules only it imports (the
references) are served from memory, as compiled code: they are on no disk the candidate could read, nothing here holds
their text, they are imported for the suite and not for the candidate's files, and they leave `sys.modules` again as
soon as the suite has them. Results are told by the object that ran the tests, over a descriptor of its own, not by what
is printed. All this makes cheating harder and is believed by nobody: code in the same process can undo any of it. What
finds that out is the canary (`guarded.py`).
`execute` is what split grading (`split_run.py`) shares: there, no reference is in the process.
"""

from __future__ import annotations

import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import marshal
import os
import random
import sys
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, BinaryIO, Protocol

import numpy as np

from rcb_env.runner import wire
from rcb_env.runner.case_run import describe, new_imports, parse

_SEED = 0


def run(argument: bytes, result: BinaryIO) -> int:
    """Run the suite in the current folder; one record a test, then ``done``. Returns the script's exit code.

    Header of the argument: ``suite`` (path of the test script), ``paths`` of the hidden modules, the suite included,
    whose compiled code is the blobs, and ``hide``: whether to keep quiet about what was imported. Records: ``test``,
    ``outcome`` (passed, failed, error, skipped), ``error`` (None, or type, message, frames); a suite that cannot be
    imported is one record with the empty name.
    """
    header, blobs = parse(argument)
    seed_generators(_SEED)  # a suite that seeds nothing has the same inputs in every run
    return execute(header, blobs, result)


def seed_generators(seed: int) -> None:
    """Have the random generators that are global in this process start from a seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)


def execute(
    header: Mapping[str, Any],
    blobs: Sequence[bytes],
    result: BinaryIO,
    *,
    names: Mapping[str, object] | None = None,
    loader: unittest.TestLoader | None = None,
    watch: Watch | None = None,
) -> int:
    """Run a suite.

    Args:
        header: see `run`.
        blobs: see `run`.
        result: where the records go.
        names: what hidden modules find as global names besides their own.
        loader: what makes suites of test classes.
        watch: told when a test starts and stops.
    """
    pack, write, flush = wire.pack, result.write, result.flush
    before = set(sys.modules)
    root = Path.cwd()
    sys.path.insert(0, str(root))
    hidden = Hidden(root, dict(zip(header["paths"], blobs, strict=True)), names or {})
    sys.meta_path.insert(0, hidden)
    loader = loader or unittest.defaultTestLoader
    try:
        suite = loader.loadTestsFromModule(hidden.execute(header["suite"]))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        sys.excepthook(type(error), error, error.__traceback__)
        write(pack({"test": "", "outcome": "error", "error": describe(error)}))
        write(pack({"done": True, "imports": []}))
        return 1
    # A stream of its own: candidates may close or replace sys.stderr.
    report = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    runner = unittest.TextTestRunner(
        stream=report, resultclass=functools.partial(Recorder, watch=watch)
    )
    recorder = runner.run(suite)
    report.flush()
    assert isinstance(recorder, Recorder)
    for test, (outcome, told) in recorder.outcomes.items():
        write(pack({"test": test, "outcome": outcome, "error": told}))
    write(pack({"done": True, "imports": [] if header["hide"] else new_imports(before)}))
    flush()
    return 0 if recorder.wasSuccessful() else 1


class Watch(Protocol):
    """What wants to know when a test runs."""

    def started(self) -> None:
        """A test is about to start."""

    def stopped(self, test: str) -> None:
        """It has ended."""


class Hidden(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Serves modules from memory, for imports that do not come from a file of the candidate's tree."""

    def __init__(
        self, root: Path, compiled: Mapping[str, bytes], names: Mapping[str, object]
    ) -> None:
        self._root = str(root) + os.sep
        self._code = {_module_name(path): marshal.loads(code) for path, code in compiled.items()}
        self._paths = {_module_name(path): path for path in compiled}
        self._names = names
        self._modules: dict[str, ModuleType] = {}

    def execute(self, path: str) -> ModuleType:
        """Execute the suite itself, as a module whose import statements leave nothing hidden in `sys.modules`."""
        name = _module_name(path)
        module = ModuleType(name)
        module.__file__ = self._root + path
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import_and_hide}
        module.__dict__.update(self._names)
        sys.modules[name] = module
        exec(self._take(name), module.__dict__)
        return module

    def _take(self, name: str) -> CodeType:
        """The code of a module, which is executed once and not kept."""
        code = self._code.pop(name)
        assert isinstance(code, CodeType)
        return code

    def _import_and_hide(
        self,
        name: str,
        namespace: Mapping[str, object] | None = None,
        local: Mapping[str, object] | None = None,
        wanted: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        module = builtins.__import__(name, namespace, local, wanted or (), level)
        for hidden in self._modules:
            sys.modules.pop(hidden, None)
        return module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The hidden module of this name, unless the candidate's code is what asks for it."""
        del path, target
        if fullname not in self._paths or self._candidate_asks():
            return None
        file = self._paths[fullname]
        is_package = file.endswith("__init__.py")
        spec = importlib.util.spec_from_loader(fullname, self, origin=file, is_package=is_package)
        if spec is not None and is_package:
            spec.submodule_search_locations = [str(Path(self._root, file).parent)]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """The module that was served before, so that patching it reaches the suite's copy."""
        return self._modules.get(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute a module once."""
        name = module.__name__
        if name in self._modules:
            return
        self._modules[name] = module
        module.__file__ = self._root + self._paths[name]
        module.__dict__.update(self._names)
        code = self._take(name)
        try:
            exec(code, module.__dict__)
        except BaseException:
            self._code[name] = code
            del self._modules[name]
            raise

    def get_source(self, fullname: str) -> None:
        """Nobody reads it from here."""

    def _candidate_asks(self) -> bool:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._root):  # hidden code has no such name
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return False


class Recorder(unittest.TextTestResult):
    """Remembers the outcome of every test by its name; the worst counts where a test has subtests."""

    def __init__(self, *args: Any, watch: Watch | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcomes: dict[str, tuple[str, Any]] = {}
        self._watch = watch

    def startTest(self, test: unittest.TestCase) -> None:
        """See `unittest.TestResult`."""
        super().startTest(test)
        if self._watch is not None:
            self._watch.started()

    def stopTest(self, test: unittest.TestCase) -> None:
        """See `unittest.TestResult`."""
        super().stopTest(test)
        if self._watch is not None:
            self._watch.stopped(_test_name(test))

    def addSuccess(self, test: unittest.TestCase) -> None:
        """See `unittest.TestResult`."""
        super().addSuccess(test)
        self.outcomes.setdefault(_test_name(test), ("passed", None))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """See `unittest.TestResult`."""
        super().addFailure(test, err)
        self.outcomes[_test_name(test)] = ("failed", describe(err[1]))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """See `unittest.TestResult`."""
        super().addError(test, err)
        self.outcomes[_test_name(test)] = ("error", describe(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """See `unittest.TestResult`."""
        super().addSkip(test, reason)
        self.outcomes.setdefault(_test_name(test), ("skipped", None))

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        """See `unittest.TestResult`."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            outcome = "failed" if issubclass(err[0], test.failureException) else "error"
            self.outcomes[_test_name(test)] = (outcome, describe(err[1]))


def _test_name(test: Any) -> str:
    whole = getattr(test, "test_case", test)  # a skip inside a subtest names the subtest
    if not isinstance(whole, unittest.TestCase):
        return str(whole.id())  # "setUpClass (module.Class)"
    return str(whole.id()).partition(".")[2]


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
