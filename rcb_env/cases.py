"""What an author of a paper's tests imports: `@case`, `@check`, `raises`, and the two objects a case gets.

`tests/cases.py` drives the paper's code and returns its outputs; `tests/checks.py` looks at those outputs:

    from rcb_env.cases import case, raises

    @case(seeds=3, rtol=1e-5, atol=1e-6, covers=["src/dynamic_tanh.py"])
    def forward_keeps_the_shape(tree, rng):
        layer = tree.load("dynamic_tanh").DynamicTanh(16)
        return {"y": layer(rng.torch.normal(2, 16)), "bad": raises(lambda: layer(None))}

The same case runs on the candidate (in one box) and on the reference (in another); a judge compares the two outputs
with `difference`. Guarantees: a case's inputs depend on its seed only, not on torch's version.

This module runs inside boxes, so it imports the standard library and numpy only, and torch when a case asks for it.
Not covered: how outputs leave a box and are compared (`outputs.py`), which cases run with which seeds
(`runner/case_run.py`), and what a verdict is (`grading/verdict.py`).
"""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rcb_env.outputs import (
    MAX_DEPTH,
    MAX_OUTPUT_BYTES,
    MAX_TREE_BYTES,
    Array,
    Difference,
    decode,
    difference,
    encode,
    tree_bytes,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_OUTPUT_BYTES",
    "MAX_TREE_BYTES",
    "Array",
    "Case",
    "Check",
    "Difference",
    "Rng",
    "TorchDraws",
    "Tree",
    "case",
    "cases_in",
    "check",
    "checks_in",
    "decode",
    "difference",
    "encode",
    "raises",
    "tree_bytes",
]


@dataclass(frozen=True)
class Case:
    """One test function of `cases.py` and how its outputs are compared."""

    name: str
    function: Callable[[Tree, Rng], Any]
    seeds: int  # how many seeds the case runs with
    rtol: float  # relative tolerance of the comparison with the reference
    atol: float  # absolute tolerance of the comparison with the reference
    covers: tuple[str, ...]  # annotated files whose regions this case tests; empty: all of them
    compare: bool  # False: only checks look at the outputs (random code judged by statistics)

    def tests(self, file: str) -> bool:
        """Whether this case belongs to the regions of `file` (a path such as ``src/model.py``)."""
        return not self.covers or file in self.covers

    def seed(self, purpose: str, paper: str, index: int) -> int:
        """The index-th 63-bit seed for a purpose ("feedback" or "final"); purposes never share seeds."""
        text = f"{purpose}|{paper}|{self.name}|{index}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class Check:
    """One unit test of `checks.py`: a function of a case's outputs that asserts."""

    name: str
    case: str
    function: Callable[[Any, Any], None]


def case(
    *,
    seeds: int = 3,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    covers: Sequence[str] = (),
    compare: bool = True,
) -> Callable[[Callable[[Tree, Rng], Any]], Callable[[Tree, Rng], Any]]:
    """Mark a function ``(tree, rng) -> outputs`` as a case.

    Outputs may be None, bool, int, float, complex, str, numpy arrays and scalars, torch tensors, and lists, tuples and
    dicts with string keys of them.
    """

    def mark(function: Callable[[Tree, Rng], Any]) -> Callable[[Tree, Rng], Any]:
        made = Case(function.__name__, function, seeds, rtol, atol, tuple(covers), compare)
        function.__rcb_case__ = made  # type: ignore[attr-defined]
        return function

    return mark


def check(case: str) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
    """Mark a function ``(out, ref)`` as a check of the named case.

    ``out`` holds the candidate's outputs and ``ref`` the reference's for the same seed, arrays as numpy. The check passes
    unless it raises; the text of an AssertionError is what the agent may be shown.
    """

    def mark(function: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        function.__rcb_check__ = Check(function.__name__, case, function)  # type: ignore[attr-defined]
        return function

    return mark


def raises(action: Callable[[], Any]) -> str | None:
    """The type name of the exception that `action` raises, or None when it raises nothing."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 (which one it is, is the answer)
        return type(error).__name__
    return None


def cases_in(namespace: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases of an executed `cases.py`, in the order they are written."""
    found = (getattr(value, "__rcb_case__", None) for value in namespace.values())
    return tuple(item for item in found if isinstance(item, Case))


def checks_in(namespace: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of an executed `checks.py`, in the order they are written."""
    found = (getattr(value, "__rcb_check__", None) for value in namespace.values())
    return tuple(item for item in found if isinstance(item, Check))


class Tree:
    """The paper's code as a case sees it: modules by their name below ``src/``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = str(root / "src")
        if source not in sys.path:
            sys.path.insert(0, source)

    def load(self, module: str) -> Any:
        """Import ``src/<module>.py`` (dotted names for packages) and return the module."""
        return importlib.import_module(module)


class Rng:
    """Seeded randomness for a case. Making one also seeds random, numpy and torch globally."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.numpy = np.random.default_rng(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        if "torch" in sys.modules:
            # What torch.manual_seed does in a box, which has a CPU only, without its look at every other device.
            sys.modules["torch"].default_generator.manual_seed(seed)
        self._torch: TorchDraws | None = None

    @property
    def torch(self) -> TorchDraws:
        """Draws as float32 and int64 CPU tensors."""
        if self._torch is None:
            self._torch = TorchDraws(self.numpy, self.seed)
        return self._torch


class TorchDraws:
    """Tensors drawn from the case's numpy generator, so the values do not depend on torch's version."""

    def __init__(self, generator: np.random.Generator, seed: int) -> None:
        self._torch = importlib.import_module("torch")
        self._generator = generator
        self._seed = seed

    def _float32(self, values: Any) -> Any:
        return self._torch.from_numpy(np.asarray(values, dtype=np.float32))

    def normal(self, *shape: int, mean: float = 0.0, std: float = 1.0) -> Any:
        """Normal values of the given shape."""
        return self._float32(self._generator.normal(mean, std, shape))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        """Uniform values in [low, high) of the given shape."""
        return self._float32(self._generator.uniform(low, high, shape))

    def integers(self, low: int, high: int, *shape: int) -> Any:
        """Integers in [low, high) of the given shape."""
        return self._torch.from_numpy(np.asarray(self._generator.integers(low, high, shape)))

    def permutation(self, n: int) -> Any:
        """A permutation of 0..n-1."""
        return self._torch.from_numpy(self._generator.permutation(n))

    def generator(self) -> Any:
        """A fresh torch.Generator with the case's seed, for code that takes one."""
        return self._torch.Generator().manual_seed(self._seed)
