"""What Python files import, read from their source without running it.

Files are a mapping from relative paths to contents, as a paper's folder holds them; imports are
resolved as if that folder were first on the path. A file that is no Python imports nothing.
Not covered: imports made by `importlib`, and names that only exist at run time.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping


def third_party(start: Iterable[str], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Modules from elsewhere that importing the ``start`` files imports, by dotted name, sorted.

    Imports inside functions are left out: they may never happen.
    """
    found: set[str] = set()
    for path in reachable(start, files):
        for module, _, _ in _imports(files[path], top_level=True):
            top = module.split(".")[0]
            ours = any(file == f"{top}.py" or file.startswith(f"{top}/") for file in files)
            if module and not ours and top not in sys.stdlib_module_names:
                found.add(module)
    return tuple(sorted(found))


def reachable(start: Iterable[str], files: Mapping[str, bytes]) -> set[str]:
    """The Python files that importing the ``start`` files can load, these included."""
    seen: set[str] = set()
    todo = [path for path in start if path in files]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        if not path.endswith(".py"):
            continue
        # Importing a/b/c.py runs a/__init__.py and a/b/__init__.py first.
        todo += [file for file in _packages(path) if file in files]
        for module, names, level in _imports(files[path], top_level=False):
            base = _absolute(module, level, path)
            if base is None:
                continue
            for name in (base, *(f"{base}.{name}" if base else name for name in names)):
                todo += _resolve(name, files)
    return seen


def _imports(source: bytes, *, top_level: bool) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Every import as (module, imported names, leading dots); none if this is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the paper's code, not about ours
            root = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    todo: list[ast.AST] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, (), 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            level = node.level
            if not (top_level and level):
                yield node.module or "", tuple(alias.name for alias in node.names), level
        elif not (top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            todo += ast.iter_child_nodes(node)


def _absolute(module: str, level: int, path: str) -> str | None:
    if level == 0:
        return module
    folders = path.split("/")[:-1]
    if level - 1 > len(folders):
        return None
    return ".".join([*folders[: len(folders) - level + 1], *([module] if module else [])])


def _resolve(module: str, files: Mapping[str, bytes]) -> list[str]:
    if not module:
        return []
    stem = module.replace(".", "/")
    return [path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in files]


def _packages(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join([*parts[:depth], "__init__.py"]) for depth in range(1, len(parts) + 1)]
