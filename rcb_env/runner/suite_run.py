"""What a test run of a public folder executes: its unittest suite, with candidate and reference in one process.

The suite and the modules only it imports (the references) are served from memory: they are on no disk the candidate could
read, they are imported for the suite and not for the candidate's files, and they leave `sys.modules` again as soon as
the suite has them. Results are told by the object that ran the tests, over a descriptor of its own, not by what is
printed. All this makes cheating harder and is believed by nobody: code in the same process can undo any of it. What
finds that out is the canary (`guarded.py`).
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from rcb_env.runner import wire
from rcb_env.runner.case_run import describe, new_imports, parse


def run(argument: bytes, result: BinaryIO) -> int:
    """Run the suite in the current folder; one record a test, then ``done``. Returns the script's exit code.

    Header of the argument: ``suite`` (path of the test script) and ``paths`` of the hidden modules, the suite included,
    whose sources are the blobs. Records: ``test``, ``outcome`` (passed, failed, error, skipped), ``error`` (None, or
    type, message, frames); a suite that cannot be imported is one record with the empty name.
    """
    header, blobs = parse(argument)
    pack, write, flush = wire.pack, result.write, result.flush
    before = set(sys.modules)
    root = Path.cwd()
    sys.path.insert(0, str(root))
    hidden = Hidden(root, dict(zip(header["paths"], blobs, strict=True)))
    sys.meta_path.insert(0, hidden)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromModule(hidden.execute(header["suite"]))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        sys.excepthook(type(error), error, error.__traceback__)
        write(pack({"test": "", "outcome": "error", "error": describe(error)}))
        write(pack({"done": True, "imports": []}))
        return 1
    # A stream of its own: candidates may close or replace sys.stderr.
    report = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    runner = unittest.TextTestRunner(stream=report, resultclass=Recorder)
    recorder = runner.run(suite)
    report.flush()
    assert isinstance(recorder, Recorder)
    for test, (outcome, told) in recorder.outcomes.items():
        write(pack({"test": test, "outcome": outcome, "error": told}))
    write(pack({"done": True, "imports": [] if header["hide"] else new_imports(before)}))
    flush()
    return 0 if recorder.wasSuccessful() else 1


class Hidden(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Serves modules from memory, for imports that do not come from a file of the candidate's tree."""

    def __init__(self, root: Path, sources: Mapping[str, bytes]) -> None:
        self._root = str(root) + os.sep
        self._sources = {_module_name(path): (path, source) for path, source in sources.items()}
        self._modules: dict[str, ModuleType] = {}

    def execute(self, path: str) -> ModuleType:
        """Execute the suite itself, as a module whose import statements leave nothing hidden in `sys.modules`."""
        name = _module_name(path)
        module = ModuleType(name)
        module.__file__ = self._root + path
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import_and_hide}
        sys.modules[name] = module
        source = self._sources[name][1]
        exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
        return module

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
        if fullname not in self._sources or self._candidate_asks():
            return None
        file = self._sources[fullname][0]
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
        path, source = self._sources[name]
        module.__file__ = self._root + path
        try:
            exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del self._modules[name]
            raise

    def get_source(self, fullname: str) -> None:
        """Nobody reads it from here."""

    def _candidate_asks(self) -> bool:
        frame = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if (
                file.startswith(self._root)
                and _module_name(file[len(self._root) :]) not in self._sources
            ):
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return False


class Recorder(unittest.TextTestResult):
    """Remembers the outcome of every test by its name; the worst counts where a test has subtests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcomes: dict[str, tuple[str, Any]] = {}

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
    return str(whole.id()).partition(".")[2]


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
