"""`rcb new`: a paper's folder to start from, with one worked example in it that passes its tests.

What is to be written is marked by `STILL_TO_WRITE`, and `rcb check` lists every such line until it is gone.
Guarantees: nothing that exists is written over; the new folder and its entry in papers.yaml come together or not at all, and
the rest of papers.yaml stays byte for byte as it was; the data set loads afterwards if it did before.
Not covered: which parts of the code become challenges (`rcb_env.author.suggest`), and whether they are any good
(`rcb_env.certify`).
"""

from __future__ import annotations

import codecs
import re
import shutil
from pathlib import Path

import yaml

from rcb_env.certify.points import STILL_TO_WRITE
from rcb_env.dataset.metadata import read_yaml
from rcb_env.errors import PaperError, UsageError

INDEX = "papers.yaml"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RESERVED = ("papers.yaml", "node_modules")

_FILES = {
    "paper.yaml": """\
id: "{id}"
title: "{todo}: the paper's title"
authors: ["{todo}: the authors, one item each"]
arxiv: ""  # {todo}: the arXiv id in quotes, as in "2503.10622"; remove the line if there is none
venue: ""  # {todo}: as in CVPR2025; remove the line if there is none
dates: {{v1: 2000-01-01}}  # {todo}: the day of its first version; first_public_code: of the first code
domain: "{todo}: as in computer vision"
license: MIT
annotated: [src/example.py]  # the files with regions; the paths of more files go here as well
context: []  # other files of src/ that a prompt shows; `rcb suggest FILE` names them
image: cpu
limits: {{time_s: 20, memory_mb: 1024}}
""",
    "paper.md": """\
# {todo}: the paper's title

{todo}: what this describes, where it is from, and that it is in your own words. 1,200 to 4,000 words in all, equations in
LaTeX, and no code.

## 1. Problem

{todo}: what is given, what is wanted, and why it is hard.

## 2. Notation

{todo}: every symbol with its meaning and shape.

## 3. Method

{todo}: the equations, and what follows from them. The example's method: the running average of $x_1, x_2, \\dots$ with decay
$0 \\le \\beta < 1$ is $m_0 = 0$, $m_t = \\beta m_{{t-1}} + (1 - \\beta) x_t$; freed from its start it is
$\\hat m_t = m_t / (1 - \\beta^t)$.

## 4. Algorithms

{todo}: step by step, in words and symbols. The example's: for $t = 1, 2, \\dots$ update $m_t$ and give out $\\hat m_t$.

## 5. Constants and initial values

{todo}: every number that a region needs, and what starts as what.

## 6. Conventions and edge cases

{todo}: what the paper leaves open and is chosen here; empty inputs, errors and their types, data types, random draws. The
example's: a decay outside $[0, 1)$ is a `ValueError`; no values give no averages.
""",
    "src/example.py": '''\
"""Running averages. {todo}: the paper's code in place of this example, its regions tagged."""

from __future__ import annotations

from collections.abc import Iterable


def running_averages(values: Iterable[float], decay: float) -> list[float]:
    """The running average after each value, freed from its start at zero.

    Args:
        values: the values, in order.
        decay: how much of the old average is kept, in [0, 1).

    Raises:
        ValueError: the decay is out of range.
    """
    # <paper2code name="running averages without the bias of their start">
    if not 0 <= decay < 1:
        raise ValueError(f"the decay is {{decay}}, not in [0, 1)")
    mean = 0.0
    averages = []
    for step, value in enumerate(values, start=1):
        # <paper2code name="average update">
        mean = decay * mean + (1 - decay) * value
        # </paper2code name="average update">
        averages.append(mean / (1 - decay**step))
    return averages
    # </paper2code name="running averages without the bias of their start">
''',
    "tests/cases.py": '''\
"""What the code of this paper is asked to do; the outputs are compared with the reference's. {todo}: cases of the paper."""

from __future__ import annotations

from rcb_env.cases import case, raises


@case(seeds=3, rtol=1e-9, atol=1e-12, covers=["src/example.py"])
def averages_of_drawn_values(tree, rng):
    averages = tree.load("example").running_averages
    values = [float(value) for value in rng.numpy.normal(1.0, 2.0, 7)]
    decays = [0.0, 0.25, float(rng.numpy.uniform(0.5, 0.99))]
    return {{"values": values, "averages": [averages(values, decay) for decay in decays]}}


@case(seeds=1, covers=["src/example.py"])
def decays_and_lengths_at_their_limits(tree, rng):
    averages = tree.load("example").running_averages
    return {{
        "empty": averages([], 0.5),
        "errors": [raises(lambda d=d: averages([1.0], d)) for d in (-1, -0.5, 0.0, 0.999, 1.0, 1.5)],
    }}
''',
    "tests/checks.py": '''\
"""Unit tests on the outputs, for the judge only. {todo}: checks of the paper; the file may hold none."""

from __future__ import annotations

from rcb_env.cases import check


@check("averages_of_drawn_values")
def without_decay_the_average_is_the_last_value(out, ref):
    assert out["averages"][0] == out["values"]


@check("averages_of_drawn_values")
def the_first_average_is_the_first_value(out, ref):
    for averages in out["averages"]:
        assert abs(averages[0] - out["values"][0]) < 1e-9


@check("decays_and_lengths_at_their_limits")
def decays_out_of_range_are_refused(out, ref):
    assert out["errors"] == ["ValueError"] * 2 + [None] * 2 + ["ValueError"] * 2
''',
}


def create(paper: str, dataset: Path) -> tuple[Path, ...]:
    """Write a paper's folder, and its id into papers.yaml.

    Args:
        paper: the new id.
        dataset: a data set in the native layout; a folder that is missing or empty becomes one.

    Returns:
        The files that were written, papers.yaml last.

    Raises:
        UsageError: the id cannot be one or is taken, or the folder is no data set that a paper can be added to.
    """
    if not _ID.fullmatch(paper) or paper in _RESERVED:
        raise UsageError(
            f"{paper!r} cannot be a paper's id: use letters, digits, '.', '_' and '-', a letter or digit first"
        )
    index = dataset / INDEX
    if dataset.exists() and not dataset.is_dir():
        raise UsageError(f"{dataset}: is not a folder; name one for the data set")
    if not index.exists() and dataset.is_dir() and any(dataset.iterdir()):
        raise UsageError(
            f"{dataset}: holds files but no {INDEX}, so it is not a data set; name another folder, or a new one"
        )
    new_index = _added(index, paper) if index.exists() else _new_index(dataset, paper)
    folder = dataset / paper
    for existing in sorted(dataset.iterdir()) if dataset.is_dir() else ():
        if existing.name.lower() == paper.lower():
            raise UsageError(f"{existing}: is there already; choose another id, or move it away")
    dataset.mkdir(parents=True, exist_ok=True)
    temporary = (
        dataset / f".{paper}.new"
    )  # no paper's id begins with a dot, so a rest of it is never read
    shutil.rmtree(temporary, ignore_errors=True)
    for name, content in _FILES.items():
        path = temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.format(id=paper, todo=STILL_TO_WRITE))
    beside = index.with_name(f".{INDEX}.new")
    beside.write_bytes(new_index)
    temporary.rename(folder)
    beside.replace(index)
    return (*(folder / name for name in _FILES), index)


def _new_index(dataset: Path, paper: str) -> bytes:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", dataset.resolve().name).strip("-._") or "papers"
    return f'name: "{name}"\npapers:\n  - "{paper}"\n'.encode()


def _added(index: Path, paper: str) -> bytes:
    """The bytes of papers.yaml with one more id at the end of its list."""
    document = read_yaml(index)
    if isinstance(document.value, list):
        raise document.error("is the list of a public data set; `rcb new` adds to native ones only")
    listed = document.value.get("papers") if isinstance(document.value, dict) else None
    if not isinstance(listed, list) or not listed:
        raise document.error("lists no papers", "papers")
    if paper in listed:
        place = listed.index(paper)
        raise document.error(f"the id {paper!r} is listed already", "papers", place)
    raw = index.read_bytes()
    text = raw.decode("utf-8-sig")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    sequence = next(value for key, value in root.value if key.value == "papers")
    at = sequence.value[-1].end_mark.index
    if sequence.flow_style:
        made = f'{text[:at]}, "{paper}"{text[at:]}'
    else:
        newline = "\r\n" if "\r\n" in text else "\n"
        found_end = text.find(newline, at)
        end = len(text) if found_end < 0 else found_end
        dash = " " * sequence.start_mark.column + "- "
        made = f'{text[:end]}{newline}{dash}"{paper}"{text[end:]}'
    try:
        found = yaml.load(made, Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        found = None
    if found != {**yaml.load(text, Loader=yaml.BaseLoader), "papers": [*listed, paper]}:
        raise PaperError(
            f"{paper!r} cannot be added to a list written like this; write one id a line, as in `  - {listed[0]}`",
            path=str(index),
        )
    return made.encode("utf-8-sig" if raw.startswith(codecs.BOM_UTF8) else "utf-8")
