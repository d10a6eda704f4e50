"""Rules about the shape of the code that no other tool checks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import documented_blocks

_ROOT = Path(__file__).resolve().parents[1]
_MODULES = sorted([*_ROOT.glob("rcb_env/**/*.py"), *_ROOT.glob("agents/**/*.py")])
_MAX_LINES = 800
# Pieced together, so that this file does not hold what it looks for.
_PLACES = (
    "/work/" + "main",
    "/opt/" + "wheels",
    "/opt/" + "pypi",
    "/root/" + ".",
    "pypi" + ".org",
    "python" + "hosted",
)
_TEXT = (".py", ".md", ".toml", ".yaml", ".yml", ".lock", ".in", ".txt", ".json", "")


def _tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [_ROOT / name for name in done.stdout.split("\0") if name]


def _name(path: Path) -> str:
    return path.relative_to(_ROOT).as_posix()


def test_imports_go_one_way() -> None:
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-cache"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.parametrize("path", _MODULES, ids=_name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "no module docstring"
    froms = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert "__future__" in froms or len(tree.body) == 1


def test_no_module_is_too_long_to_read() -> None:
    lengths = {_name(path): len(path.read_text().splitlines()) for path in _MODULES}
    assert {name: length for name, length in lengths.items() if length > _MAX_LINES} == {}


def test_no_module_is_a_drawer_for_leftovers() -> None:
    drawers = {"utils", "util", "helpers", "common", "base", "misc"}
    assert [_name(path) for path in _MODULES if path.stem in drawers] == []


def test_agents_stays_a_folder_and_no_package() -> None:
    """A package of another project installs a module `agents`; ours must not stand in its way."""
    assert not (_ROOT / "agents" / "__init__.py").exists()


def test_no_file_names_a_place_only_one_machine_has() -> None:
    found = [
        f"{_name(path)}: {place}"
        for path in _tracked()
        if path.suffix in _TEXT and path.is_file()
        for place in _PLACES
        if place in path.read_text("utf-8", "replace")
    ]
    assert found == []


def test_tests_use_real_parts() -> None:
    this = Path(__file__)
    fakes = ("unittest.mock", "MagicMock", "mocker.")
    found = [
        f"{_name(path)}: {fake}"
        for path in sorted(_ROOT.glob("tests/**/*.py"))
        if path != this
        for fake in fakes
        if fake in path.read_text()
    ]
    assert found == []


@pytest.mark.parametrize("name", ["setup", "test", "demo", "docs", "lock"])
def test_a_script_is_executable_and_parses(name: str) -> None:
    path = _ROOT / "scripts" / name
    assert path.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0


def test_every_block_of_the_documentation_is_run_or_read_or_says_why_not() -> None:
    """tests/documented_blocks.py says how; tests/contract/test_documented_blocks.py runs those that say nothing."""
    command = re.compile(r"(\$|rcb \w+|pip|python|export|import) [\w./-]|from \S+ import ")
    wrong = []
    for block in documented_blocks.blocks():
        if block.language not in documented_blocks.LANGUAGES:
            wrong.append(f"{block.name}: its language is none of {documented_blocks.LANGUAGES}")
        elif block.language == "text" and any(map(command.match, block.text.splitlines())):
            wrong.append(f"{block.name}: commands in a text, which is not run")
        elif block.language in documented_blocks.READ:
            assert documented_blocks.READ[block.language](block.text), block.name
    assert wrong == []
