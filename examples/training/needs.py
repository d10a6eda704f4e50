"""What an example needs beside rcb-env: said in one line, before any work."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def lacking(extra: str, *modules: str) -> str:
    """The first of these modules that cannot be imported and how to get it; "" if all can."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            return (
                f"{module} cannot be imported ({error}): pip install 'rcb-env[{extra}]',"
                " or in a checkout scripts/setup --adapters, and run it with .venv-adapters/bin/python"
            )
    return ""


def require(extra: str, *modules: str) -> None:
    """End with one line if a module is missing."""
    if line := lacking(extra, *modules):
        sys.exit(f"{Path(sys.argv[0]).name}: {line}")
