"""Isolated grading, for native papers: the candidate's process never holds the answer.

One box runs the paper's cases on the candidate and sends plain outputs out. Another box, the judge, runs the same cases
on the reference and compares. The reference's outputs are kept by content: they are made once per paper, file and
purpose, as the paper's tests are compiled once, and judged once themselves: a case whose outputs are the reference's byte
for byte gets the result the reference got. The final score uses other seeds than the feedback during an episode. Feedback on
several files at once runs each case with one seed: it takes about as long as that on a few regions.
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import BoxDied
from rcb_env.grading.causes import error_class
from rcb_env.grading.outcome import Told, conclude, ended_its_box, how_it_ended
from rcb_env.grading.verdict import CaseResult, Purpose, Verdict
from rcb_env.runner import wire
from rcb_env.sandbox.box import MIB, Limits, RunRequest, RunResult
from rcb_env.sandbox.fleet import Fleet

_RUN, _JUDGE = "rcb_env.runner.case_run:run", "rcb_env.runner.case_run:judge"
_COMPILE = "rcb_env.runner.case_run:compiled"
_CASES, _CHECKS = "tests/cases.py", "tests/checks.py"
_MAX_RECORDS = 10_000  # records of one run that are read
_MAX_HEADER_BYTES = 1024 * 1024  # of one record
_KEPT_REFERENCES = 256  # reference outputs held in memory
_SLACK = 10.0  # how much longer trusted code may take


@dataclass(frozen=True)
class Output:
    """What one case gave with one seed, encoded by `rcb_env.cases.encode`."""

    case: str
    seed: int
    data: bytes


_Record = tuple[dict[str, Any], bytes]  # header and encoded outputs


@dataclass(frozen=True)
class _Records:
    """What a run of the cases sent: one record a case and seed, with its encoded outputs."""

    headers: tuple[dict[str, Any], ...]
    outputs: tuple[bytes, ...]
    done: bool = True
    imports: tuple[str, ...] = ()
    last_words: str = ""

    @classmethod
    def of(cls, records: Iterable[_Record]) -> _Records:
        """These records, in their order."""
        headers, outputs = zip(*records, strict=True) if (records := tuple(records)) else ((), ())
        return cls(headers, outputs)

    def by_key(self) -> dict[tuple[str, int], _Record]:
        """The records by case and seed; of several with one key the last."""
        return {
            (header["case"], header["seed"]): (header, output)
            for header, output in zip(self.headers, self.outputs, strict=True)
        }


@dataclass(frozen=True)
class _Reference:
    """What the reference gave, and what the judge says of it; or what is wrong with it."""

    records: _Records
    results: tuple[CaseResult, ...] = ()
    trouble: str = ""


@dataclass(frozen=True)
class _Tests:
    """A paper's tests, compiled for the Python of its image; this process never executes them."""

    cases: bytes
    checks: bytes


class _NotCompiled(Exception):
    """The paper's tests are not Python; the text says where."""


class IsolatedGrading:
    """Grades regions of native papers in the boxes of a fleet. Thread-safe.

    Args:
        fleet: the boxes.
        judge_all: whether outputs that are the reference's are judged all the same.
    """

    def __init__(self, fleet: Fleet, *, judge_all: bool = False) -> None:
        self._fleet = fleet
        self._judge_all = judge_all
        self._references: OrderedDict[str, _Reference] = OrderedDict()
        self._tests: dict[str, _Tests] = {}
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}

    def grade(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        """The verdict on the text of a region.

        Raises:
            BoxDied: no box works.
        """
        paper = challenge.paper
        try:
            tests = self._compiled(paper)
            argument = _case_argument(paper, tests, challenge.files, purpose)
            reference = self._reference(paper, tests, argument, challenge.tree())
            trouble = reference.trouble
        except _NotCompiled as error:
            trouble = str(error)
        if trouble:
            message = f"the reference of {paper.id} fails; look at it with `rcb check`: {trouble}"
            return Verdict("infra_error", message=message)
        run = self._fleet.run_candidate(run_of(paper, _RUN, argument, challenge.tree(code)))
        if isinstance(run, BoxDied):
            return replace(ended_its_box(run), evidence="isolated")
        started = time.monotonic()
        records = _candidate_records(run.result)
        results = self._judge(paper, tests, reference, records)
        timings = {"run_s": run.wall_s, "judge_s": time.monotonic() - started}
        errors = [header["error"] for header in records.headers if header["error"]]
        told = Told(results, errors, done=records.done)
        return replace(conclude(run, told, timings), evidence="isolated")

    def outputs(self, challenge: Challenge, purpose: Purpose) -> tuple[Output, ...]:
        """What the reference's cases give, in the order they ran; () if they cannot run.

        Raises:
            BoxDied: no box works.
        """
        paper = challenge.paper
        try:
            tests = self._compiled(paper)
        except _NotCompiled:
            return ()
        argument = _case_argument(paper, tests, challenge.files, purpose)
        records = self._reference(paper, tests, argument, challenge.tree()).records
        return tuple(
            Output(header["case"], header["seed"], data)
            for header, data in zip(records.headers, records.outputs, strict=True)
        )

    def _compiled(self, paper: Paper) -> _Tests:
        with self._lock:
            if paper.content_hash in self._tests:
                return self._tests[paper.content_hash]
        sources = {path: paper.tests[path].decode() for path in (_CASES, _CHECKS)}
        argument = wire.pack({"sources": sources})
        run = self._fleet.run_trusted(run_of(paper, _COMPILE, argument, slack=_SLACK))
        made = next(messages(run.result), None)
        if made is None:
            raise _NotCompiled(_last_words(run))
        with self._lock:
            return self._tests.setdefault(paper.content_hash, _Tests(*made[1]))

    def _reference(
        self, paper: Paper, tests: _Tests, argument: bytes, tree: Mapping[str, bytes]
    ) -> _Reference:
        digest = hashlib.sha256(argument + tests.checks)
        for path, content in sorted(tree.items()):
            digest.update(f"{path} {len(content)} ".encode() + content)
        key = digest.hexdigest()
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._references:
                    self._references.move_to_end(key)
                    return self._references[key]
            run = self._fleet.run_trusted(run_of(paper, _RUN, argument, tree, slack=_SLACK))
            records = replace(_reference_records(run.result), last_words=_last_words(run))
            self._fleet.learn_imports(paper.id, records.imports)
            trouble = _trouble_with_reference(records)
            if trouble:  # a slow machine may be to blame, and the next try may do better
                return _Reference(records, trouble=trouble)
            results = self._compare(paper, tests, records, records)
            if isinstance(results, str):
                raise BoxDied(results)
            with self._lock:
                self._references[key] = _Reference(records, results)
                while len(self._references) > _KEPT_REFERENCES:
                    self._references.popitem(last=False)
                return self._references[key]

    def _judge(
        self, paper: Paper, tests: _Tests, reference: _Reference, candidate: _Records
    ) -> tuple[CaseResult, ...]:
        wanted, theirs = reference.records.by_key(), candidate.by_key()
        own = {(result.case, result.seed): result for result in reference.results}
        differing = [
            key
            for key, (_, output) in wanted.items()
            if self._judge_all
            or key not in theirs
            or theirs[key][0]["error"]
            or theirs[key][1] != output
        ]
        if differing:
            asked = _Records.of(wanted[key] for key in differing)
            given = _Records.of(theirs[key] for key in differing if key in theirs)
            results = self._compare(paper, tests, asked, given)
            if isinstance(results, str):
                # A judge who fails on the candidate's outputs, and not on the reference's own, fails because of the former.
                trouble = self._compare(paper, tests, asked, asked)
                if isinstance(trouble, str):
                    raise BoxDied(trouble)
                message = "the outputs cannot be compared"
                results = tuple(
                    CaseResult(*key, "failed", message, error_class="value") for key in differing
                )
            own |= {(result.case, result.seed): result for result in results}
        raised = {key: header["error"] for key, (header, _) in theirs.items() if header["error"]}
        for key, result in own.items():
            if result.outcome == "error":
                own[key] = replace(result, error_class=error_class(raised[key]))
        return tuple(own.values())

    def _compare(
        self, paper: Paper, tests: _Tests, reference: _Records, candidate: _Records
    ) -> tuple[CaseResult, ...] | str:
        """The judge's results, or how the judge failed."""
        argument = wire.pack(
            {"reference": reference.headers, "candidate": candidate.headers},
            [tests.checks, *reference.outputs, *candidate.outputs],
        )
        try:
            run = self._fleet.run_judge(run_of(paper, _JUDGE, argument, slack=_SLACK))
        except BoxDied as error:
            return str(error)
        if run.ended != "exit" or run.exit_code != 0:
            words = (run.stderr.strip() or "it said nothing").splitlines()[-1][:300]
            return f"the judge failed ({run.ended}, exit code {run.exit_code}): {words}"
        header, _ = next(messages(run.result, max_header_bytes=wire.MAX_HEADER_BYTES))
        return tuple(CaseResult(**outcome) for outcome in header["outcomes"])


def run_of(
    paper: Paper,
    entry: str,
    argument: bytes,
    files: Mapping[str, bytes] | None = None,
    *,
    slack: float = 1.0,
    cpu_s: float | None = None,
    words: Sequence[str] = (),
) -> RunRequest:
    """A test run in a paper's image and within its limits; `slack` stretches the wall time: for trusted code, or where `cpu_s` binds."""
    wall_s, memory_bytes = paper.time_limit_s * slack, paper.memory_limit_mb * MIB
    return RunRequest(
        entry,
        argument,
        Limits(wall_s=wall_s, cpu_s=cpu_s, memory_bytes=memory_bytes),
        files=files or {},
        words=words,
        image=paper.image,
        paper=paper.id,
    )


def messages(data: bytes, *, max_header_bytes: int = _MAX_HEADER_BYTES) -> Iterator[wire.Message]:
    """The messages a run sent, up to the first that is cut off, malformed or too large."""
    stream = io.BytesIO(data)

    def read_exactly(count: int) -> bytes:
        part = stream.read(count)
        if len(part) != count:
            raise wire.WireError("cut off")
        return part

    for _ in range(_MAX_RECORDS):
        try:
            yield wire.unpack(read_exactly, max_header_bytes=max_header_bytes)
        except wire.WireError:
            return


def read_error(error: object) -> dict[str, Any] | None:
    """A described exception from a box, cut to the lengths of an honest one; None for anything else."""
    if not isinstance(error, dict) or not is_error(error):
        return None
    return {
        "type": error["type"][:80],
        "message": error["message"][:2000],
        "frames": [frame[:300] for frame in error["frames"][:8]],
        "kinds": [kind[:80] for kind in error["kinds"][:12]],
    }


def is_error(error: object) -> bool:
    """Whether a value from a box has the form of a described exception."""
    return (
        isinstance(error, dict)
        and all(isinstance(error.get(key), str) for key in ("type", "message"))
        and all(
            isinstance(error.get(key), list) and all(isinstance(item, str) for item in error[key])
            for key in ("frames", "kinds")
        )
    )


def _last_words(run: RunResult) -> str:
    """The last line a run of ours wrote, else how it ended."""
    if run.ended != "exit":
        return f"ended by its limit of {run.ended}"
    return (run.stderr.strip() or how_it_ended(run)).splitlines()[-1][:300]


def _trouble_with_reference(records: _Records) -> str:
    for header in records.headers:
        if header["error"]:
            return f"{header['case']}: {header['error']['type']}: {header['error']['message']}"
    if not records.done:
        return f"its cases do not complete: {records.last_words}"
    return "" if records.headers else "no case of tests/cases.py covers this file"


def _case_argument(paper: Paper, tests: _Tests, files: Sequence[str], purpose: Purpose) -> bytes:
    header: dict[str, Any] = {"file": files[0], "purpose": purpose, "paper": paper.id}
    if len(files) > 1:
        header |= {"file": [*files], "once": purpose == "feedback"}
    return wire.pack(header, [tests.cases])


def _reference_records(data: bytes) -> _Records:
    headers, outputs, done, imports = [], [], False, ()
    for header, blobs in messages(data):
        if "done" in header:
            done, imports = True, tuple(header["imports"])
        else:
            headers.append(header)
            outputs.append(blobs[0])
    return _Records(tuple(headers), tuple(outputs), done, imports)


def _candidate_records(data: bytes) -> _Records:
    """The same of a hostile process: only what has the right form is kept."""
    headers, outputs, done = [], [], False
    for header, blobs in messages(data):
        if header.get("done") is True:
            done = True
        elif len(blobs) == 1 and (record := _read_record(header)) is not None:
            headers.append(record)
            outputs.append(blobs[0])
    return _Records(tuple(headers), tuple(outputs), done)


def _read_record(header: Mapping[str, Any]) -> dict[str, Any] | None:
    case, seed = header.get("case"), header.get("seed")
    if not isinstance(case, str) or type(seed) is not int or "error" not in header:
        return None
    error = read_error(header["error"])
    if error is None and header["error"] is not None:
        return None
    return {"case": case[:200], "seed": seed, "error": error}
