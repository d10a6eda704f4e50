"""Training, validation and test papers of a data set, and numbers of variants, as its `splits.yaml` declares them.

The file lies beside the papers and lists each of them under exactly one of the three names, so what is trained on and what is
reported never share a paper, in no scope. Under `variants` it may list numbers of variants for each of the three, which never overlap:
so a policy can be tested on variants that it never saw, of papers that it knows, or of others. A data set without the file has no splits.
"""

from __future__ import annotations

import itertools
import re
from typing import Literal, cast, get_args

from rcb_env.dataset.metadata import Document, Name, Strict, Words, read_yaml
from rcb_env.dataset.papers import Dataset
from rcb_env.errors import PaperError, UsageError, unknown

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
FILE = "splits.yaml"


class _Numbers(Strict):
    train: Words
    validation: Words
    test: Words


class _Splits(Strict):
    train: tuple[Name, ...]
    validation: tuple[Name, ...]
    test: tuple[Name, ...]
    variants: _Numbers | None = None


def papers_of(dataset: Dataset, split: str) -> tuple[str, ...]:
    """The ids of the papers of a split that have challenges in this data set.

    Raises:
        UsageError: there is no such split, the data set declares none, or it has no challenge there.
        PaperError: the file is broken: a paper stands in none or in several of its lists.
    """
    document, declared = _declared(dataset, split)
    path = document.path
    listed = [name for each in SPLITS for name in getattr(declared, each)]
    for paper in dataset.papers:
        if listed.count(paper.id) != 1:
            where = "no split" if paper.id not in listed else "several splits, or twice in one"
            raise PaperError(f"the paper {paper.id} is in {where}", path=path)
    wanted = getattr(declared, split)
    found = tuple(paper.id for paper in dataset.papers if paper.id in wanted)
    if not found:
        raise UsageError(f"no paper of the split {split} has challenges in {dataset.name}")
    return found


def numbers_of(dataset: Dataset, split: str) -> range | None:
    """The numbers of the variants of a split; None: the data set declares none.

    Raises:
        UsageError: there is no such split, or the data set declares no splits.
        PaperError: the file is broken: two splits have a number in common.
    """
    document, declared = _declared(dataset, split)
    if declared.variants is None:
        return None
    spans = {each: _span(document, each, getattr(declared.variants, each)) for each in SPLITS}
    ordered = sorted(spans.values(), key=lambda one: one.start)
    if any(before.stop > after.start for before, after in itertools.pairwise(ordered)):
        raise document.error("two splits have numbers of variants in common", "variants")
    return spans[cast("Split", split)]


def _declared(dataset: Dataset, split: str) -> tuple[Document, _Splits]:
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    first = dataset.papers[0].root  # of an open challenge a folder in that of its paper
    path = (first.parents[1] if first.name == "open" else first.parent) / FILE
    if not path.is_file():
        raise UsageError(f"the data set {dataset.name} has no {FILE}, so it has no splits")
    document = read_yaml(path)
    return document, document.parse(_Splits)


def _span(document: Document, split: str, text: str) -> range:
    found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise document.error(f"{text!r}: write numbers from 1 as 1-7999", "variants", split)
    return range(int(found[1]), int(found[2]) + 1)
