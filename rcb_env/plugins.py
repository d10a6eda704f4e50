"""Classes that others bring: found by entry point, or as ``module:Class``.

Agents, sandboxes and tables of models are found this way, so that a package of somebody else adds one without a change here.
Not covered: what such a class must be able to do (`rcb_env.play.agent`, `rcb_env.sandbox.box`).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

from rcb_env.errors import UsageError, blame, unknown


def names(group: str) -> list[str]:
    """The names that are registered in an entry point group."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=group)})


def loaded(group: str) -> list[Any]:
    """What is registered in an entry point group, whatever it is, in the order of the names."""
    points = importlib.metadata.entry_points(group=group)
    return [point.load() for point in sorted(points, key=lambda point: point.name)]


def find(
    group: str, spec: str, *, kind: str, method: str, where: str
) -> tuple[type[Any], str, str]:
    """The class that a spec names, how to call it in messages, and what the spec says after it.

    Args:
        group: the entry point group.
        spec: ``name`` or ``module:Class``, with more after another colon.
        kind: what is named, for instance "agent".
        method: what the class must have, as it is called: ``play(task)``.
        where: the command that lists the names.

    Raises:
        UsageError: nobody knows the name, or it leads to no such class.
    """
    name, _, rest = spec.strip().partition(":")
    for point in importlib.metadata.entry_points(group=group):
        if point.name == name:
            return _load(point.module, point.attr, name, kind, method), name, rest
    class_name, _, more = rest.partition(":")
    if class_name.isidentifier() and all(part.isidentifier() for part in name.split(".")):
        label = f"{name}:{class_name}"
        return _load(name, class_name, label, kind, method), label, more
    raise unknown(kind, name, names(group), where=where)


def _load(module: str, class_name: str, label: str, kind: str, method: str) -> type[Any]:
    if "" not in sys.path and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # a class of one's own usually lies where one works
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"the {kind} {label!r} cannot be imported: {error}") from error
    except Exception as error:
        raise UsageError(f"the {kind} {label!r} cannot be imported: {blame(error)}") from error
    found = getattr(loaded, class_name, None)
    if found is None:
        raise UsageError(f"the module {module!r} has no class {class_name!r}")
    if not isinstance(found, type) or not callable(getattr(found, method.partition("(")[0], None)):
        raise UsageError(
            f"{label!r} is not a usable {kind}: it must be a class with a method {method}"
        )
    return found
