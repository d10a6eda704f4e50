"""How a runner comes into a fresh box: over the box's standard input, so that images hold packages only.

`BOOTSTRAP` is what the box's Python executes first. It reads one JSON text, with the runner's modules and its settings, and
serves the modules from memory.
Not covered: what is said after that (`rcb_env.sandbox.box`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_SERVED = (
    "errors",
    "outputs",
    "cases",
    "runner",
    "runner.wire",
    "runner.confine",
    "runner.folders",
    "runner.memory",
    "runner.namespaces",
    "runner.processes",
    "runner.zygote",
    "runner.watch",
    "runner.main",
    "runner.case_run",
    "runner.suite_run",
    "runner.official_run",
    "runner.operands",
    "runner.split_run",
    "runner.conversation",
    "runner.open_run",
    "judging",
)

# The first thing a box's Python executes: it reads the runner's modules from the stream and serves them from memory.
BOOTSTRAP = """
import importlib.abc, importlib.util, json, os, sys
def read(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part: sys.exit(3)
        data += part
    return data
boot = json.loads(read(int.from_bytes(read(4), "big")))
class Served(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if name in boot["modules"]:
            return importlib.util.spec_from_loader(name, self, is_package=name in boot["packages"])
    def get_source(self, name):
        return boot["modules"][name]
sys.meta_path.insert(0, Served())
from rcb_env.runner.main import main
main(boot["settings"])
"""


@cache
def served_modules() -> dict[str, str]:
    """The sources of these modules, by name."""
    package = Path(__file__).parents[1]
    modules = {"rcb_env": ""}
    for name in _SERVED:
        path = package.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        modules[f"rcb_env.{name}"] = file.read_text(encoding="utf-8")
    return modules
