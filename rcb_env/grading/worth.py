"""What the cases of a challenge are worth, for whoever is paid by the part of them that an answer passes.

A case that an answer passes which knows nothing (`rcb_env.grading.nulls`) is free: to pass it earns nothing, to fail it costs
as much as any other. So such answers earn 0, the reference earns 1, and an answer that fails more cases never earns more than
one that fails some of them. An answer that did not let every case run (it ran out of time, or ended its process) earns 0.

Where the paper is as it was certified, its certificate says which cases are free; else the answers are graded once, when
that is first needed, and what they came to is kept by content in the user's cache. So rewards are the same on every machine
that has the certificate. Faults are those of a full check; where there is none, a sample of as many as `_FAULTS`. Of several parts
they are parts left out.
Not covered: open challenges, which have a score.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from rcb_env.caches import user_cache
from rcb_env.dataset.certified import record_of
from rcb_env.dataset.papers import Challenge
from rcb_env.errors import BoxDied
from rcb_env.grading.code import grading_code
from rcb_env.grading.nulls import null_answers
from rcb_env.grading.verdict import Verdict
from rcb_env.mutation import mutants

_FAULTS = 24  # tried where no certificate counts them

Judge = Callable[[Challenge, str], Verdict]
"""Grades an answer finally."""


@dataclass(frozen=True)
class Outline:
    """What of a verdict partial credit depends on.

    Attributes:
        whole: whether the answer failed, and every case ran.
        cases: by name how many of a case's results passed, and how many there are.
    """

    status: str
    whole: bool
    cases: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, verdict: Verdict) -> Outline:
        """That of a verdict."""
        cases: dict[str, tuple[int, int]] = {}
        for result in verdict.cases:
            passed, planned = cases.get(result.case, (0, 0))
            cases[result.case] = (passed + (result.outcome == "passed"), planned + 1)
        ran = all(result.outcome != "not_run" for result in verdict.cases)
        return cls(verdict.status, verdict.status == "failed" and ran, cases)

    def to_text(self) -> str:
        """On one line; `of_text` reads it back equal."""
        return json.dumps([self.status, self.whole, self.cases])

    @classmethod
    def of_text(cls, text: str) -> Outline:
        """What `to_text` wrote."""
        status, whole, cases = json.loads(text)
        return cls(status, whole, {name: tuple(counts) for name, counts in cases.items()})

    @property
    def passed(self) -> tuple[str, ...]:
        """The cases that passed, were it with one seed."""
        return tuple(name for name, (passed, _) in self.cases.items() if passed)

    @property
    def failed(self) -> tuple[str, ...]:
        """The cases that did not pass, were it with one seed."""
        return tuple(name for name, (passed, planned) in self.cases.items() if passed < planned)


@dataclass(frozen=True)
class Worth:
    """What the cases of one challenge are worth.

    Attributes:
        free: cases that an answer passes which knows nothing.
        faults: how many random faults fail each case; None: not counted.
    """

    free: tuple[str, ...] = ()
    faults: Mapping[str, int] | None = None

    def share(self, outline: Outline, *, weighted: bool = False) -> float:
        """What an answer earns, between 0 and 1.

        Args:
            outline: of its verdict.
            weighted: whether a case counts as often as random faults fail it, and once; else every case counts once.
        """
        if outline.status == "passed":
            return 1.0
        if not outline.whole:
            return 0.0
        earned = lost = 0
        for name, (passed, planned) in outline.cases.items():
            weight = 1 + (self.faults or {}).get(name, 0) if weighted else 1
            earned += 0 if name in self.free else weight * passed
            lost += weight * (planned - passed)
        return earned / (earned + lost) if lost else 0.0  # all cases passed, and still it failed

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"free": list(self.free), **({} if self.faults is None else {"faults": self.faults})}


def free_cases(outlines: Iterable[Outline]) -> tuple[str, ...]:
    """The cases that any of these answers passes, of those that earn anything by cases."""
    found = {name: None for one in outlines if one.whole for name in one.passed}
    return tuple(found)


def faults_by_case(outlines: Iterable[Outline]) -> dict[str, int]:
    """How many of these answers fail each case, of those that let every case run."""
    counts: dict[str, int] = {}
    for one in outlines:
        if one.whole:
            counts |= {name: counts.get(name, 0) for name in one.cases}
            counts |= {name: counts[name] + 1 for name in one.failed}
    return counts


class Worths:
    """What the cases of challenges are worth, from where it is known, else measured. Thread-safe.

    Args:
        judge: grades an answer.
        folder: of the cache; None: the user's.
    """

    def __init__(self, judge: Judge, folder: Path | None = None) -> None:
        self._judge = judge
        self._folder = folder
        self._known: dict[str, Worth] = {}
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def of(self, challenge: Challenge, *, faults: bool = False) -> Worth:
        """What the cases of a challenge are worth.

        Args:
            challenge: one with cases, no open one.
            faults: whether faults are to be counted as well.

        Raises:
            SandboxUnavailable: no box can be made on this machine.
            BoxDied: no box works.
        """
        key = hashlib.sha256(f"{challenge.content_hash} {grading_code()}".encode()).hexdigest()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            known = self._known.get(key) or _certified(challenge) or self._kept(key)
            if known is None:
                known = Worth(free_cases(self._graded(challenge, null_answers(challenge).values())))
                self._keep(key, known)
            if faults and known.faults is None:
                outlines = self._graded(challenge, _faulty(challenge))
                known = Worth(known.free, faults_by_case(outlines))
                self._keep(key, known)
            self._known[key] = known
            return known

    def _graded(self, challenge: Challenge, codes: Iterable[str]) -> Iterator[Outline]:
        for code in codes:
            for _ in range(2):  # infrastructure gets a second chance
                verdict = self._judge(challenge, code)
                if verdict.status != "infra_error":
                    break
            else:
                raise BoxDied(verdict.message)
            yield Outline.of(verdict)

    def _path(self, key: str) -> Path:
        return (self._folder or user_cache("worth")) / f"{key}.json"

    def _kept(self, key: str) -> Worth | None:
        try:
            return _read(json.loads(self._path(key).read_bytes()))
        except (OSError, ValueError, AttributeError):
            return None

    def _keep(self, key: str, worth: Worth) -> None:
        path = self._path(key)
        scratch = path.with_name(f"{key}.{threading.get_native_id()}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(worth.to_dict()))
            scratch.replace(path)
        except OSError:
            return  # it is measured again


def _certified(challenge: Challenge) -> Worth | None:
    """What the certificate beside the paper says; None: it has none, or is of another content."""
    return _read(record_of(challenge) or {})


def _read(data: Mapping[str, Any]) -> Worth | None:
    """What `Worth.to_dict` wrote; None: this is something else."""
    free, faults = data.get("free"), data.get("faults")
    if not isinstance(free, list) or not isinstance(faults, dict | NoneType):
        return None
    return Worth(tuple(free), faults)


def _faulty(challenge: Challenge) -> Iterator[str]:
    """The reference with one small fault, a sample of such; of several parts with one of them left out."""
    if challenge.holes is None:
        yield from (one.code for one in mutants(challenge.reference, limit=_FAULTS))
        return
    references = challenge.holes.references
    for name in references:
        yield challenge.holes.join({each: references[each] for each in references if each != name})
