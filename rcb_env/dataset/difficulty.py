"""How difficult challenges are, from 0 (the easiest) to 1: by their lines, or as measured on agents.

By lines, the difficulty of a challenge is the share of the data set's other challenges that have fewer lines. Measured, it is the
share of agents that did not solve it, out of a file that `rcb items --csv` wrote: of your runs, or of published models.
Guarantees: pure, but for the file. Who was not measured has no difficulty.
"""

from __future__ import annotations

import bisect
import csv
import functools
from collections.abc import Mapping
from pathlib import Path

from rcb_env.dataset.papers import Dataset
from rcb_env.errors import UsageError

BY_LINES = "lines"


def difficulties(dataset: Dataset, by: str = BY_LINES) -> Mapping[str, float]:
    """The difficulty of each challenge, by its id.

    Args:
        dataset: the challenges.
        by: "lines", or a file of `rcb items --csv`.

    Raises:
        UsageError: there is no such file, or it is another one.
    """
    return _by_lines(dataset) if by == BY_LINES else _measured(Path(by))


@functools.lru_cache(maxsize=8)
def _by_lines(dataset: Dataset) -> Mapping[str, float]:
    lines = sorted(one.lines for one in dataset.challenges)
    others = max(1, len(lines) - 1)
    return {one.id: bisect.bisect_left(lines, one.lines) / others for one in dataset.challenges}


def _measured(path: Path) -> Mapping[str, float]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                row["challenge"]: 1 - float(row["solved"]) / 100 for row in csv.DictReader(file)
            }
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, csv.Error):
        raise UsageError(
            f"{path}: is no table of challenges with the columns challenge and solved; write one with"
            f" `rcb items RUN... --csv > {path}`"
        ) from None
