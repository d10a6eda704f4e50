"""Known faults in the hidden code of a public folder: what a suite must report, whatever stands in the region.

`Search` keeps those faults which the suite reports as failures when the real solution stands in the region: the
*canaries*. The tree with the real solution is the same for every region of a paper, so a fault is tried once per paper,
and what came of it is kept in the user's cache, by the content of all that matters: it is searched for once per machine.
Not covered: which faults there are (`faults.py`); running anything; what a canary is used for (`guarded.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.grading.faults import Fault, faults

_TRY_FOR_S = 120.0  # no new fault is tried for a region after this time
_ENOUGH = 2  # canaries kept for a region; which one a candidate meets depends on its code


@dataclass(frozen=True)
class Canary:
    """A fault, and the tests that fail because of it on the real solution."""

    fault: Fault
    caught_by: frozenset[str]


Try = Callable[[Fault], frozenset[str] | None]
"""Runs the suite on the real solution: the tests that failed by an assertion; None if it did not come to its end."""


class Search:
    """The canaries of one paper's regions, and what became of every fault that was tried. Not thread-safe.

    Args:
        paper: whose.
        conditions: everything else that an outcome depends on: the grading, the image.
        cache: folder to keep outcomes in; None: nothing is kept.
    """

    def __init__(self, paper: Paper, conditions: str, cache: Path | None) -> None:
        key = hashlib.sha256(f"{paper.content_hash} {conditions}".encode()).hexdigest()
        self._file = None if cache is None else cache / f"{key[:32]}.jsonl"
        self._caught: dict[str, frozenset[str]] = {}
        self._found: dict[str, tuple[Canary, ...]] = {}
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._read(self._file.read_bytes().splitlines())

    def canaries(self, challenge: Challenge, try_fault: Try) -> tuple[Canary, ...]:
        """The canaries of a region, tried now as far as they have not been before."""
        if challenge.id in self._found:
            return self._found[challenge.id]
        found: list[Canary] = []
        stop = time.monotonic() + _TRY_FOR_S
        for fault in faults(challenge):
            if len(found) == _ENOUGH or (found and not (fault.related and fault.moves)):
                break  # the faults come in order of their worth
            if fault.key not in self._caught:
                if time.monotonic() > stop:
                    continue
                caught = try_fault(fault)
                if caught is None:
                    continue
                self._keep(fault.key, caught)
            if self._caught[fault.key]:
                found.append(Canary(fault, self._caught[fault.key]))
        self._found[challenge.id] = tuple(found)
        return self._found[challenge.id]

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a torn line
                record = json.loads(line)
                self._caught[str(record["fault"])] = frozenset(map(str, record["caught_by"]))

    def _keep(self, key: str, caught: frozenset[str]) -> None:
        self._caught[key] = caught
        if self._file is None:
            return
        line = json.dumps({"fault": key, "caught_by": sorted(caught)}) + "\n"
        with contextlib.suppress(
            OSError
        ):  # a cache that cannot be written costs time, nothing else
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab", buffering=0) as file:
                file.write(line.encode())
