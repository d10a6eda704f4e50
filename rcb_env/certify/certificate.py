"""What `rcb check` found about a paper, and the file of it that is committed with a data set.

`CertificateFile` keeps, for every paper that passed a full check: the hash of its content, the
code that graded it, and per region how many mutants were made, failed, or survived with a reason, and how many other
answers were accepted and refused.
A paper whose content is that on record needs no more than a light check. The same record says what the check of its scopes
found, each with a hash of its own: of code that is derived. Open challenges have a file of their own, of the
same form: what each witness came to; and so have variants.

Guarantees: the same findings give the same bytes. Times differ from machine to machine, so a record
is replaced only when something else in it changes. The file is replaced as a whole or not at all.
Not covered: how anything is found out (run.py).
"""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rcb_env.certify.nothing import Attempt
from rcb_env.certify.problem import Found
from rcb_env.dataset.certified import content_of, content_of_variants
from rcb_env.dataset.joint import in_all_scopes
from rcb_env.dataset.papers import Paper
from rcb_env.dataset.scopes import scope_of
from rcb_env.errors import UsageError
from rcb_env.grading.code import grading_code
from rcb_env.grading.worth import Worth
from rcb_env.sandbox import images

Depth = Literal["light", "quick", "full"]
Kind = Literal["regions", "open challenges", "variants"]
_FORMAT = 1
_TIMES = ("warm_test_s", "run_s", "seconds")


@dataclass(frozen=True)
class Survivor:
    """A fault the tests do not notice; `reason` is what the paper's author says about it, or ""."""

    challenge: str
    hash: str
    kind: str
    description: str
    path: str
    line: int
    reason: str


@dataclass(frozen=True)
class RegionResult:
    """How many faults of one region were tried, and how many of them failed.

    Attributes:
        worth: what its cases are worth as partial credit.
        for_nothing: the best of the answers that were never meant, where one earns partial credit.
        accepted, refused: answers other than the reference and its mutants: right ones that passed, wrong ones that failed.
    """

    challenge: str
    lines: int
    mutants: int
    killed: int
    worth: Worth
    for_nothing: Attempt | None = None
    accepted: int = 0
    refused: int = 0

    def lasting(self) -> dict[str, Any]:
        """What goes on record beside its survivors."""
        gained = self.for_nothing
        return {
            "lines": self.lines,
            "mutants": self.mutants,
            "killed": self.killed,
            **self.worth.to_dict(),
            **({"for_nothing": dataclasses.asdict(gained)} if gained else {}),
        }


@dataclass(frozen=True)
class Certificate(Found):
    """What `certify` found.

    Attributes:
        mutants: faults tried; equal files reached through nested regions count in each region.
        killed: how many of them failed.
        regions: the same by region, in the order of the paper.
        reference_runs: how often the reference was graded.
        reference_failures: how often it did not pass; anything but 0 or all of them is flakiness.
        warm_test_s: median time of one test run in a warm box, seconds; None if nothing ran.
        notes: what could not be looked at on this machine, and why.
    """

    paper: str
    depth: Depth
    mutants: int = 0
    killed: int = 0
    regions: tuple[RegionResult, ...] = ()
    survivors: tuple[Survivor, ...] = ()
    reference_runs: int = 0
    reference_failures: int = 0
    warm_test_s: float | None = None
    notes: tuple[str, ...] = ()

    def lasting(self) -> dict[str, Any]:
        """What goes on record."""
        survivors: dict[str, list[dict[str, str]]] = {}
        for one in self.survivors:
            told = {"mutant": one.description, "hash": one.hash, "reason": one.reason}
            survivors.setdefault(one.challenge, []).append(told)
        return {
            "leaks": 0,  # else there would be no record
            "reference": {"runs": self.reference_runs, "failures": self.reference_failures},
            "warm_test_s": None if self.warm_test_s is None else round(self.warm_test_s, 2),
            "notes": list(self.notes),
            "mutants": self.mutants,
            "killed": self.killed,
            "regions": {
                region.challenge: {
                    **region.lasting(),
                    "survivors": survivors.get(region.challenge, []),
                    "answers": {"accepted": region.accepted, "refused": region.refused},
                }
                for region in self.regions
            },
        }


class CertificateFile:
    """The records of one file, by paper id.

    Args:
        path: the file; it need not exist.
        kind: what its records are of.

    Raises:
        UsageError: there is something else in the file.
    """

    def __init__(self, path: Path, *, kind: Kind = "regions") -> None:
        self.path = path
        self._kind: Kind = kind
        self._papers: dict[str, dict[str, Any]] = {}
        if not path.exists():
            return
        try:
            found = json.loads(path.read_text())
            if found["format"] == _FORMAT:
                self._papers = dict(found["papers"])
                others = {_kind_of(one) for one in self._papers.values()} - {kind}
                if not others:
                    return
                raise UsageError(f"{path}: its records are of {min(others)}; name another file")
        except (ValueError, KeyError, TypeError):
            pass
        raise UsageError(
            f"{path}: is not a certificate of this version; write a new one with"
            f" `rcb check --full --certificate {path}` after removing it"
        )

    def standing(self, paper: Paper) -> Literal["current", "changed", "missing"]:
        """Whether the paper, as it is now, is on record."""
        record = self._record(paper)
        if record is None:
            return "missing"
        return "current" if record.get("content") == self._content(paper) else "changed"

    def _content(self, paper: Paper) -> str:
        return content_of_variants(paper) if self._kind == "variants" else content_of(paper)

    def stale(self, papers: Iterable[Paper]) -> list[str]:
        """What keeps this file from being the certificate of these papers; [] if nothing does."""
        known = {paper.id: paper for paper in papers}
        found = [
            f"{id}: {'is not on record' if standing == 'missing' else 'changed since'}"
            for paper in known.values()
            for id, one in {paper.id: paper, **self._scopes(paper)}.items()
            if (standing := self.standing(one)) != "current"
        ]
        found += [
            f"{id}: is no longer a paper of the data set" for id in self._papers if id not in known
        ]
        return found

    def summary(self, paper: Paper) -> str:
        """What the record says of a paper, and whether the same code graded it."""
        record = self._papers[paper.id]
        if self._kind == "variants":
            text = f"{record['refused']} answers for another choice failed"
        elif self._kind == "open challenges":
            text = f"{len(record['witnesses'])} witnesses lie where they must"
        elif (scope := scope_of(paper.challenges[0].id)) != "region":
            told = record["scopes"][scope]["reference"]
            text = f"the reference passed {told['runs'] - told['failures']} of {told['runs']} runs"
        else:
            text = f"{record['killed']} of {record['mutants']} mutants failed"
        same = record["made_by"]["grading"] == grading_code()
        return text if same else f"{text}; the code that grades has changed since"

    def _record(self, paper: Paper) -> dict[str, Any] | None:
        """What is on record of a paper in the scope of its challenges."""
        record: dict[str, Any] | None = self._papers.get(paper.id)
        scope = scope_of(paper.challenges[0].id)
        return (
            record if scope in ("region", "open") else (record or {}).get("scopes", {}).get(scope)
        )

    def _scopes(self, paper: Paper) -> dict[str, Paper]:
        joint = in_all_scopes(paper) if self._kind == "regions" else {}
        return {f"{paper.id}@{scope}": one for scope, one in joint.items()}

    def put(
        self,
        paper: Paper,
        found: Found,
        order: Iterable[str],
        scopes: Mapping[str, tuple[Paper, Certificate]] | None = None,
    ) -> bool:
        """Keep what a full check found, and write the file; a paper that failed loses its record.

        Args:
            paper: the paper.
            found: by the full check.
            order: ids of all papers of the data set; other records are dropped.
            scopes: the paper in other scopes, and what a full check of these found, by scope.

        Returns:
            Whether the paper is on record now.
        """
        before = self._papers.pop(paper.id, None)
        joint = scopes or {}
        fine = found.ok and all(certificate.ok for _, certificate in joint.values())
        if fine:
            record = {"content": self._content(paper), **_record(found, paper)}
            if joint:
                record["scopes"] = {scope: _of_scope(*each) for scope, each in joint.items()}
            same = before is not None and _lasting(before) == _lasting(record)
            self._papers[paper.id] = before if before is not None and same else record
        self._papers = {id: self._papers[id] for id in order if id in self._papers}
        text = json.dumps({"format": _FORMAT, "papers": self._papers}, indent=1, ensure_ascii=False)
        temporary = self.path.with_name(f".{self.path.name}.new")
        temporary.write_text(text + "\n")
        temporary.replace(self.path)
        return fine


def _kind_of(record: Mapping[str, Any]) -> Kind:
    if "knobs" in record:
        return "variants"
    return "open challenges" if "witnesses" in record else "regions"


def _of_scope(paper: Paper, found: Certificate) -> dict[str, Any]:
    return {
        "content": content_of(paper),
        "challenges": len(paper.challenges),
        "lines": sum(challenge.lines for challenge in paper.challenges),
        "reference": {"runs": found.reference_runs, "failures": found.reference_failures},
        "notes": list(found.notes),
        "regions": {one.challenge: one.worth.to_dict() for one in found.regions},
    }


def _record(found: Found, paper: Paper) -> dict[str, Any]:
    return {
        "made_by": {
            "grading": grading_code(),
            "image": f"{paper.image} {images.digest(paper.image)}",
            "python": ".".join(platform.python_version_tuple()[:2]),
        },
        **found.lasting(),
    }


def _lasting(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in _TIMES}
