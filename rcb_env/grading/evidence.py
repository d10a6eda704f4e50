"""Which regions of public papers are graded split, found out by trying.

A region is graded split when three things are seen:
1. its suite has two copies, and the reference passes in both, with the same operands (`split.py`);
2. changes of the region (nothing but `pass`, and a few mutants) pass or fail split as they do in one process;
3. what gives them away is not only flags, types and expected exceptions, which a cheat could make up.
Everything else stays guarded, with the reason. Several regions at once are graded split when each of them is by itself. What was found is kept in the user's cache, by the content of all that
matters: it is found out once per machine.
Not covered: how either way grades; whether a suite works at all (its reference fails in one process).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rcb_env.dataset.joint import regions_of
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.grading.code import grading_code
from rcb_env.grading.guarded import GuardedGrading
from rcb_env.grading.split import SplitGrading
from rcb_env.mutation import mutants
from rcb_env.sandbox.fleet import Fleet

_MUTANTS = 2  # tried for a region
_WALL_S = 10.0  # for a fault, which may loop, and this many times what the reference takes:
_TIMES = 3.0


@dataclass(frozen=True)
class Decision:
    """How a region is graded.

    Attributes:
        why: why it is not graded split; "": it is.
    """

    why: str = ""

    @property
    def splits(self) -> bool:
        """Whether it is graded split."""
        return not self.why


class EvidenceSearch:
    """Finds out which regions can be graded split. Thread-safe.

    Args:
        fleet: the boxes.
        split, guarded: the two ways.
        cache: folder to keep what was found in; None: nothing is kept.
    """

    def __init__(
        self, fleet: Fleet, split: SplitGrading, guarded: GuardedGrading, cache: Path | None
    ) -> None:
        self._fleet = fleet
        self._split = split
        self._guarded = guarded
        self._cache = cache
        self._lock = threading.Lock()
        self._papers: dict[str, threading.Lock] = {}
        self._known: dict[tuple[str, str], Decision] = {}
        self._read: set[str] = set()

    def of(self, challenge: Challenge) -> Decision:
        """How a region, or several at once, are graded; found out now if it was not before.

        Raises:
            BoxDied: no box works.
        """
        regions = regions_of(challenge)
        if len(regions) == 1:
            return self._of_region(regions[0])
        found = ((one.id, self._of_region(one).why) for one in regions)
        return Decision(next((f"{id}: {why}" for id, why in found if why), ""))

    def _of_region(self, challenge: Challenge) -> Decision:
        paper = challenge.paper
        key = (paper.content_hash, challenge.id)
        with self._lock:
            one_at_a_time = self._papers.setdefault(paper.content_hash, threading.Lock())
        with one_at_a_time:
            self._recall(paper)
            if key not in self._known:
                self._known[key] = Decision(self._find_out(challenge))
                self._remember(challenge, self._known[key])
            return self._known[key]

    def _find_out(self, challenge: Challenge) -> str:
        reference = self._split.reference(challenge.paper, "final")
        if reference.trouble:
            return f"its suite does not split: {reference.trouble}"
        if not self._split.tests(challenge.paper).strong:
            return "its suite compares no values"
        limit_s = challenge.paper.time_limit_s
        slack = min(1.0, (_WALL_S + _TIMES * reference.run_s) / limit_s)
        seen_by_values = seen = False
        for code in _faults(challenge):
            tried = self._split.attempt(challenge, code, slack=slack)
            passes = self._guarded.in_process(challenge, code, slack=slack).passed
            if tried.verdict.passed != passes:
                other = "fails" if passes else "passes"
                return f"a change that {'passes' if passes else 'fails'} in one process {other} when it is split"
            if not passes and tried.imported:
                seen = True
                seen_by_values = seen_by_values or tried.values_differ
        if seen and not seen_by_values:
            return "only flags, types or expected exceptions tell faults in it from the reference"
        return ""

    def _file(self, paper: Paper) -> Path | None:
        digest = self._fleet.maker.digest(paper.image)
        key = hashlib.sha256(f"{paper.content_hash} {grading_code()} {digest}".encode()).hexdigest()
        return None if self._cache is None else self._cache / f"{key[:32]}.jsonl"

    def _recall(self, paper: Paper) -> None:
        if paper.content_hash in self._read:
            return
        self._read.add(paper.content_hash)
        file = self._file(paper)
        with contextlib.suppress(OSError):
            for line in file.read_bytes().splitlines() if file else ():
                with contextlib.suppress(ValueError, KeyError, TypeError):  # a torn line
                    record = json.loads(line)
                    key = (paper.content_hash, str(record["challenge"]))
                    self._known[key] = Decision(str(record["why"]))

    def _remember(self, challenge: Challenge, decision: Decision) -> None:
        file = self._file(challenge.paper)
        if file is None:
            return
        line = json.dumps({"challenge": challenge.id, "why": decision.why}) + "\n"
        # A cache that cannot be written costs time, nothing else.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab", buffering=0) as opened:
                opened.write(line.encode())


def _faults(challenge: Challenge) -> Iterator[str]:
    yield f"{challenge.region.indent}pass\n"
    seed = int(challenge.content_hash[:8], 16)
    for mutant in mutants(challenge.reference, limit=_MUTANTS, seed=seed):
        yield mutant.code
