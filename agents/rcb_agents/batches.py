"""Many questions at once through a provider's batch API: sent, left, and collected later at half the price.

`ask_ahead` is called with the tasks that are still to be played, session after session, until every reply is there.
What is under way stands in ``state.json`` of the run's folder for it; replies are in ``replies`` beside it, in the
form of the cache of replies.

Guarantees: a reply is on disk before anything else is asked, and a batch is noted as soon as the server has named it.
What failed or ran out of time is asked again in the next batch, without a parameter that the model has refused; where
a batch answered nothing and taught nothing, its first failure is told instead. Where no batch is wanted any more, what
earlier ones have answered is collected all the same, and nothing that goes wrong with them is in the way.
Not covered: agents that ask more than once; a batch whose name got lost on the way here, which is paid for and asked
again.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcb_agents import intake
from rcb_agents.client import OpenAIModel, Unanswered
from rcb_agents.model import open_model
from rcb_env import (
    Agent,
    BudgetSpent,
    ModelError,
    ModelRefusedRequest,
    NoAnswer,
    StoreError,
    Task,
    UsageError,
)

_AT_ONCE = (
    100  # questions in a batch: their replies together must not be longer than a reply may be
)

Questions = Mapping[str, Mapping[str, Any]]
"""Bodies of requests by their keys, which are of 64 letters and digits."""


@dataclass(frozen=True)
class _Line:
    """What came of one question."""

    key: str
    status: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class _Desk:
    """A provider's batch API.

    Attributes:
        submit: sends questions of a model; gives the batch's name.
        look: how a batch stands in the server's word, and what came of it once it has ended (None: it has not).
        line: reads a line of that.
    """

    submit: Callable[[Any, OpenAIModel, Questions], object]
    look: Callable[[Any, str], tuple[str, list[str] | None]]
    line: Callable[[Mapping[str, Any]], _Line]


def ask_ahead(agent: Agent, tasks: Sequence[Task]) -> str | None:
    """Ask what an agent would ask first in each task; all at once, where it has not been asked yet.

    Args:
        agent: asks once in a task.
        tasks: what is to be played; ``batch`` and ``batch_only`` are the same in all. Without the second, only what
            earlier batches have answered is collected.

    Returns:
        What is waited for, in one line; None: every reply is there, or none is waited for.

    Raises:
        UsageError: the model has no batch API.
        ModelError: the server takes no batch, or answered none of its questions.
    """
    if not tasks or tasks[0].batch is None:
        return None
    model = open_model(tasks[0])
    if not isinstance(model, OpenAIModel) or model.server.endpoint.api not in _DESKS:
        raise UsageError(
            "only OpenAI's, Anthropic's and Google's models have a batch API: leave out --batch"
        )
    folder, desk, wanted = tasks[0].batch, _DESKS[model.server.endpoint.api], tasks[0].batch_only
    state = _read(folder)
    model.server.leave_out(state["without"])
    left: list[str] = []
    for name in list(state["under_way"]):
        try:
            word, lines = model.server.talk(desk.look, name)
        except ModelError:
            if wanted:
                raise
            word, lines = "nobody can tell", None
        if lines is None and wanted:
            return (
                f"the batch {name} at {model.url} is not done ({word}): go on later with --resume"
            )
        if lines is None:
            left.append(f"{name} ({word})")
            continue
        answered, failure = 0, f"the batch {name} ended as {word}"
        for line in _lines(lines, desk, model):
            if line.status == 200 and model.keep(line.key, line.body):
                answered += 1
            elif line.status != 200:
                learnt, words = model.server.learn(line.status, line.body)
                answered += learnt
                failure = words or failure
        state["under_way"].remove(name)
        state["without"] = model.server.left_out()
        _write(folder, state)
        if not answered and wanted:
            raise ModelRefusedRequest(f"{model.url} answered no question of a batch: {failure}")
    if not wanted:
        return _left(left, model) if left else None
    questions = dict(_questions(agent, tasks))
    names: list[str] = []
    for start in range(0, len(questions), _AT_ONCE):
        part = dict(list(questions.items())[start : start + _AT_ONCE])
        name = model.server.talk(desk.submit, model, part)
        if not isinstance(name, str) or not name:
            raise ModelError(f"{model.url} gave the batch no name; resume the run to try again")
        names.append(name)
        state["under_way"].append(name)
        _write(folder, state)
    if not names:
        return None
    return (
        f"{len(questions)} questions are with {model.url} ({', '.join(names)}), at half the price:"
        " get the answers with --resume"
    )


def _left(names: Sequence[str], model: OpenAIModel) -> str:
    return (
        f"not done at {model.url}: {', '.join(names)}. What they were asked is asked again now, one by one; cancel"
        " them there, or they are to be paid for as well"
    )


def _questions(agent: Agent, tasks: Sequence[Task]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What has no reply yet; a task in which nothing can be asked is played for what it is."""
    for task in tasks:
        try:
            next(agent.play(task))
        except Unanswered as question:
            yield question.key, question.body
        except (StopIteration, NoAnswer, BudgetSpent):
            continue


def _lines(texts: Sequence[str], desk: _Desk, model: OpenAIModel) -> Iterator[_Line]:
    for line in "\n".join(texts).splitlines():
        try:
            data = intake.parsed(line, model.server.endpoint.secrets)
        except ValueError:
            continue  # a damaged line: its question is asked again
        if isinstance(data, dict):
            yield desk.line(data)


def _read(folder: Path) -> dict[str, list[str]]:
    try:
        data = json.loads((folder / "state.json").read_text("utf-8"))
    except FileNotFoundError:
        data = {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'state.json'} cannot be read: {error}") from error
    return {name: list(data.get(name, ())) for name in ("under_way", "without")}


def _write(folder: Path, state: Mapping[str, list[str]]) -> None:
    scratch = folder / "state.json.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps(state), "utf-8")
        os.replace(scratch, folder / "state.json")  # noqa: PTH105 - the old one or the new one, never half
    except OSError as error:
        raise StoreError(
            f"{scratch} cannot be written ({error.strerror}), and the server has"
            f" {', '.join(state['under_way']) or 'no batch'}: make room, then resume the run"
        ) from error


# --- OpenAI's ---------------------------------------------------------------------------------


def _submit_file(client: Any, model: OpenAIModel, questions: Questions) -> object:
    path = f"/v1{model.server.api.path}"
    lines = (
        {"custom_id": key, "method": "POST", "url": path, "body": body}
        for key, body in questions.items()
    )
    data = "\n".join(map(json.dumps, lines)).encode()
    file = client.files.create(file=("questions.jsonl", data), purpose="batch")
    body = {"input_file_id": file.id, "endpoint": path, "completion_window": "24h"}
    return client.post("/batches", body=body, cast_to=object).get("id")


def _look_at_files(client: Any, name: str) -> tuple[str, list[str] | None]:
    batch = client.get(f"/batches/{name}", cast_to=object)
    word = str(batch.get("status"))
    if word not in ("completed", "failed", "expired", "cancelled"):
        return word, None
    errors = (batch.get("errors") or {}).get("data") or ()
    said = "; ".join(str(each.get("message")) for each in errors[:3])
    files = [batch[each] for each in ("output_file_id", "error_file_id") if batch.get(each)]
    texts = [client.get(f"/files/{file}/content", cast_to=str) for file in files]
    return f"{word}: {said}" if said else word, texts


def _line_of_file(data: Mapping[str, Any]) -> _Line:
    response = data.get("response") or {}
    status, body = response.get("status_code"), response.get("body")
    if not isinstance(status, int) or not isinstance(body, dict):
        status, body = 500, {"error": data.get("error")}
    return _Line(str(data.get("custom_id")), status, body)


# --- Anthropic's ------------------------------------------------------------------------------

_BATCHES = "/v1/messages/batches"


def _submit_requests(client: Any, _: OpenAIModel, questions: Questions) -> object:
    requests = [{"custom_id": key, "params": body} for key, body in questions.items()]
    return client.post(_BATCHES, body={"requests": requests}, cast_to=object).get("id")


def _look_at_results(client: Any, name: str) -> tuple[str, list[str] | None]:
    word = str(client.get(f"{_BATCHES}/{name}", cast_to=object).get("processing_status"))
    if word != "ended":
        return word, None
    return word, [client.get(f"{_BATCHES}/{name}/results", cast_to=str)]


def _line_of_result(data: Mapping[str, Any]) -> _Line:
    result = data.get("result") or {}
    key, message = str(data.get("custom_id")), result.get("message")
    if result.get("type") == "succeeded" and isinstance(message, dict):
        return _Line(key, 200, message)
    return _Line(key, 400, result.get("error") or {"error": {"message": str(result.get("type"))}})


# --- Google's ---------------------------------------------------------------------------------

_LONGEST_MS = 600_000  # for each request, as in the other two libraries
_ENDED = ("succeeded", "partially_succeeded", "failed", "cancelled", "expired")


def _submit_upload(client: Any, model: OpenAIModel, questions: Questions) -> object:
    name = next(iter(questions.values()))["model"]  # one for all, and part of the address
    lines = (
        {"key": key, "request": {field: body[field] for field in body if field != "model"}}
        for key, body in questions.items()
    )
    data = io.BytesIO("\n".join(map(json.dumps, lines)).encode())
    # Files are taken at an address beside the API's own: upload/v1beta, where that is v1beta.
    root, _, version = model.server.endpoint.base_url.rpartition("/")
    there = {"base_url": root, "api_version": version, "timeout": _LONGEST_MS}
    file = client.files.upload(
        file=data, config={"mime_type": "application/jsonl", "http_options": there}
    )
    within = {"display_name": "rcb", "http_options": {"timeout": _LONGEST_MS}}
    return client.batches.create(model=name, src=file.name, config=within).name


def _look_at_job(client: Any, name: str) -> tuple[str, list[str] | None]:
    within = {"http_options": {"timeout": _LONGEST_MS}}
    job = client.batches.get(name=name, config=within)
    word = str(job.state and job.state.value).removeprefix("JOB_STATE_").lower()
    if word not in _ENDED:
        return word, None
    if not (job.dest and job.dest.file_name):
        return word, []
    return word, [client.files.download(file=job.dest.file_name, config=within).decode()]


def _line_of_response(data: Mapping[str, Any]) -> _Line:
    key, response = str(data.get("key")), data.get("response")
    if isinstance(response, dict):
        return _Line(key, 200, response)
    return _Line(key, 400, {"error": data.get("error") or "no response"})


_FILES = _Desk(_submit_file, _look_at_files, _line_of_file)
_DESKS: Mapping[str, _Desk] = {
    "chat": _FILES,
    "responses": _FILES,
    "anthropic": _Desk(_submit_requests, _look_at_results, _line_of_result),
    "google": _Desk(_submit_upload, _look_at_job, _line_of_response),
}
