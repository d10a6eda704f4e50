"""A candidate's code in, a `Verdict` out.

Isolated grading (native papers): the candidate's process never holds the answer. One box runs the paper's cases on the
candidate and sends plain outputs out. Another box, the judge, runs the same cases on the reference and compares. The
outputs of the reference are kept by content, so they are made once per paper, file and purpose. The final score uses
other seeds than the feedback during an episode.

A verdict is about the candidate only. A box that dies is retried once; when the same candidate ends its box a second
time while a fresh box still works, the candidate did it. Any other trouble of ours is `infra_error`.
Not covered: what an agent gets to see of a verdict (`env.py`), and what verdicts add up to (`scoring.py`).
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from rcb_env.errors import BoxDied, SandboxUnavailable, UsageError
from rcb_env.markers import count_code_lines
from rcb_env.papers import Challenge, Paper
from rcb_env.runner import wire
from rcb_env.sandbox import make
from rcb_env.sandbox.box import MIB, Box, BoxSettings, Limits, RunResult
from rcb_env.sandbox.pool import Pool

Status = Literal[
    "passed",
    "failed",
    "timeout",
    "out_of_memory",
    "invalid",
    "no_change",
    "tampered",
    "infra_error",
]
Outcome = Literal["passed", "failed", "error", "not_run"]
Purpose = Literal["feedback", "final"]

_ERROR_CLASSES = {  # first match along the exception's bases
    "SyntaxError": "syntax",
    "NameError": "name",
    "TypeError": "type",
    "AttributeError": "attribute",
    "LookupError": "index_key",
    "ImportError": "import",
}
_ALLOCATION_FAILED = (
    "can't allocate memory",
    "bad_alloc",
    "Unable to allocate",
    "Cannot allocate memory",
)
_IMAGE_PRELOAD = ("numpy", "numpy.random", "torch", "rcb_env.runner.case_run")
_RUN, _JUDGE = "rcb_env.runner.case_run:run", "rcb_env.runner.case_run:judge"
_OUT_OF_MEMORY = "the tests used more memory than they may"
_MAX_RECORDS = 10_000  # records of one run that are read
_MAX_IMPORT_BYTES = 150_000  # names of preloaded modules, which must fit into one datagram
_KEPT_REFERENCES = 256  # reference outputs held in memory


@dataclass(frozen=True)
class CaseResult:
    """How one case with one seed went."""

    case: str
    seed: int
    outcome: Outcome
    message: str = ""  # tells no expected value
    detail: str = ""  # the expected and the actual value, for the feedback level "full"


@dataclass(frozen=True)
class Verdict:
    """What the grader says of one candidate."""

    status: Status
    cases: tuple[CaseResult, ...] = ()
    error_class: str | None = None  # syntax, name, type, attribute, index_key, import, logic, other
    message: str = ""  # one line: the first thing that is wrong
    notes: tuple[str, ...] = ()  # what the grader noticed about the integrity of the run
    stdout: str = ""  # head and tail
    stderr: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds
    official_pass: bool | None = None  # the public benchmark's own rule, where it can be applied

    @property
    def passed(self) -> bool:
        """Whether the candidate solves the challenge."""
        return self.status == "passed"

    def counts(self) -> tuple[int, int]:
        """Passed and planned test cases (a case with one seed counts once)."""
        return sum(result.outcome == "passed" for result in self.cases), len(self.cases)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `from_dict` reads it back equal."""
        return {
            **asdict(self),
            "cases": [asdict(result) for result in self.cases],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """A stored verdict.

        Raises:
            ValueError: the data is not a verdict.
        """
        try:
            if data["status"] not in get_args(Status):
                raise ValueError(f"no verdict has the status {data['status']!r}")
            cases = tuple(CaseResult(**case) for case in data["cases"])
            return cls(**{**data, "cases": cases, "notes": tuple(data["notes"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a stored verdict: {error}") from None


@dataclass(frozen=True)
class _Records:
    """What a run of the cases sent: one record a case and seed, with its encoded outputs."""

    headers: tuple[dict[str, Any], ...]
    outputs: tuple[bytes, ...]
    done: bool
    imports: tuple[str, ...] = ()


class Grader:
    """Grades candidates in warm boxes. Thread-safe; boxes start on first use and end with `close`.

    Args:
        sandbox: a maker's name, or "auto".
        workers: how many candidates are graded at once; one box each, plus one judge for all.
        threads: torch's threads in a test run.
        hash_seed: PYTHONHASHSEED in the boxes.

    Raises:
        SandboxUnavailable: no such sandbox works here.
    """

    def __init__(
        self, sandbox: str = "auto", *, workers: int = 1, threads: int = 1, hash_seed: int = 0
    ) -> None:
        self._maker = make(sandbox)
        self._workers = workers
        self._settings = BoxSettings(threads=threads, hash_seed=hash_seed)
        self._pools: dict[tuple[str, str], Pool] = {}
        self._references: OrderedDict[str, _Records] = OrderedDict()
        self._closed = False
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def sandbox(self) -> str:
        """The name of the maker in use."""
        return self._maker.name

    def describe(self) -> dict[str, str]:
        """What a run records about where its code ran."""
        return {"sandbox": self._maker.name, "version": self._maker.version}

    def close(self) -> None:
        """End every box; grading that is under way ends with infra_error. Idempotent."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()

    def grade(self, challenge: Challenge, code: str, *, final: bool) -> Verdict:
        """Grade the text of a region.

        Args:
            challenge: which region.
            code: what stands in the region, with its indentation.
            final: True for the score, False for feedback during an episode (other seeds).

        Raises:
            SandboxUnavailable: no box can be made on this machine. Anything else that is not the candidate's doing
                is a verdict with status infra_error.
        """
        started = time.monotonic()
        if count_code_lines(code.split("\n")) == 0:
            return Verdict("no_change", message="the region holds no code")
        purpose: Purpose = "final" if final else "feedback"
        try:
            verdict = self._isolated(challenge, code, purpose)
        except BoxDied as error:
            verdict = Verdict("infra_error", message=str(error))
        return replace(verdict, timings={**verdict.timings, "total_s": time.monotonic() - started})

    def _isolated(self, challenge: Challenge, code: str, purpose: Purpose) -> Verdict:
        paper = challenge.paper
        if paper.layout != "native":
            raise UsageError(
                f"{challenge.id} is in the {paper.layout} layout, which cannot be graded yet"
            )
        reference = self._reference(paper, challenge.file, purpose, challenge.tree())
        broken = [header for header in reference.headers if header["error"]]
        if broken or not reference.done or not reference.headers:
            what = (
                f"{broken[0]['case']}: {broken[0]['error']['message']}"
                if broken
                else "its cases do not complete"
            )
            return Verdict(
                "infra_error",
                message=f"the reference of {paper.id} fails, run `rcb check {paper.id}`: {what}",
            )
        argument = _case_argument(paper, challenge.file, purpose)
        run = self._run_candidate(paper, challenge.tree(code), argument, reference.imports)
        if isinstance(run, Verdict):
            return run
        started = time.monotonic()
        records = _read_records(run.result, trusted=False)
        results = self._judge(paper, reference, records)
        timings = {"run_s": run.wall_s, "judge_s": time.monotonic() - started}
        return _verdict(run, records, results, timings)

    def _run_candidate(
        self,
        paper: Paper,
        tree: Mapping[str, bytes],
        argument: bytes,
        imports: tuple[str, ...],
    ) -> RunResult | Verdict:
        """Run the candidate; a verdict when it ended its box twice although boxes work."""
        last: BoxDied | None = None
        for _ in range(2):
            with self._pool("candidate", paper.image).lease() as box:
                zygote = _zygote(box, imports)
                try:
                    return box.run(zygote, _RUN, argument, tree, _limits(paper))
                except BoxDied as error:
                    last = error
        with self._pool("candidate", paper.image).lease() as box:
            box.ping()  # where boxes do not start either, this says BoxDied: not the candidate
        if last is not None and last.out_of_memory:
            return Verdict("out_of_memory", message=_OUT_OF_MEMORY)
        message = "the tests did not complete: the code ended its sandbox, twice"
        return Verdict("failed", error_class="other", message=message)

    def _reference(
        self, paper: Paper, file: str, purpose: Purpose, tree: Mapping[str, bytes]
    ) -> _Records:
        argument = _case_argument(paper, file, purpose)
        digest = hashlib.sha256(argument)
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
            with self._pool("judge", paper.image).lease() as box:
                run = box.run(
                    _zygote(box, ()),
                    _RUN,
                    argument,
                    tree,
                    _limits(paper, 10.0),
                )
            records = _read_records(run.result, trusted=True)
            with self._lock:
                self._references[key] = records
                while len(self._references) > _KEPT_REFERENCES:
                    self._references.popitem(last=False)
            return records

    def _judge(
        self, paper: Paper, reference: _Records, candidate: _Records
    ) -> tuple[CaseResult, ...]:
        wanted = {(header["case"], header["seed"]) for header in reference.headers}
        theirs = {
            (header["case"], header["seed"]): (header, output)
            for header, output in zip(candidate.headers, candidate.outputs, strict=True)
            if (header["case"], header["seed"]) in wanted
        }
        argument = wire.pack(
            {
                "checks": paper.tests["tests/checks.py"].decode(),
                "reference": reference.headers,
                "candidate": [header for header, _ in theirs.values()],
            },
            [*reference.outputs, *(output for _, output in theirs.values())],
        )
        for last in (False, True):
            try:
                with self._pool("judge", paper.image).lease() as box:
                    box.zygote("judge", ("numpy", "rcb_env.runner.case_run"))
                    run = box.run("judge", _JUDGE, argument, {}, _limits(paper, 10.0))
                    break
            except BoxDied:
                if last:
                    raise
        if run.ended != "exit" or run.exit_code != 0:
            raise BoxDied(
                f"the judge failed ({run.ended}, exit code {run.exit_code}): {run.stderr.strip()[-300:]}"
            )
        header, _ = _messages(run.result)[0]
        return tuple(CaseResult(**outcome) for outcome in header["outcomes"])

    def _pool(self, role: str, image: str) -> Pool:
        with self._lock:
            if self._closed:
                raise BoxDied("the grader is closed")
            key = (role, image)
            if key not in self._pools:
                size = 1 if role == "judge" else self._workers
                self._pools[key] = Pool(self._maker, replace(self._settings, image=image), size)
            return self._pools[key]


def _zygote(box: Box, imports: tuple[str, ...]) -> str:
    """The zygote to fork from: the image's, or one that has also imported what this paper's tests import."""
    if not box.zygote("image", _IMAGE_PRELOAD):
        raise SandboxUnavailable(
            "the image's packages start threads when imported; no test run can be forked"
        )
    if not imports:
        return "image"
    name = "imports:" + hashlib.sha256("\n".join(imports).encode()).hexdigest()[:16]
    return name if box.zygote(name, imports, parent="image") else "image"


def _limits(paper: Paper, slack: float = 1.0) -> Limits:
    """A paper's limits; the judge's are `slack` times longer, since they bound trusted code."""
    return Limits(wall_s=paper.time_limit_s * slack, memory_bytes=paper.memory_limit_mb * MIB)


def _case_argument(paper: Paper, file: str, purpose: Purpose) -> bytes:
    source = paper.tests["tests/cases.py"].decode()
    return wire.pack({"cases": source, "file": file, "purpose": purpose, "paper": paper.id})


def _messages(data: bytes) -> list[wire.Message]:
    stream = io.BytesIO(data)
    messages: list[wire.Message] = []

    def read_exactly(count: int) -> bytes:
        part = stream.read(count)
        if len(part) != count:
            raise wire.WireError("cut off")
        return part

    while stream.tell() < len(data) and len(messages) < _MAX_RECORDS:
        try:
            messages.append(wire.unpack(read_exactly))
        except wire.WireError:
            break
    return messages


def _read_records(data: bytes, *, trusted: bool) -> _Records:
    """The records of a run; a candidate's are kept only as far as they have the right form."""
    headers, outputs, done, imports = [], [], False, ()
    for header, blobs in _messages(data):
        if header.get("done") is True:
            done = True
            if trusted:
                imports = tuple(header["imports"])
        elif trusted or (len(blobs) == 1 and _is_record(header)):
            headers.append(header)
            outputs.append(blobs[0])
    if sum(map(len, imports)) > _MAX_IMPORT_BYTES:
        imports = ()
    return _Records(tuple(headers), tuple(outputs), done, imports)


def _is_record(header: Mapping[str, Any]) -> bool:
    error = header.get("error", "")
    if not isinstance(header.get("case"), str) or type(header.get("seed")) is not int:
        return False
    if error is None:
        return True
    return (
        isinstance(error, dict)
        and all(isinstance(error.get(key), str) for key in ("type", "message"))
        and all(
            isinstance(error.get(key), list) and all(isinstance(item, str) for item in error[key])
            for key in ("frames", "kinds")
        )
    )


def _verdict(
    run: RunResult, records: _Records, results: tuple[CaseResult, ...], timings: Mapping[str, float]
) -> Verdict:
    errors = [header["error"] for header in records.headers if header["error"]]
    first = next((result for result in results if result.outcome != "passed"), None)
    message = "" if first is None else f"{first.case}: {first.message}"
    status: Status = "failed"
    error_class: str | None = None
    if run.ended == "timeout":
        status, message = "timeout", f"the tests did not end within {run.wall_s:.0f} s"
    elif run.ended == "memory" or any(_is_out_of_memory(error) for error in errors):
        status, message = "out_of_memory", _OUT_OF_MEMORY
    elif first is None and run.ended == "exit":
        status = "passed"
    elif errors:
        error_class = _error_class(errors[0]["kinds"])
    elif run.ended == "result":
        error_class, message = "other", "the outputs are too large"
    elif not records.done:
        how = (
            f"signal {-run.exit_code}" if (run.exit_code or 0) < 0 else f"exit code {run.exit_code}"
        )
        error_class, message = (
            "other",
            f"the tests did not complete: their process ended with {how}",
        )
    else:
        error_class = "logic"
    return Verdict(
        status,
        cases=results,
        error_class=error_class,
        message=message.split("\n")[0],
        stdout=run.stdout,
        stderr=run.stderr,
        timings=timings,
    )


def _is_out_of_memory(error: Mapping[str, Any]) -> bool:
    return "MemoryError" in error["kinds"] or any(
        text in error["message"] for text in _ALLOCATION_FAILED
    )


def _error_class(kinds: list[str]) -> str:
    return next((_ERROR_CLASSES[kind] for kind in kinds if kind in _ERROR_CLASSES), "other")
