"""Data sets on disk become papers and challenges.

A data set is a folder with ``papers.yaml`` and one folder per paper, in one of two layouts: *native* (ours:
``paper.yaml``, ``paper.md``, ``src/``, ``tests/``) and *paper2code* (the folders of the public benchmark, arXiv
2506.02314). A native paper may have an open challenge beside its regions (``open/``); with a scope behind its name, such
as ``@open`` or ``@paper``, a data set is that of its challenges in that scope; of the public layout these are ``@file`` and
``@paper``. Everything is read once, when the data set is loaded; nothing here writes. Every flaw is a `PaperError` with
file and line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, Field

from rcb_env.dataset import bundled
from rcb_env.dataset.imports import reachable, third_party
from rcb_env.dataset.joint import Joint, jointly
from rcb_env.dataset.knobs import FILE as KNOBS
from rcb_env.dataset.metadata import Day, Document, FilePaths, Name, Strict, Words, read_yaml
from rcb_env.dataset.papers import OPEN, TASK, Dataset, Paper
from rcb_env.dataset.published import PUBLISHED, folder_of
from rcb_env.dataset.regions import with_challenges
from rcb_env.dataset.scopes import scope_of, without_scope
from rcb_env.dataset.variants import Variants
from rcb_env.errors import PaperError, UsageError

NAMES = ("bundled", *PUBLISHED)  # data sets that are known by a name; anything else is a path

# The public runner's limit for one test run, and a memory limit all its suites fit in.
_PAPER2CODE_TIME_LIMIT_S = 60.0
_PAPER2CODE_MEMORY_LIMIT_MB = 4096
SUITE = "paper2code_test.py"  # the test script of every folder of the public layout
_PAPER2CODE_TEXTS = ("paper2code_paper.tex", "paper2code_paper.md")
# Files of a public folder that no test reads.
_NEVER_READ = re.compile(
    r"(^|/)(paper2code\.ya?ml|paper2code_paper\.\w+|environment\.ya?ml"
    r"|[^/]*requirements[^/]*\.txt|readme[^/]*|license[^/]*)$"
    r"|\.(md|png|jpe?g|gif|svg|pdf|sh|c|h|cc|cpp|cu|cuh|pyc|pyo)$",
    re.IGNORECASE,
)
_CACHES = ("__pycache__", "node_modules")


def load_dataset(name_or_folder: str | Path = "bundled") -> Dataset:
    """Load the papers that come with rcb-env, a published data set, or those of a folder.

    Args:
        name_or_folder: ``"bundled"``, ``"researchcodebench"`` (after ``rcb pull``), or a folder with ``papers.yaml`` (either layout; a clone of
            the public benchmark's repository will do), or one native paper's folder. Any of them with a scope behind it, such
            as ``@open``: the challenges of these papers in that scope.

    Raises:
        UsageError: there is no such data set.
        PaperError: it is broken; with file and line.
    """
    written = str(name_or_folder)
    scope = scope_of(written)
    if scope != "region" and not Path(written).is_dir():
        whole = load_dataset(without_scope(written))
        return _open_challenges(whole) if scope == "open" else _joint_challenges(whole, scope)
    if name_or_folder == "bundled":
        folder = bundled.folder("papers")
        if (folder / "papers.yaml").is_file():
            return _load_folder(folder)
        raise UsageError("this installation has no bundled papers; install rcb-env again")
    if isinstance(name_or_folder, str) and name_or_folder in PUBLISHED:
        return replace(_load_folder(folder_of(name_or_folder)), name=name_or_folder)
    folder = Path(name_or_folder)
    if not folder.is_dir():
        raise UsageError(
            f"no data set {str(name_or_folder)!r}: write {', '.join(NAMES)}, or the path of a folder"
            " that holds papers.yaml"
        )
    for inner in (folder, folder / "pset"):
        if (inner / "papers.yaml").is_file():
            return _load_folder(inner)
    if (folder / "paper.yaml").is_file():
        resolved = folder.resolve()
        return Dataset(name=resolved.name, papers=(_load_native(folder, resolved.name),))
    raise UsageError(f"{folder}: there is no papers.yaml, so it is not a data set")


def _joint_challenges(whole: Dataset, scope: Joint) -> Dataset:
    if scope == "library" and all(paper.layout == "paper2code" for paper in whole.papers):
        raise UsageError(
            f"the data set {whole.name} has the public layout, which has no scope 'library': write region, file or paper"
        )
    papers = tuple(one for paper in whole.papers if (one := jointly(paper, scope)).challenges)
    if not papers:
        raise UsageError(
            f"no case of the data set {whole.name} loads a file of which something can be missing"
        )
    return Dataset(name=f"{whole.name}@{scope}", papers=papers)


def _open_challenges(whole: Dataset) -> Dataset:
    papers = tuple(
        _load_open(paper.root, paper)
        for paper in whole.papers
        if paper.layout == "native" and (paper.root / "open").is_dir()
    )
    if not papers:
        raise UsageError(f"no paper of the data set {whole.name} has an open challenge")
    return Dataset(name=f"{whole.name}{OPEN}", papers=papers)


# --- papers.yaml ------------------------------------------------------------------------------


class _NativeIndex(Strict):
    name: Name
    title: str = ""
    papers: tuple[Name, ...] = Field(min_length=1)


class _PublicPaper(BaseModel):
    """An entry of the public ``papers.yaml``. It is not our file, so unknown keys are let be."""

    id: Name
    title: Words
    arxiv_abs: str | None = None
    arxiv_date: Day | None = None
    arxiv_v1_date: Day | None = None
    github_url: str | None = None
    first_commit_date: Day | None = None
    last_commit_date: Day | None = None
    venue: str | None = None
    annotated_file_paths: FilePaths = Field(min_length=1)
    context_file_paths: FilePaths = ()


def _load_folder(root: Path) -> Dataset:
    index = read_yaml(root / "papers.yaml")
    if isinstance(index.value, list):
        entries = [index.parse(_PublicPaper, number) for number in range(len(index.value))]
        places: list[tuple[str | int, ...]] = [(number, "id") for number in range(len(entries))]
        _check_folders(index, root, [entry.id for entry in entries], places)
        papers = tuple(
            _load_public(root / entry.id, entry, index, number)
            for number, entry in enumerate(entries)
        )
        return Dataset(name=root.resolve().name, papers=papers)
    listing = index.parse(_NativeIndex)
    places = [("papers", number) for number in range(len(listing.papers))]
    _check_folders(index, root, listing.papers, places)
    return Dataset(
        name=listing.name, papers=tuple(_load_native(root / id, id) for id in listing.papers)
    )


def _check_folders(
    index: Document, root: Path, ids: Sequence[str], places: Sequence[tuple[str | int, ...]]
) -> None:
    if not ids:
        raise index.error("lists no papers")
    first: dict[str, int] = {}
    for id, place in zip(ids, places, strict=True):
        if id in first:
            raise index.error(f"the id {id!r} is already used on line {first[id]}", *place)
        first[id] = index.line(*place)
        if not (root / id).is_dir():
            raise index.error(f"the paper {id!r} has no folder {root / id}", *place)
    for folder in sorted(root.iterdir()):
        if not folder.is_dir() or folder.name.startswith(".") or folder.name in _CACHES:
            continue
        if folder.name not in first:
            raise index.error(
                f"the folder {folder.name!r} has no entry here; add one or move the folder away"
            )


# --- the native layout ------------------------------------------------------------------------


class _Limits(Strict):
    time_s: float = Field(gt=0, allow_inf_nan=False)
    memory_mb: int = Field(gt=0)


class _NativePaper(Strict):
    id: Name
    title: Words
    authors: tuple[Words, ...] = Field(min_length=1)
    arxiv: str = ""
    venue: str = ""
    dates: Mapping[str, Day]
    domain: Words
    license: Words
    annotated: FilePaths = Field(min_length=1)
    context: FilePaths = ()
    image: Name
    limits: _Limits
    open: _Limits | None = None


def _load_native(root: Path, id: str) -> Paper:
    document = read_yaml(root / "paper.yaml")
    entry = document.parse(_NativePaper)
    if entry.id != id:
        raise document.error(f"the id is {entry.id!r} but the folder is called {id!r}", "id")
    if entry.image not in (images := bundled.image_names()):
        raise document.error(
            f"there is no image {entry.image!r}; write one of {', '.join(images)}", "image"
        )
    on_disk = _read_files(root)
    _check_lists(document, on_disk, entry.annotated, entry.context, ("annotated",), ("context",))
    for key, paths in (("annotated", entry.annotated), ("context", entry.context)):
        for number, path in enumerate(paths):
            if not path.startswith("src/"):
                raise document.error(f"{path!r} must lie in src/", key, number)
    for path, purpose in (
        ("paper.md", "the text of the paper"),
        ("tests/cases.py", "what drives the code"),
        ("tests/checks.py", "the unit tests; it may hold none"),
    ):
        if path not in on_disk:
            raise PaperError(f"is missing; it holds {purpose}", path=str(root / path))
    return with_challenges(
        Paper(
            id=entry.id,
            title=entry.title,
            authors=entry.authors,
            arxiv=entry.arxiv,
            venue=entry.venue,
            dates=dict(entry.dates),
            domain=entry.domain,
            license=entry.license,
            layout="native",
            root=root,
            text=_prose(on_disk["paper.md"]),
            annotated=entry.annotated,
            context=entry.context,
            files={
                path: data
                for path, data in on_disk.items()
                if path.startswith("src/") and not path.endswith((".pyc", ".pyo"))
            },
            tests={path: on_disk[path] for path in ("tests/cases.py", "tests/checks.py")},
            image=entry.image,
            time_limit_s=entry.limits.time_s,
            memory_limit_mb=entry.limits.memory_mb,
            variants=Variants(root / KNOBS) if KNOBS in on_disk else None,
        )
    )


# --- open challenges ---


def _load_open(root: Path, native: Paper) -> Paper:
    document = read_yaml(root / "paper.yaml")
    limits = document.parse(_NativePaper).open
    if limits is None:
        raise document.error(
            "there is a folder open/, but no `open:` with its time_s and memory_mb"
        )
    folder = root / "open"
    on_disk = _read_files(folder)
    for path, purpose in (
        (TASK, "what is to be written, and how it is measured"),
        ("start.py", "the file an agent gets, with the paper's own method in its region"),
        ("judge.py", "the problems and their costs"),
        ("witnesses/baseline.py", "the region as the baseline that the task states"),
    ):
        if path not in on_disk:
            raise PaperError(f"is missing; it holds {purpose}", path=str(folder / path))
    shown = (TASK, "start.py")
    paper = with_challenges(
        replace(
            native,
            layout="open",
            root=folder,
            annotated=("start.py",),
            context=(TASK,),
            files={path: on_disk[path] for path in shown},
            tests={path: data for path, data in on_disk.items() if path not in shown},
            time_limit_s=limits.time_s,
            memory_limit_mb=limits.memory_mb,
            variants=None,
            challenges=(),
        )
    )
    if len(paper.challenges) != 1:
        raise PaperError("must have one region", path=str(folder / "start.py"))
    return paper


# --- the public benchmark's layout ------------------------------------------------------------


def _load_public(root: Path, entry: _PublicPaper, index: Document, number: int) -> Paper:
    annotated, context = entry.annotated_file_paths, entry.context_file_paths
    on_disk = _read_files(root)
    _check_lists(
        index,
        on_disk,
        annotated,
        context,
        (number, "annotated_file_paths"),
        (number, "context_file_paths"),
    )
    if SUITE not in on_disk:
        raise PaperError("is missing; it holds the tests", path=str(root / SUITE))
    text = next((on_disk[name] for name in _PAPER2CODE_TEXTS if name in on_disk), None)
    if text is None:
        raise PaperError(
            f"has neither {_PAPER2CODE_TEXTS[0]} nor {_PAPER2CODE_TEXTS[1]}", path=str(root)
        )
    useful = {path: data for path, data in on_disk.items() if not _NEVER_READ.search(path)}
    # Modules the shown code imports run in the candidate's process anyway. Modules only the tests
    # import (references above all) stay hidden.
    needed = reachable((*annotated, *context), useful) - {SUITE}
    shown = [*annotated, *context, *sorted(needed.difference(annotated, context))]
    dates = {
        "v1": entry.arxiv_v1_date,
        "arxiv": entry.arxiv_date,
        "first_public_code": entry.first_commit_date,
        "last_public_code": entry.last_commit_date,
    }
    address = entry.arxiv_abs or ""
    return with_challenges(
        Paper(
            id=entry.id,
            title=entry.title,
            authors=(),
            arxiv=address.rpartition("/abs/")[2],
            venue=entry.venue or "",
            dates={event: day for event, day in dates.items() if day is not None},
            domain="",
            license="",
            layout="paper2code",
            root=root,
            text=_prose(text),
            annotated=annotated,
            context=context,
            files={path: on_disk[path] for path in shown},
            tests={path: data for path, data in useful.items() if path not in shown},
            image=_image(useful),
            time_limit_s=_PAPER2CODE_TIME_LIMIT_S,
            memory_limit_mb=_PAPER2CODE_MEMORY_LIMIT_MB,
            code_url=entry.github_url or "",
        )
    )


def _image(files: Mapping[str, bytes]) -> str:
    """The smallest image that has what the suite imports."""
    packages = {module.split(".")[0] for module in third_party((SUITE,), files)}
    return "cpu" if packages <= {"numpy", "torch"} else "public"


# --- both layouts -----------------------------------------------------------------------------


def _read_files(root: Path) -> dict[str, bytes]:
    """All files of a paper's folder by relative path, sorted; no caches, nothing hidden."""
    found: dict[str, bytes] = {}
    todo = [root]
    while todo:
        for path in todo.pop().iterdir():
            if path.name.startswith(".") or path.name in _CACHES:
                continue
            if path.is_symlink():
                raise PaperError("is a symbolic link; put the file itself there", path=str(path))
            if path.is_dir():
                todo.append(path)
            else:
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return dict(sorted(found.items()))


def _check_lists(
    document: Document,
    on_disk: Mapping[str, bytes],
    annotated: Sequence[str],
    context: Sequence[str],
    annotated_place: tuple[str | int, ...],
    context_place: tuple[str | int, ...],
) -> None:
    listed: set[str] = set()
    for paths, place in ((annotated, annotated_place), (context, context_place)):
        for number, path in enumerate(paths):
            if path not in on_disk:
                raise document.error(f"{place[-1]}: there is no file {path!r}", *place, number)
            if path in listed:
                raise document.error(f"{place[-1]}: {path!r} is listed twice", *place, number)
            listed.add(path)


def _prose(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
