"""Runs made of code that is there already: a file of completions, or the episodes of another run.

Guarantees: every line of a file is checked before anything is graded; the first bad one is named
by its number. The result is a run like any other: same directory, same states, same reports, and
it can be resumed. Texts are read from the disk when their turn comes, so memory stays flat.

What is planned: without a selection, exactly the (challenge, sample) pairs of the file. With papers
or challenges selected, every selected challenge with every sample index of the file, so that a
completion which is not there counts as missing and not as never asked for.
Not covered: agents and environments; nothing is played here.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.variant_names import published, variant_of, with_variant
from rcb_env.env.settings import Extractor, Rules
from rcb_env.errors import StoreError, UsageError
from rcb_env.grading.grader import Grader, Verdict
from rcb_env.play.extraction import Extracted
from rcb_env.play.joint_extraction import extract_for
from rcb_env.play.record import EndReason, Episode
from rcb_env.runs.durable import JsonLines, file_digest
from rcb_env.runs.plan import Job, challenges_digest, jobs, now, run_record
from rcb_env.runs.steps import Trajectory
from rcb_env.runs.store import INFRA, RunStore
from rcb_env.runs.telling import Progress
from rcb_env.runs.workers import work

MAX_LINE_BYTES = 16 << 20
"""A longer line is refused: no region needs it, and it would be held in memory."""

_NOT_FINAL = ("agent_error", "model_error", "sandbox_error")  # ends with no answer to judge again


def grade_completions(
    path: str | Path,
    folder: str | Path,
    *,
    dataset: str = "bundled",
    papers: Sequence[str] = (),
    challenges: Sequence[str] = (),
    variant: int | None = None,
    rules: Rules = Rules(),  # noqa: B008 - frozen
    official: bool = False,
    sandbox: str = "auto",
    workers: int = 1,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
    grader: Grader | None = None,
) -> RunStore:
    """Grade completions from anywhere: JSON Lines with ``challenge``, ``sample`` and a text.

    The text is either ``completion``, a model's whole reply from which the code is extracted by
    a rule of `rcb_env.play.extraction` (null: no text came; ``finish_reason`` may say why), or
    ``code``, which goes into the region as it is.

    Args:
        path: the file.
        folder: the run directory to make.
        dataset: name or folder.
        papers: only these papers; what the file lacks of them counts as missing.
        challenges: only these challenges, likewise.
        variant: what ids without a number are taken for; None: for the published challenge.
        rules: by its extractor code is found in replies.
        official: put the public benchmark's own verdict beside each of ours; of public folders only.
        sandbox: a maker's name, or "auto".
        workers: gradings at once.
        resume: continue a run made from the same file.
        progress: called before the first and after every grading.
        grader: grades, and stays the caller's to close; None: one in this sandbox, for these workers.

    Returns:
        The run, no longer held for writing.

    Raises:
        UsageError: the file or one of its lines is wrong, or a name is unknown.
        Interrupted, SandboxUnavailable, StoreError: as in `run_experiment`.
    """
    path = Path(path)
    loaded = load_dataset(dataset)
    lines = _scan(path, loaded, variant)
    chosen = bool(papers or challenges)
    if chosen:
        selected = loaded.select(papers=papers or None, challenges=challenges or None)
        samples = sorted({sample for _, sample in lines})
        pairs = [(challenge, sample) for challenge in selected for sample in samples]
    else:
        # In the order of the data set, so that reports of different files can be laid side by side.
        order = {challenge.id: i for i, challenge in enumerate(loaded.challenges)}
        ordered = sorted(
            lines, key=lambda pair: (order[published(pair[0])], variant_of(pair[0]), pair[1])
        )
        pairs = [(loaded.challenge(id), sample) for id, sample in ordered]
    more = {**rules.chosen(), **_official(official, pairs, dataset)}
    config = _config("file:" + path.name, None, pairs, file_sha256=file_digest(path), **more)
    source = _File(path, lines, rules.extractor)
    return _judge(
        config,
        [pair for pair in pairs if (pair[0].id, pair[1]) in lines],
        source.episode,
        run_record(config, pairs, loaded, dataset, file=str(path)),
        Path(folder),
        official=official,
        sandbox=sandbox,
        workers=workers,
        resume=resume,
        progress=progress,
        grader=grader,
    )


def regrade(
    run: str | Path,
    folder: str | Path,
    *,
    dataset: str | None = None,
    official: bool = False,
    sandbox: str = "auto",
    workers: int = 1,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
    grader: Grader | None = None,
) -> RunStore:
    """Judge the stored candidates of a run again, into a new run with the same plan.

    Episodes without an answer (a reply that was cut off, a model that could not be reached) keep
    their state. Steps, usage and times are taken over, so only verdicts can differ.

    Args:
        run: the run directory to read; it is not changed.
        folder: the run directory to make.
        dataset: name or folder; None: the one the run was made with.
        official: as in `grade_completions`.
        sandbox: a maker's name, or "auto".
        workers: gradings at once.
        resume: continue a regrading of the same run.
        progress: called before the first and after every grading.
        grader: grades, and stays the caller's to close; None: one in this sandbox, for these workers.

    Returns:
        The new run, no longer held for writing.

    Raises:
        StoreError: there is no such run, or an episode in it is damaged.
        UsageError: the data set no longer has one of its challenges.
        Interrupted, SandboxUnavailable: as in `run_experiment`.
    """
    old = RunStore.open(run)
    if not old.record["config"].get("imported", {"code": True}).get("code"):
        raise UsageError(
            f"{run} was imported without code, so there is nothing to grade: import the public harness's"
            " paper2code_answers.json"
        )
    source = dataset or str(old.record.get("dataset", {}).get("source", "bundled"))
    loaded = load_dataset(source)
    pairs = [
        (loaded.challenge(entry["challenge"]), sample)
        for entry in old.record["plan"]
        for sample in entry["samples"]
    ]
    before = old.record["config"]
    config = _config(
        str(before.get("agent", "")),
        before.get("model"),
        pairs,
        regraded=str(Path(run).resolve()),
        **_official(official, pairs, source),
    )
    stored = _Stored(old)
    return _judge(
        config,
        [pair for pair in pairs if (pair[0].id, pair[1]) in stored.offsets],
        stored.episode,
        run_record(config, pairs, loaded, source, regraded=str(run)),
        Path(folder),
        official=official,
        sandbox=sandbox,
        workers=workers,
        resume=resume,
        progress=progress,
        grader=grader,
    )


_Judged = Callable[[Job, Callable[[str], Verdict]], Episode]


class _File:
    """Completions in a file."""

    def __init__(
        self, path: Path, offsets: Mapping[tuple[str, int], int], extractor: Extractor
    ) -> None:
        self._label = f"file:{path.name}"
        self._extractor = extractor
        self._lines = JsonLines(path)
        self._offsets = offsets

    def episode(self, job: Job, grade: Callable[[str], Verdict]) -> Episode:
        record = next(self._lines.at([self._offsets[job.challenge.id, job.sample]]))
        started_at, began = now(), time.monotonic()
        if "code" in record:
            found = Extracted(record["code"])
        else:
            found = extract_for(
                job.challenge,
                record["completion"],
                extractor=self._extractor,
                finish_reason=record.get("finish_reason"),
            )
        verdict = None if found.code is None else grade(found.code)
        end_reason: EndReason = "submitted" if found.reason is None else found.reason
        error = "; ".join(found.notes) if found.code is None else ""
        return Episode.of(
            job.challenge,
            verdict,
            end_reason=end_reason,
            code=found.code or "",
            sample=job.sample,
            seed=job.seed,
            agent=self._label,
            wall_s=round(time.monotonic() - began, 6),
            started_at=started_at,
            error=verdict.message if verdict and verdict.status == INFRA else error,
        )


class _Stored:
    """Candidates in another run's directory."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.offsets: dict[tuple[str, int], int] = {}
        for offset in store.offsets().values():
            episode = store.at(offset)["episode"]
            self.offsets[episode["challenge"], episode["sample"]] = offset

    def episode(self, job: Job, grade: Callable[[str], Verdict]) -> Episode:
        data = self._store.at(self.offsets[job.challenge.id, job.sample])["episode"]
        try:
            old = Episode.from_dict(data)
        except ValueError as error:
            raise StoreError(f"{self._store.folder}: {job.challenge.id}: {error}") from error
        if old.end_reason in _NOT_FINAL or (old.status == "invalid" and old.verdict is None):
            return old
        verdict = grade(old.code)
        return replace(
            old,
            status=verdict.status,
            verdict=verdict.to_dict(),
            lines=job.challenge.lines,
            content_hash=job.challenge.content_hash,
            error=verdict.message if verdict.status == INFRA else "",
        )


def _judge(
    config: Mapping[str, Any],
    pairs: Sequence[tuple[Challenge, int]],
    episode: _Judged,
    record: Mapping[str, Any],
    folder: Path,
    *,
    official: bool,
    sandbox: str,
    workers: int,
    resume: bool,
    progress: Callable[[Progress], None] | None,
    grader: Grader | None,
) -> RunStore:
    """Grade what is there, into a new or resumed run directory."""
    if workers < 1:
        raise UsageError(f"workers is {workers}; it must be at least 1")
    boxes: Any = contextlib.nullcontext(grader)
    if grader is None:
        boxes = Grader(sandbox, workers=workers, run=folder.name, official=official)
    with boxes as judge:

        def play(job: Job, trajectory: Trajectory) -> Episode:
            made = episode(job, lambda code: judge.grade(job.challenge, code, final=True))
            trajectory.record("graded", {"challenge": made.challenge, "verdict": made.verdict})
            return made

        with (
            RunStore.resume(folder, config)
            if resume and (folder / "run.json").exists()
            else RunStore.create(folder, record)
        ) as store:
            work(
                jobs(pairs, config),
                lambda: play,
                store=store,
                boxes=judge,
                workers=workers,
                progress=progress,
            )
    return store


def _config(
    agent: str, model: object, pairs: Sequence[tuple[Challenge, int]], **more: object
) -> dict[str, Any]:
    challenges = list({challenge.id: challenge for challenge, _ in pairs}.values())
    return {
        "agent": agent,
        "model": model,
        "challenges": challenges_digest(challenges),
        "pairs": len(pairs),
        **more,
    }


def _official(
    wanted: bool, pairs: Sequence[tuple[Challenge, int]], dataset: str
) -> dict[str, object]:
    """What the config says of the public benchmark's verdicts.

    Raises:
        UsageError: there is no such verdict on any of these challenges.
    """
    if not wanted:
        return {}
    if not any(challenge.paper.layout == "paper2code" for challenge, _ in pairs):
        raise UsageError(
            f"--official is for folders of the public benchmark, and {dataset} has none: leave it out"
        )
    return {"official": True}


def _scan(path: Path, dataset: Dataset, variant: int | None) -> dict[tuple[str, int], int]:
    """Check every line; returns where each (challenge, sample) is.

    Raises:
        UsageError: the file cannot be read, is empty, or has a bad line; the first one is named.
    """
    places: dict[tuple[str, int], int] = {}
    numbers: dict[tuple[str, int], int] = {}
    offset = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                where = f"{path}:{number}"
                if len(line) == MAX_LINE_BYTES:
                    raise UsageError(f"{where}: the line is longer than {MAX_LINE_BYTES} bytes")
                if line.strip():
                    pair = _checked(line, where, dataset, variant)
                    if pair in numbers:
                        raise UsageError(
                            f"{where}: {pair[0]} sample {pair[1]} is in line {numbers[pair]} "
                            'already; give repeated completions different values of "sample"'
                        )
                    places[pair], numbers[pair] = offset, number
                offset += len(line)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if not places:
        raise UsageError(f"{path} holds no completion: write one JSON object a line")
    return places


def _checked(line: bytes, where: str, dataset: Dataset, variant: int | None) -> tuple[str, int]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}") from None
    if not isinstance(record, dict):
        raise UsageError(f"{where}: not a JSON object")
    challenge, sample = record.get("challenge"), record.get("sample", 0)
    if not isinstance(challenge, str):
        raise UsageError(f'{where}: "challenge" must be a challenge\'s id')
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 0:
        raise UsageError(f'{where}: "sample" must be a whole number from 0')
    texts = [name for name in ("completion", "code") if name in record]
    if len(texts) != 1:
        raise UsageError(f'{where}: there must be one of "completion" and "code"')
    # A model that gave no text is a result; code that is not there is a mistake in the file.
    if not isinstance(record[texts[0]], str) and (texts[0], record[texts[0]]) != (
        "completion",
        None,
    ):
        raise UsageError(f'{where}: "{texts[0]}" must be a string')
    if not isinstance(record.get("finish_reason", ""), str | None):
        raise UsageError(f'{where}: "finish_reason" must be a string')
    if variant is not None and not variant_of(challenge):
        challenge = with_variant(challenge, variant)
    try:
        dataset.challenge(challenge)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return challenge, sample
