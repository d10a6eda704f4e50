"""Adapters against the real libraries: scripts/test runs these in an environment that has them.

Elsewhere they are not collected; that environment's own run fails if it collects none.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_LIBRARIES = ("verifiers", "trl", "openenv")
_THERE = all(importlib.util.find_spec(name) for name in _LIBRARIES)
collect_ignore_glob = [] if _THERE else ["test_*.py"]


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The scripted model API of the contract tests.
model_server = _module(
    "rcb_model_server", Path(__file__).parents[1] / "contract" / "conftest.py"
).model_server
