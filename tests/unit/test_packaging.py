"""What a user installs: the wheel carries everything a run needs, and importing the package costs little."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import yaml

_ROOT = Path(__file__).resolve().parents[2]
_HEAVY = (
    "docker",
    "openai",
    "torch",
    "tiktoken",
    "matplotlib",
    "altair",
    "jinja2",
    "starlette",
    "statsmodels",
)
_PIN = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[0-9A-Za-z.]+( ; .+)?")


def _python(
    *arguments: str, path: Sequence[Path] = (), folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder or _ROOT,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = _python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_every_bundled_paper_and_image(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    papers = yaml.safe_load((_ROOT / "papers" / "papers.yaml").read_text())["papers"]
    for paper in papers:
        for file in ("paper.yaml", "paper.md", "tests/cases.py", "tests/checks.py"):
            assert f"rcb_env/_data/papers/{paper}/{file}" in names
    for lock in _ROOT.glob("images/*/requirements.lock"):
        assert f"rcb_env/_data/images/{lock.parent.name}/requirements.lock" in names


def test_the_wheel_carries_what_pages_and_the_leaderboard_are_made_of(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    view = _ROOT / "rcb_env" / "view"
    parts = [*view.glob("templates/*.html"), *view.glob("static/*")]
    parts += (_ROOT / "rcb_env" / "report").glob("data/*.csv")
    assert len(parts) > 13
    for path in parts:
        assert path.relative_to(_ROOT).as_posix() in names


def test_the_wheel_carries_our_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "rcb_env",
        "rcb_agents",
        "rcb_verifiers.py",
    }
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" in name]


def test_an_installed_wheel_lists_its_challenges_outside_the_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    script = (
        "import rcb_env.dataset.loading as datasets, rcb_env.sandbox.images as images, pathlib\n"
        "dataset = datasets.load_dataset()\n"
        "print(pathlib.Path(datasets.__file__).parents[2])\n"
        "print(dataset.papers[0].root)\n"
        "print(images.folder())\n"
        "print(len(dataset.challenges))\n"
    )
    done = _python("-c", script, path=[tmp_path / "site"], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    package, root, images, count = done.stdout.splitlines()
    assert Path(package) == tmp_path / "site"
    assert Path(root).is_relative_to(tmp_path / "site" / "rcb_env" / "_data" / "papers")
    assert Path(images).is_relative_to(tmp_path / "site" / "rcb_env" / "_data" / "images")
    assert int(count) >= 24


@pytest.mark.parametrize("module", ["rcb_env", "rcb_env.cli", "rcb_env.dataset.loading"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*sorted(set({_HEAVY!r}) & set(sys.modules)))"
    done = _python("-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_command_line_answers_before_it_loads_what_commands_need() -> None:
    heavy = (*_HEAVY, "pydantic", "yaml", "rich")
    script = f"import sys, rcb_env.cli; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    assert _python("-c", script).stdout.split() == []


@pytest.mark.parametrize(
    "lock",
    [_ROOT / "requirements.lock", *sorted(_ROOT.glob("images/*/requirements.lock"))],
    ids=lambda path: path.relative_to(_ROOT).as_posix(),
)
def test_a_lock_file_pins_exact_versions_and_names_no_place(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    assert lines
    assert [line for line in lines if not _PIN.fullmatch(line)] == []


@pytest.mark.parametrize("group", ["console_scripts", "gymnasium.envs", "rcb_env.agents"])
def test_every_entry_point_leads_to_something(group: str) -> None:
    points = [point for point in entry_points(group=group) if _is_ours(point)]
    assert points
    for point in points:
        assert callable(point.load())


def _is_ours(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == "rcb-env"


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lines = (_ROOT / "requirements.lock").read_text().splitlines()
    locked = {re.split(r"==|\[", line)[0].lower() for line in lines}
    names = {re.split(r"[<>=\[]", dependency)[0].lower() for dependency in wanted}
    assert names - locked == set()
