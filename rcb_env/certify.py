"""`rcb check`: is a paper good enough to judge agents by?

Points looked at: every region is short; nothing the agent sees holds a region's answer; the
reference passes again and again, with the seeds of feedback and of the final score; an emptied
region fails; small faults in a region fail. What is wrong becomes a `Problem` with file and line.

Guarantees: code runs through the same `Grader` as in a run. Verdicts are kept by content in a
cache folder, so an unchanged paper is certified again in seconds; a change of the paper's code,
tests or limits, or of the grading itself, makes them anew. Trouble of the sandbox is reported as
such and never counts as a fault found.
Not covered: tags and metadata (loading a paper refuses broken ones), the prose of a paper, and
known exploits, which have tests of their own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import platform
import re
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import model_validator

from rcb_env.errors import PaperError, SandboxUnavailable
from rcb_env.grading import Grader
from rcb_env.markers import raw_body, strip_tags
from rcb_env.metadata import Document, Name, Strict, Words, read_yaml
from rcb_env.mutation import Mutant, mutants
from rcb_env.papers import Challenge, Paper

MAX_REGION_LINES = 60
MAX_WARM_TEST_S = 2.0
MIN_KILLED = 0.95  # of the mutants without a written reason
QUICK_MUTANTS = 12  # per region
QUICK_REPEATS, FULL_REPEATS = 5, 20
SURVIVORS_FILE = "tests/survivors.yaml"

Progress = Callable[
    [str, int, int], None
]  # what is going on, how many are done, how many there are


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a paper. `line` is 1-based; None: the whole file."""

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """As editors and people read it."""
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"

    @classmethod
    def of(cls, error: PaperError) -> Problem:
        """The problem that kept a paper from being loaded."""
        return cls(error.path, error.line, error.reason)


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
class Certificate:
    """What `certify` found.

    Attributes:
        mutants: faults tried; equal files reached through nested regions count in each region.
        killed: how many of them failed.
        reference_runs: how often the reference was graded.
        reference_failures: how often it did not pass; anything but 0 or all of them is flakiness.
        warm_test_s: median time of one test run in a warm box, seconds; None if nothing ran.
        notes: what could not be looked at on this machine, and why.
    """

    paper: str
    full: bool
    problems: tuple[Problem, ...]
    mutants: int = 0
    killed: int = 0
    survivors: tuple[Survivor, ...] = ()
    reference_runs: int = 0
    reference_failures: int = 0
    warm_test_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)


def certify(
    paper: Paper,
    grader: Grader,
    *,
    full: bool,
    progress: Progress | None = None,
    cache: Path | None = None,
    workers: int = 1,
) -> Certificate:
    """Look at everything that can be wrong with a paper.

    Args:
        paper: the paper.
        grader: what judges; must not be closed before this returns.
        full: all mutants instead of a sample, more repeats, and the reference also with two threads
            and with another hash seed.
        progress: is told what is going on; called from this thread only.
        cache: folder to keep verdicts in; None: nothing is kept.
        workers: how many candidates are graded at once; the grader's own number of workers.

    Raises:
        SandboxUnavailable: code cannot be run here at all.
        UsageError: papers of this layout cannot be graded.
    """
    run = _Run(paper, grader, full, progress or (lambda *_: None), Verdicts(cache, paper), workers)
    return run.certificate()


def static_problems(paper: Paper) -> tuple[Problem, ...]:
    """What can be said without running code: regions too long, answers in sight, stale reasons."""
    problems = []
    for challenge in paper.challenges:
        if challenge.lines > MAX_REGION_LINES:
            problems.append(
                _problem(
                    challenge,
                    f"has {challenge.lines} lines of code; at most {MAX_REGION_LINES} are allowed,"
                    " mark a smaller part",
                )
            )
        problems += leaks(challenge)
    problems += _Reasons(paper).problems
    return tuple(problems)


def leaks(challenge: Challenge) -> tuple[Problem, ...]:
    """Places in what the agent sees that hold the region's code.

    All lines of code of the region in a row, whatever their spacing, with or without comments or
    blank lines between them, and also where they are themselves commented out.
    """
    wanted = [bare for line in challenge.reference.split("\n") if (bare := _bare(line))]
    text_file = "paper.md" if challenge.paper.layout == "native" else "the paper's text"
    seen = {
        path: data.decode("utf-8", "replace") for path, data in challenge.workspace().items()
    } | {text_file: challenge.paper.text}
    found = {
        (path, line)
        for path, text in seen.items()
        for commented in (False, True)
        for line in _runs(text, wanted, commented=commented)
    }
    return tuple(
        _problem(challenge, f"its code stands also in {path}, line {line} of what the agent sees")
        for path, line in sorted(found)
    )


def _runs(text: str, wanted: Sequence[str], *, commented: bool) -> Iterator[int]:
    lines = [
        (number, bare)
        for number, line in enumerate(text.split("\n"), start=1)
        if (bare := _bare(re.sub(r"^[\s#]+", "", line) if commented else line))
    ]
    texts = [bare for _, bare in lines]
    for start in range(len(texts) - len(wanted) + 1):
        if texts[start : start + len(wanted)] == list(wanted):
            yield lines[start][0]


def _bare(line: str) -> str:
    """A line of code without spaces and trailing comment; "" for blank lines and comments."""
    if not re.search(r"['\"]", line):
        line = line.split("#", 1)[0]
    text = "".join(line.split())
    return "" if text.startswith("#") else text


def _problem(challenge: Challenge, message: str, line: int | None = None) -> Problem:
    """A problem of a region, at a line of the annotated file (default: its start tag)."""
    return Problem(
        path=str(challenge.paper.root / challenge.file),
        line=challenge.region.start + 1 if line is None else line,
        message=f"{challenge.id} {message}",
    )


# --- reasons for survivors --------------------------------------------------------------------


class _Reason(Strict):
    challenge: Words
    description: Words | None = None
    hash: Name | None = None
    reason: Words

    @model_validator(mode="after")
    def _names_one_mutant(self) -> _Reason:
        if (self.description is None) == (self.hash is None):
            raise ValueError("give either the mutant's description or its hash")
        return self


class _Reasons:
    """The paper's ``tests/survivors.yaml``: a list of {challenge, description or hash, reason}."""

    def __init__(self, paper: Paper) -> None:
        self.problems: list[Problem] = []
        self._reasons: dict[tuple[str, str], str] = {}
        self._places: dict[tuple[str, str], Problem] = {}
        path = paper.root / SURVIVORS_FILE
        if not path.is_file():
            return
        try:
            document = read_yaml(path)
            if not isinstance(document.value, list):
                raise document.error("expected a list of {challenge, description or hash, reason}")
            challenges = {challenge.id: challenge for challenge in paper.challenges}
            for number in range(len(document.value)):
                self._add(document, number, challenges)
        except PaperError as error:
            self.problems.append(Problem.of(error))

    def _add(self, document: Document, number: int, challenges: Mapping[str, Challenge]) -> None:
        entry = document.parse(_Reason, number)
        challenge = challenges.get(entry.challenge)
        if challenge is None:
            raise document.error(f"there is no challenge {entry.challenge!r}", number, "challenge")
        for mutant in mutants(challenge.reference):
            if entry.hash == mutant.hash or entry.description == mutant.description:
                key = (challenge.id, mutant.hash)
                self._reasons[key] = entry.reason
                self._places[key] = Problem(
                    document.path,
                    document.line(number),
                    f"the mutant {mutant.description} of {challenge.id} is found by the tests;"
                    " remove this entry",
                )
                return
        raise document.error(
            f"{challenge.id} has no mutant {entry.hash or entry.description!r}; its code has"
            " changed, remove the entry or name the mutant anew",
            number,
        )

    def reason(self, challenge: Challenge, mutant: Mutant) -> str:
        """What the author says about a survivor; "" if nothing."""
        return self._reasons.get((challenge.id, mutant.hash), "")

    def needless(self, challenge: Challenge, mutant: Mutant) -> Problem | None:
        """The problem of a reason for a mutant that fails."""
        return self._places.get((challenge.id, mutant.hash))


# --- verdicts ---------------------------------------------------------------------------------


class Verdicts:
    """Verdicts by content, in memory and in one file of the cache folder. Thread-safe.

    Args:
        folder: the cache folder; None: memory only.
        paper: whose.
    """

    def __init__(self, folder: Path | None, paper: Paper) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._path = None if folder is None else folder / f"{paper.id}.jsonl"
        fixed = hashlib.sha256(_machinery().encode())
        for path, data in paper.tests.items():
            fixed.update(f"{path}\0{len(data)}\0".encode() + data)
        fixed.update(f"{paper.id} {paper.image}".encode())
        fixed.update(f"{paper.time_limit_s} {paper.memory_limit_mb}".encode())
        self._fixed = fixed
        if self._path is not None and self._path.is_file():
            for line in self._path.read_text().splitlines():
                try:
                    record = json.loads(line)
                    self._known[record["key"]] = record["value"]
                except (ValueError, KeyError, TypeError):
                    continue  # a torn line of a run that was killed

    def key(self, challenge: Challenge, code: str, *more: object) -> str:
        """Equal if the file to be graded and all that grades it are equal, whatever the region."""
        state = self._fixed.copy()
        state.update(f"{challenge.file}\0{more!r}".encode())
        for path, data in challenge.tree(code).items():
            state.update(f"{path}\0{len(data)}\0".encode() + data)
        return state.hexdigest()

    def get(self, key: str) -> str | None:
        """What was put under a key; None: nothing yet."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: str, value: str) -> None:
        """Keep a verdict."""
        with self._lock:
            self._known[key] = value
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a") as file:
                    file.write(json.dumps({"key": key, "value": value}) + "\n")


def _machinery() -> str:
    """Hash of the code and the versions that turn a candidate into a verdict."""
    package = Path(__file__).parent
    modules = ("cases", "grading", "verdict", "isolated", "guarded", "canaries", "mutation")
    sources = [package / f"{name}.py" for name in modules]
    sources += sorted(package.glob("runner/*.py"))
    state = hashlib.sha256(platform.python_version().encode())
    for source in sources:
        state.update(source.read_bytes())
    for name in ("numpy", "torch"):
        try:
            state.update(f"{name} {importlib.metadata.version(name)}".encode())
        except importlib.metadata.PackageNotFoundError:
            continue
    return state.hexdigest()


# --- the run ----------------------------------------------------------------------------------


class _Run:
    """One certification, part by part; collects what is found."""

    def __init__(
        self,
        paper: Paper,
        grader: Grader,
        full: bool,
        progress: Progress,
        verdicts: Verdicts,
        workers: int,
    ) -> None:
        self._paper = paper
        self._grader = grader
        self._full = full
        self._progress = progress
        self._verdicts = verdicts
        self._workers = workers
        self._problems: list[Problem] = list(static_problems(paper))
        self._reasons = _Reasons(paper)
        self._runs = 0
        self._failures = 0
        self._times: list[float] = []
        self._survivors: list[Survivor] = []
        self._made = 0
        self._killed = 0
        self._notes: list[str] = []

    def certificate(self) -> Certificate:
        # One challenge of each file: with the reference in place, its regions are one and the same.
        files = list({challenge.file: challenge for challenge in self._paper.challenges}.values())
        repeats = FULL_REPEATS if self._full else QUICK_REPEATS
        self._reference(files, self._grader, repeats, "")
        if self._full and not self._failures:
            self._variant(files, "two threads", threads=2)
            self._variant(files, "another hash seed", hash_seed=1)
        warm = statistics.median(self._times) if self._times else None
        if warm is not None and warm > MAX_WARM_TEST_S:
            self._problems.append(
                self._about_tests(
                    f"one test run takes {warm:.1f} s in a warm box; at most"
                    f" {MAX_WARM_TEST_S:.0f} s are allowed, make the cases smaller"
                )
            )
        if not self._failures:  # of a broken reference, nothing can be learned from mutants
            self._emptied()
            self._faults(warm or 0.0)
        return Certificate(
            paper=self._paper.id,
            full=self._full,
            problems=tuple(self._problems),
            mutants=self._made,
            killed=self._killed,
            survivors=tuple(self._survivors),
            reference_runs=self._runs,
            reference_failures=self._failures,
            warm_test_s=warm,
            notes=tuple(self._notes),
        )

    def _variant(self, files: Sequence[Challenge], settings: str, **changes: int) -> None:
        """The reference in boxes with other settings, as far as the sandbox offers them."""
        try:
            with Grader(self._grader.sandbox, **changes) as other:
                self._reference(files, other, QUICK_REPEATS, settings)
        except SandboxUnavailable as error:
            self._notes.append(f"the reference was not tried with {settings}: {error}")

    def _about_tests(self, message: str) -> Problem:
        name = next(iter(self._paper.tests))
        return Problem(str(self._paper.root / name), None, message)

    # --- the reference ------------------------------------------------------------------------

    def _reference(
        self, files: Sequence[Challenge], grader: Grader, repeats: int, settings: str
    ) -> None:
        doing = "reference" + (f" with {settings}" if settings else "")
        for number, challenge in enumerate(files):
            self._progress(doing, number, len(files))
            key = self._verdicts.key(challenge, challenge.reference, "reference", repeats, settings)
            stored = self._verdicts.get(key)
            if stored is not None:
                self._runs += 2 * repeats
                self._times += json.loads(stored)
                continue
            times: list[float] = []
            failed: dict[str, str] = {}
            failures = 0
            for purpose, final in (("final", True), ("feedback", False)):
                for _ in range(repeats):
                    verdict = grader.grade(challenge, challenge.reference, final=final)
                    self._runs += 1
                    if verdict.passed:
                        times.append(verdict.timings.get("run_s", 0.0))
                    else:
                        failures += 1
                        failed[purpose] = f"{verdict.status}: {verdict.message}"
            self._failures += failures
            self._times += times
            if failures:
                seeds, message = next(iter(failed.items()))
                often = (
                    "never passes"
                    if failures == 2 * repeats
                    else (f"is flaky: {failures} of {2 * repeats} runs do not pass")
                )
                circumstances = f" with {settings}" if settings else ""
                self._problems.append(
                    self._about_tests(
                        f"the reference of {challenge.file} {often}{circumstances};"
                        f" with {seeds} seeds: {message}"
                    )
                )
            else:
                self._verdicts.put(key, json.dumps(times))
        self._progress(doing, len(files), len(files))

    # --- candidates that must fail ------------------------------------------------------------

    def _emptied(self) -> None:
        jobs = [
            (challenge, code, words)
            for challenge in self._paper.challenges
            for code, words in (
                (f"{challenge.region.indent}pass\n", "emptied to `pass`"),
                ("", "emptied"),
            )
        ]
        statuses = self._grade("emptied regions", [(c, code) for c, code, _ in jobs])
        for (challenge, _, words), status in zip(jobs, statuses, strict=True):
            if status == "passed":
                self._problems.append(
                    _problem(
                        challenge, f"still passes when it is {words}; add a test that needs it"
                    )
                )
            self._note_trouble(challenge, words, status)

    def _faults(self, warm_s: float) -> None:
        # A mutant may loop for ever; the paper's whole limit each time would take hours.
        limit_s = min(self._paper.time_limit_s, max(5.0, 20 * warm_s))
        hurried = dataclasses.replace(self._paper, time_limit_s=limit_s)
        limit = None if self._full else QUICK_MUTANTS
        jobs = [
            (challenge, mutant)
            for challenge in self._paper.challenges
            for mutant in mutants(challenge.reference, limit=limit)
        ]
        statuses = self._grade(
            "mutants",
            [(dataclasses.replace(c, paper=hurried), mutant.code) for c, mutant in jobs],
        )
        # The same file can be reached from an inner and an outer region; one reason is enough.
        reasons = {
            self._verdicts.key(challenge, mutant.code): reason
            for challenge, mutant in jobs
            if (reason := self._reasons.reason(challenge, mutant))
        }
        tried: dict[str, list[bool]] = {challenge.id: [] for challenge in self._paper.challenges}
        for (challenge, mutant), status in zip(jobs, statuses, strict=True):
            if self._note_trouble(challenge, f"with {mutant.description}", status):
                continue
            self._made += 1
            if status != "passed":
                self._killed += 1
                tried[challenge.id].append(True)
                if needless := self._reasons.needless(challenge, mutant):
                    self._problems.append(needless)
                continue
            reason = reasons.get(self._verdicts.key(challenge, mutant.code), "")
            self._survives(challenge, mutant, reason)
            if not reason:
                tried[challenge.id].append(False)
        for challenge in self._paper.challenges:
            found = tried[challenge.id]
            if found and sum(found) < MIN_KILLED * len(found):
                self._problems.append(
                    _problem(
                        challenge,
                        f"is tested too weakly: {sum(found)} of {len(found)} mutants fail,"
                        f" at least {MIN_KILLED:.0%} must",
                    )
                )

    def _survives(self, challenge: Challenge, mutant: Mutant, reason: str) -> None:
        line = _line_in_file(challenge, mutant.line)
        survivor = Survivor(
            challenge=challenge.id,
            hash=mutant.hash,
            kind=mutant.kind,
            description=mutant.description,
            path=str(self._paper.root / challenge.file),
            line=line,
            reason=reason,
        )
        self._survivors.append(survivor)
        if not reason:
            self._problems.append(
                _problem(
                    challenge,
                    f"passes with the fault {mutant.description} (mutant {mutant.hash}); add a"
                    f" test, or a reason to {SURVIVORS_FILE}",
                    line,
                )
            )

    def _grade(self, doing: str, jobs: Sequence[tuple[Challenge, str]]) -> list[str]:
        """The status of every job; "infra_error: ..." where the sandbox failed twice."""
        keys = [self._verdicts.key(challenge, code) for challenge, code in jobs]
        todo = {
            key: job for key, job in zip(keys, jobs, strict=True) if self._verdicts.get(key) is None
        }
        trouble: dict[str, str] = {}

        def judge(item: tuple[str, tuple[Challenge, str]]) -> None:
            key, (challenge, code) = item
            for _ in range(2):
                verdict = self._grader.grade(challenge, code, final=True)
                if verdict.status != "infra_error":
                    self._verdicts.put(key, verdict.status)
                    return
                trouble[key] = f"infra_error: {verdict.message}"

        pool = ThreadPoolExecutor(max_workers=self._workers)
        try:
            for number, _ in enumerate(pool.map(judge, todo.items())):
                self._progress(doing, len(jobs) - len(todo) + number, len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)
        self._progress(doing, len(jobs), len(jobs))
        return [self._verdicts.get(key) or trouble[key] for key in keys]

    def _note_trouble(self, challenge: Challenge, what: str, status: str) -> bool:
        if not status.startswith("infra_error"):
            return False
        self._problems.append(
            _problem(challenge, f"could not be graded {what}, check it again ({status})")
        )
        return True


def _line_in_file(challenge: Challenge, line: int) -> int:
    """The 1-based line of the annotated file where a line of the region's code stands."""
    text = challenge.paper.files[challenge.file].decode("utf-8", "surrogateescape")
    raw = raw_body(text, challenge.region).split("\n")
    code_lines = [number for number, content in enumerate(raw) if strip_tags(content) == content]
    return challenge.region.start + 2 + code_lines[line - 1]
