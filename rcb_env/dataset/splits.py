"""Training, validation and test papers of a data set, as its `splits.yaml` declares them.

The file lies beside the papers and lists each of them under exactly one of the three names, so what is trained on and what is
reported never share a paper, in no scope. A data set without the file has no splits.
"""

from __future__ import annotations

from typing import Literal, get_args

from rcb_env.dataset.metadata import Name, Strict, read_yaml
from rcb_env.dataset.papers import Dataset
from rcb_env.errors import PaperError, UsageError, unknown

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
FILE = "splits.yaml"


class _Splits(Strict):
    train: tuple[Name, ...]
    validation: tuple[Name, ...]
    test: tuple[Name, ...]


def papers_of(dataset: Dataset, split: str) -> tuple[str, ...]:
    """The ids of the papers of a split that have challenges in this data set.

    Raises:
        UsageError: there is no such split, the data set declares none, or it has no challenge there.
        PaperError: the file is broken: a paper stands in none or in several of its lists.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    first = dataset.papers[0].root  # of an open challenge a folder in that of its paper
    path = (first.parents[1] if first.name == "open" else first.parent) / FILE
    if not path.is_file():
        raise UsageError(f"the data set {dataset.name} has no {FILE}, so it has no splits")
    document = read_yaml(path)
    declared = document.parse(_Splits)
    listed = [name for each in SPLITS for name in getattr(declared, each)]
    for paper in dataset.papers:
        if listed.count(paper.id) != 1:
            where = "no split" if paper.id not in listed else "several splits, or twice in one"
            raise PaperError(f"the paper {paper.id} is in {where}", path=str(path))
    wanted = getattr(declared, split)
    found = tuple(paper.id for paper in dataset.papers if paper.id in wanted)
    if not found:
        raise UsageError(f"no paper of the split {split} has challenges in {dataset.name}")
    return found
