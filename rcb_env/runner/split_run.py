"""What split grading executes: `run` in either box, `judge` in the judge's only.

`run` runs one copy of a public suite (`grading/copies.py`). The reference's modules are bound to the annotated file, which in
the candidate's box is the candidate's own and in the judge's box the reference's; nothing here holds the answer otherwise.
Every comparison the suite makes hands its operands to a recorder, which sends them out as plain data, test by test.
Random generators start alike: seeded before anything is imported and before every class's setup; and every test of a class
starts from what that setup left.
`judge` gets the operands of both runs and applies the suite's own comparison across them, operand by operand.
Not covered: what the suite's tests report (`suite_run.py`), and what it all means (`grading/split.py`).
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import math
import random
import sys
import unittest
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from rcb_env import cases
from rcb_env.runner import suite_run, wire
from rcb_env.runner.case_run import parse
from rcb_env.runner.operands import agree, plain

RECORDER = "__rcb__"
_UNENCODED = b""  # operands that are too large to send


def run(argument: bytes, result: BinaryIO) -> int:
    """Run a copy of a suite; one record a test with its operands, then the records of `suite_run.run`.

    Header of the argument: that of `suite_run.run`, and ``seed``, ``bound`` (module, file and aliases of every reference)
    and ``settings``: whether comparisons' other arguments are told as well. Records: ``operands_of`` (a test, or ""),
    ``sites`` (the numbers of its comparisons, in their order); a blob for each.
    """
    header, blobs = parse(argument)
    generators = Generators(header["seed"])
    generators.seed()
    sys.meta_path.insert(0, _Bound(Path.cwd(), header["bound"]))
    recorder = Recorder(result, generators, settings=header["settings"])
    loader = unittest.TestLoader()
    setattr(loader, "suiteClass", functools.partial(_Seeded, generators))  # noqa: B010 (typed as a class)
    return suite_run.execute(
        header, blobs, result, names={RECORDER: recorder}, loader=loader, watch=recorder
    )


def judge(argument: bytes, result: BinaryIO) -> None:
    """Compare operands of a candidate's run with the reference's; one message: the first difference of every test.

    Header of the argument: ``pairs``, each with ``test``, ``name``, ``line``, ``withheld`` and ``squared``. Of every pair the
    blobs hold the reference's operands, the candidate's, and those of the reference that name a limit, if one matters.
    """
    header, blobs = parse(argument)
    told: dict[str, tuple[str, str]] = {}
    for index, pair in enumerate(header["pairs"]):
        if pair["test"] not in told:
            found = _judge_one(pair, *blobs[3 * index : 3 * index + 3])
            if found:
                where = f"{pair['name']} in line {pair['line']}"
                told[pair["test"]] = (f"{where}: {found.message}", found.error_class)
    result.write(wire.pack({"differences": told}))


def _judge_one(
    pair: Mapping[str, Any], wanted: bytes, given: bytes, limit: bytes
) -> cases.Difference | None:
    try:
        want, got = cases.decode(wanted), cases.decode(given)
        operands, settings = want["operands"], dict(want["settings"])
        theirs = got["operands"]
        if type(theirs) is not tuple or len(theirs) != len(operands):
            return cases.Difference("other operands")
    except (ValueError, KeyError, TypeError, AttributeError):
        return cases.Difference("the operands cannot be read")
    if limit:
        settings["limit"] = _limit(limit, squared=pair["squared"])
    for index, (one, other) in enumerate(zip(operands, theirs, strict=True)):
        if index in pair["withheld"]:
            continue
        try:
            found = agree(pair["name"], settings, one, other)
        except Exception as error:  # a number no float can hold, for instance
            found = cases.Difference(f"it cannot be compared ({type(error).__name__})")
        if found:
            return replace(found, message=f"operand {index + 1}: {found.message}")
    return None


def _limit(data: bytes, *, squared: bool) -> float:
    """The limit in the reference's operands of an assertion such as ``assertLess(value, limit)``."""
    found = np.abs(np.asarray(cases.decode(data)["operands"][1], dtype=float)).max()
    return math.sqrt(found) if squared else float(found)


class Generators:
    """The random generators that are global in a process, and torch's default type, which draws depend on."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._state: tuple[Any, ...] = ()
        torch = sys.modules.get("torch")
        self._dtype = torch.get_default_dtype() if torch else None

    def seed(self) -> None:
        """Have them start from the seed."""
        suite_run.seed_generators(self._seed)
        self._state = ()
        self._reset_dtype()

    def _reset_dtype(self) -> None:
        torch = sys.modules.get("torch")
        if torch and self._dtype is not None and torch.get_default_dtype() != self._dtype:
            torch.set_default_dtype(self._dtype)

    def resume(self) -> None:
        """Have them go on from where they were when this was first called after `seed`."""
        self._reset_dtype()
        torch = sys.modules.get("torch")
        if not self._state:
            states = torch.default_generator.get_state() if torch else None
            self._state = (random.getstate(), np.random.get_state(), states)
            return
        random.setstate(self._state[0])
        np.random.set_state(self._state[1])
        if torch and self._state[2] is not None:
            torch.default_generator.set_state(self._state[2])


class _Seeded(unittest.TestSuite):
    """The tests of a class, or classes: the generators are seeded before the class is set up."""

    def __init__(self, generators: Generators, tests: Iterable[Any] = ()) -> None:
        super().__init__(tests)
        self._generators = generators

    def run(self, result: unittest.TestResult, debug: bool = False) -> unittest.TestResult:
        """See `unittest.TestSuite`."""
        self._generators.seed()
        return super().run(result, debug)


class Recorder:
    """What the copies of a suite call: remembers operands, and compares as the suite would have."""

    def __init__(self, result: BinaryIO, generators: Generators, *, settings: bool) -> None:
        self._write = result.write
        self._generators = generators
        self._tells_settings = settings
        self._sites: list[int] = []
        self._operands: list[bytes] = []

    def compare(self, site: int, count: int, function: Any, *args: Any, **kwargs: Any) -> Any:
        """A comparison of the suite, with all its operands."""
        named = [kwargs[key] for key in kwargs if key in _OPERANDS]
        operands = [*args[:count], *named][:count]
        if len(operands) == 1 and getattr(function, "__name__", "") in ("allclose", "equal"):
            operands.insert(0, getattr(function, "__self__", None))  # a tensor's own method
        settings = {str(place): one for place, one in enumerate(args[count:])}
        settings |= {key: one for key, one in kwargs.items() if key not in _OPERANDS}
        self._record(site, operands, settings)
        return function(*map(_bare, args), **{key: _bare(one) for key, one in kwargs.items()})

    def part(self, site: int, answer: Any, *operands: Any) -> Any:
        """A comparison whose other operands are not in this copy."""
        self._record(site, [None if one is ... else one for one in operands], {})
        return answer

    def minus(self, site: int, left: Any, right: Any) -> Any:
        """A difference that the suite holds against a limit."""
        self._record(site, [left, right], {})
        return left - right

    def expects(self, site: int, function: Any, *args: Any, **kwargs: Any) -> Any:
        """A block that has to raise."""
        self._record(site, [], {})
        return function(*args, **kwargs)

    def ordered(self, values: Any) -> Any:
        """What a loop goes over; a dictionary and a set in an order that does not depend on how they were made."""
        if type(values) is type({}.items()):
            return sorted(values, key=lambda item: _order(item[0]))
        if isinstance(values, dict | set | frozenset) or type(values) is type({}.keys()):
            return sorted(values, key=_order)
        return values

    def started(self) -> None:
        """See `suite_run.Watch`."""
        self._send("")  # what a class's setup compared
        self._generators.resume()

    def stopped(self, test: str) -> None:
        """See `suite_run.Watch`."""
        self._send(test)

    def _record(self, site: int, operands: Sequence[Any], settings: Mapping[str, Any]) -> None:
        told = {
            "operands": tuple(plain(one) for one in operands),
            "settings": {key: plain(one) for key, one in settings.items()}
            if self._tells_settings
            else {},
        }
        try:
            data = cases.encode(told)
        except (TypeError, ValueError):
            data = _UNENCODED
        self._sites.append(site)
        self._operands.append(data)

    def _send(self, test: str) -> None:
        if self._sites:
            self._write(wire.pack({"operands_of": test, "sites": self._sites}, self._operands))
        self._sites, self._operands = [], []


def _bare(value: Any) -> Any:
    """A tensor of a class of its own as an ordinary one: two modules made of one file define that class twice."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return value
    return value.as_subclass(torch.Tensor)


def _order(key: object) -> tuple[str, str]:
    return type(key).__name__, repr(key)


_OPERANDS = frozenset(
    ["a", "b", "actual", "desired", "expected", "first", "second", "input", "other", "x", "y"]
)


class _Bound(importlib.abc.MetaPathFinder):
    """Finds the annotated file under the names of its references."""

    def __init__(self, root: Path, bound: Sequence[Mapping[str, Any]]) -> None:
        self._root = root
        self._bound = {one["module"]: one for one in bound}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module of its own, made of the annotated file."""
        del path, target
        one = self._bound.get(fullname)
        if one is None:
            return None
        file = str(self._root / one["file"])
        loader = _Aliasing(fullname, file, one["aliases"])
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


class _Aliasing(importlib.machinery.SourceFileLoader):
    """Loads a file, and gives some of its names others besides."""

    def __init__(self, name: str, file: str, aliases: Mapping[str, str]) -> None:
        super().__init__(name, file)
        self._aliases = aliases

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader`. What cannot be done twice in a process, such as taking a port, is done once."""
        try:
            super().exec_module(module)
        except Exception:
            before = [
                one for one in sys.modules.values() if getattr(one, "__file__", "") == self.path
            ]
            others = [one for one in before if one is not module]
            if not others:
                raise
            names = {name: one for name, one in vars(others[0]).items() if name[:2] != "__"}
            vars(module).update(names)
        for alias, name in self._aliases.items():
            if hasattr(module, name):
                setattr(module, alias, getattr(module, name))
