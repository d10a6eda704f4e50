"""Results that the public benchmark's harness stored, as runs like ours: one for each model.

Two files of it are read. `overall_stats.json` has, for each paper, model and region, whether a completion passed, and its exit
code; no code. `paper2code_answers.json` has the completions too, and what the tests printed; runs made of it can be graded
again (`rcb grade RUN`).

What becomes of it: a completion that passed by the public rule is `passed`; exit code 124 is `timeout`; anything else is
`failed`, with the exit code and the last line of the errors. A completion that was never tested is `infra_error`, with its
code, and a region without a completion `missing`: the public harness leaves both out of its totals, which changes a rate.

Guarantees: a region is found by paper, file and line of its tag, or by paper, name and order where the file has no lines; its
lines of code must be those of the data set. The file is right as a whole, or nothing is written. One run a model.
Not covered: whether the public rule is right (`official_pass` of our own verdicts).
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.errors import UsageError, unknown
from rcb_env.grading.causes import error_class
from rcb_env.grading.verdict import Status, Verdict
from rcb_env.play.record import Episode
from rcb_env.runs.durable import file_digest
from rcb_env.runs.plan import Job, challenges_digest, jobs, now, run_record
from rcb_env.runs.store import RunStore, Steps
from rcb_env.runs.stored import EpisodeKey

AGENT = "imported"
"""The agent of a run that was made here."""
_TIMED_OUT = 124
_TAIL_CHARS = 4000  # of what tests printed
_RAISED = re.compile(
    r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Iteration|Exit))\b(?:: (.*))?", re.MULTILINE
)


@dataclass(frozen=True)
class _Result:
    """One completion of one model."""

    challenge: Challenge
    sample: int
    passed: bool | None
    """By the public rule; None: it was never tested."""
    exit_code: int = 0
    code: str | None = None
    """None: the file has no code."""
    reply: str | None = None
    stdout: str = ""
    stderr: str = ""


_Results = Mapping[str, list[_Result]]


def import_results(
    path: str | Path,
    folder: str | Path,
    *,
    dataset: str = "researchcodebench",
    models: Collection[str] = (),
) -> dict[str, Path]:
    """Make runs of a file of results, one below a folder for each model.

    Args:
        path: `overall_stats.json` or `paper2code_answers.json`.
        folder: new or empty.
        dataset: name or folder of what the results are of.
        models: only these; empty: all of the file.

    Returns:
        The runs' folders, by model.

    Raises:
        UsageError: the file is no such file, or does not fit the data set; a model is unknown.
        StoreError: the folder cannot be written, or holds something.
    """
    path, folder = Path(path), Path(folder)
    loaded = load_dataset(dataset)
    found = _read(path, loaded)
    for model in models:
        if model not in found:
            raise unknown("model", model, found, where=str(path))
    if not found:
        raise UsageError(f"{path} holds no result of any model")
    chosen = {model: found[model] for model in (models or found)}
    digest = file_digest(path)
    made = {}
    for model, results in chosen.items():
        into = folder / re.sub(r"[^\w.-]", "_", model)
        _write(into, model, results, loaded, dataset, {"file": path.name, "file_sha256": digest})
        made[model] = into
    return made


def _write(
    folder: Path,
    model: str,
    results: list[_Result],
    dataset: Dataset,
    source: str,
    file: Mapping[str, str],
) -> None:
    papers = {result.challenge.paper.id for result in results}
    samples = range(1 + max(result.sample for result in results))
    planned = [c for c in dataset.challenges if c.paper.id in papers]
    pairs = [(challenge, sample) for challenge in planned for sample in samples]
    config = {
        "agent": AGENT,
        "model": {"name": model},
        "challenges": challenges_digest(planned),
        "pairs": len(pairs),
        "imported": {**file, "code": any(result.code is not None for result in results)},
    }
    stored = {(result.challenge.id, result.sample): result for result in results}
    record = run_record(config, pairs, dataset, source)
    with RunStore.create(folder, record) as store:
        store.fill(_stored(jobs(pairs, config), stored, model))


def _stored(
    planned: list[Job], stored: Mapping[tuple[str, int], _Result], model: str
) -> Iterator[tuple[EpisodeKey, dict[str, Any], Steps]]:
    for job in planned:
        result = stored.get((job.challenge.id, job.sample))
        if result is None:
            continue
        episode = _episode(result, model, job.seed)
        graded = {"challenge": episode.challenge, "verdict": episode.verdict}
        reply = [("reply", {"text": result.reply})] if result.reply is not None else []
        yield job.key, episode.to_dict(), [*reply, ("graded", graded)]


def _episode(result: _Result, model: str, seed: int) -> Episode:
    verdict = None if result.passed is None else _verdict(result)
    return Episode.of(
        result.challenge,
        verdict,
        end_reason="submitted",
        code=result.code,
        sample=result.sample,
        seed=seed,
        agent=AGENT,
        model=model,
        status=None if verdict else "infra_error",
        started_at=now(),
        wall_s=0.0,
        error="" if verdict else "the public harness did not test it: grade the run again",
    )


def _verdict(result: _Result) -> Verdict:
    status: Status = "failed"
    message = f"exit code {result.exit_code}"
    last = next((line for line in reversed(result.stderr.splitlines()) if line.strip()), "")
    if result.passed:
        status, message = "passed", ""
    elif result.exit_code == _TIMED_OUT:
        status, message = "timeout", "the tests took longer than 60 s"
    elif result.exit_code == 0:
        message = (
            "exit code 0, but the tests printed a word that the public rule takes for an error"
        )
    elif last:
        message = f"{message}: {last.strip()}"
    return Verdict(
        status,
        message=message,
        error_class=_class_of(result.stderr) if status == "failed" else None,
        stdout=result.stdout[-_TAIL_CHARS:],
        stderr=result.stderr[-_TAIL_CHARS:],
        official_pass=result.passed,
    )


def _class_of(stderr: str) -> str | None:
    """The class of the last exception that tests printed; None: none of Python's own."""
    raised = _RAISED.findall(stderr)
    kind = getattr(builtins, raised[-1][0], None) if raised else None
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        return None
    kinds = [base.__name__ for base in kind.__mro__]
    return error_class({"kinds": kinds, "message": raised[-1][1]})


# --- the two files ----------------------------------------------------------------------------


def _read(path: Path, dataset: Dataset) -> _Results:
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    try:
        if isinstance(data, dict) and "problems" in data:
            return _by_model(_answers(_Answers.model_validate(data), dataset, path))
        if isinstance(data, dict) and "results" in data:
            return _by_model(_stats(_Stats.model_validate(data), dataset, path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg'].lower()}") from None
    raise UsageError(
        f"{path} is neither an overall_stats.json nor a paper2code_answers.json of the public benchmark"
    )


def _by_model(results: Iterator[tuple[str, _Result]]) -> _Results:
    found: dict[str, list[_Result]] = {}
    for model, result in results:
        found.setdefault(model, []).append(result)
    return found


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Tested(_Part):
    snippet_code_line_count: int
    completion_idx: int = Field(ge=0, lt=10_000)
    passed: bool
    exit_code: int


class _OfModel(_Part):
    results: dict[str, list[_Tested]]


class _OfPaper(_Part):
    results: dict[str, _OfModel]


class _Stats(_Part):
    results: dict[str, _OfPaper]


def _stats(data: _Stats, dataset: Dataset, path: Path) -> Iterator[tuple[str, _Result]]:
    for paper, of_paper in data.results.items():
        for model, of_model in of_paper.results.items():
            for name, tested in of_model.results.items():
                regions = [c for c in dataset.paper(paper).challenges if c.region.name == name]
                # Regions of one name share a list: the completions of the first one, then those of the next.
                each = [index for index, one in enumerate(tested) if one.completion_idx == 0]
                if not regions or (tested and len(each) != len(regions)):
                    raise UsageError(
                        f"{path}: {paper}: the data set has {len(regions)} regions {name!r}, the file {len(each)}"
                    )
                for region, start, end in zip(regions, each, [*each[1:], None], strict=False):
                    for one in tested[start:end]:
                        _same_lines(region, one.snippet_code_line_count, path)
                        yield (
                            model,
                            _Result(region, one.completion_idx, one.passed, one.exit_code),
                        )


class _TestResult(_Part):
    passed: bool
    exit_code: int
    stdout: str = ""
    stderr: str = ""


class _Lines(_Part):
    lines: list[str]


class _Completion(_Part):
    completion: str | None
    formatted_completion: _Lines
    test_result: _TestResult | None = None


class _Prediction(_Part):
    completions: list[_Completion] = []


class _Snippet(_Part):
    name: str
    start_line: int
    predictions: dict[str, _Prediction] | None = None


class _File(_Part):
    rel_path: str
    snippets: list[_Snippet] | None = None


class _Problem(_Part):
    folder_name: str
    problem_files: list[_File]


class _Answers(_Part):
    problems: list[_Problem]


def _answers(data: _Answers, dataset: Dataset, path: Path) -> Iterator[tuple[str, _Result]]:
    for problem in data.problems:
        places = {
            (c.file, c.region.start): c for c in dataset.paper(problem.folder_name).challenges
        }
        for file in problem.problem_files:
            for snippet in file.snippets or ():
                challenge = places.get((file.rel_path, snippet.start_line))
                if challenge is None or challenge.region.name != snippet.name:
                    raise UsageError(
                        f"{path}: {problem.folder_name}/{file.rel_path} has no region {snippet.name!r} in line"
                        f" {snippet.start_line + 1} of the data set: the file is of another version of it"
                    )
                for model, prediction in (snippet.predictions or {}).items():
                    for sample, one in enumerate(prediction.completions):
                        yield model, _completed(challenge, sample, one)


def _completed(challenge: Challenge, sample: int, one: _Completion) -> _Result:
    test = one.test_result
    return _Result(
        challenge,
        sample,
        passed=test.passed if test else None,
        exit_code=test.exit_code if test else 0,
        code="".join(f"{line}\n" for line in one.formatted_completion.lines),
        reply=one.completion,
        stdout=test.stdout if test else "",
        stderr=test.stderr if test else "",
    )


def _same_lines(challenge: Challenge, lines: int, path: Path) -> None:
    if challenge.lines != lines:
        raise UsageError(
            f"{path}: {challenge.id} has {lines} lines of code there and {challenge.lines} in the data set: the file is"
            " of another version of it"
        )
