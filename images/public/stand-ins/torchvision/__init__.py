"""Stands in for torchvision, which timm imports and the suites of this data set never call.

PyPI has no build of torchvision that fits the locked build of torch. Any name can be imported from any submodule; what
is imported is an empty class, so that code which really needs torchvision fails where it uses it.
"""

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType

__version__ = "0.0.0"


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("torchvision."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = ModuleType(spec.name)
        module.__getattr__ = __getattr__
        return module

    def exec_module(self, module):
        pass


class _Member(type):
    def __getattr__(cls, name):  # members of enumerations, as in InterpolationMode.NEAREST
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Member(name, (), {"__module__": "torchvision"})


sys.meta_path.append(_StandIn())
