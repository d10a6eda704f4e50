"""The environment as other libraries' own kind of environment; each adapter is one module and an extra.

verifiers.py   a taskset, a harness and an environment of Prime Intellect's `verifiers`
trl.py         an ``environment_factory`` of TRL's `GRPOTrainer`: every tool a method
openenv.py     an OpenEnv server, and the client that belongs to it

Guarantees: nothing in rcb_env imports an adapter, and this package alone imports nothing heavy. An
adapter whose library is missing says which extra has it. Every episode is graded once; one that our
machinery has failed is told apart from one that an agent has failed.
Not covered: training, which is the library's; `examples/` shows it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from rcb_env.errors import UsageError


def needs(module: str, extra: str) -> ModuleType:
    """A module of the library that an adapter is for.

    Raises:
        UsageError: it is not installed, or something that it needs is not.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"rcb_env.adapters.{extra} needs {module} ({error}): pip install 'rcb-env[{extra}]'"
        ) from None
