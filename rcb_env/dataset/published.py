"""Data sets of others, by name: what they are, where they come from, and where a copy of them is kept.

A published data set is never part of rcb-env. It is named by a repository, one commit of it, and what that commit is
known to hold; `rcb pull` (pull.py) puts a verified copy into the user's cache, and from then on the name means that copy.
Not covered: getting the copy, and reading it (papers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rcb_env.caches import user_cache
from rcb_env.errors import UsageError

RECEIPT = "pulled.json"  # written last: a copy without it is not there


@dataclass(frozen=True)
class Published:
    """One data set, pinned.

    Attributes:
        name: what `--dataset` calls it.
        url: the repository.
        commit: the full hash of the commit that is meant.
        folder: the folder of that commit with ``papers.yaml``.
        kept: files beside it that are kept as well where they exist: terms of use, and what it is.
        digest: SHA-256 over the paths and contents of the folder's files (`pull.digest_of`).
        papers, challenges, lines: how many it holds.
    """

    name: str
    url: str
    commit: str
    folder: str
    digest: str
    papers: int
    challenges: int
    lines: int
    kept: tuple[str, ...] = ("LICENSE", "LICENSE.md", "LICENSE.txt", "README.md")

    def place(self, cache: Path | None = None) -> Path:
        """Where the copy is, or would be: a folder of its own for every commit.

        Args:
            cache: the folder of all copies; None: the user's.
        """
        return (cache or cache_folder()) / f"{self.name}-{self.commit[:12]}"


RESEARCHCODEBENCH = Published(
    name="researchcodebench",
    url="https://github.com/PatrickHua/ResearchCodeBench",
    commit="db3d16d94cfa6b6785bef6f1db0263edfe6f1d34",
    folder="pset",
    digest="48cbdd834873ec45872b8f31b2f363c3c6d6cd316e5c8044721d5948c19754b4",
    papers=20,
    challenges=212,
    lines=1449,
)
PUBLISHED = {one.name: one for one in (RESEARCHCODEBENCH,)}


def cache_folder() -> Path:
    """Where copies are kept."""
    return user_cache("datasets")


def folder_of(name: str) -> Path:
    """The folder with ``papers.yaml`` of a published data set.

    Raises:
        UsageError: it was not pulled yet.
    """
    wanted = PUBLISHED[name]
    place = wanted.place()
    if not (place / RECEIPT).is_file():
        raise UsageError(f"the data set {name!r} is not on this machine yet: run `rcb pull {name}`")
    return place / wanted.folder
