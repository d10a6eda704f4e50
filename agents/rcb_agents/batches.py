"""Many questions at once through a provider's batch API: sent, left, and collected later at half the price.

`ask_ahead` is called with the tasks that are still to be played, session after session, until every reply is there.
What is under way stands in ``state.json`` of the run's folder for it; replies are in ``replies`` beside it, in the
form of the cache of replies.

Guarantees: a reply is on disk before anything else is asked, and a batch is noted as soon as the server has named it.
What failed or ran out of time is asked again in the next batch, without a parameter that the model has refused; where
a batch answered nothing and taught nothing, its first failure is told instead.
Not covered: agents that ask more than once; Google's batches; a batch whose name got lost on the way here, which is
paid for and asked again.
"""

from __future__ import annotations

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
        submit: sends questions, to be answered at a path; gives the batch's name.
        look: how a batch stands in the server's word, and what came of it once it has ended (None: it has not).
    """

    submit: Callable[[Any, str, Questions], object]
    look: Callable[[Any, str], tuple[str, list[str] | None]]
    line: Callable[[Mapping[str, Any]], _Line]


def ask_ahead(agent: Agent, tasks: Sequence[Task]) -> str | None:
    """Ask what an agent would ask first in each task; all at once, where it has not been asked yet.

    Args:
        agent: asks once in a task.
        tasks: what is to be played; the folder ``batch`` of all is the same.

    Returns:
        What is waited for, in one line; None: every reply is there.

    Raises:
        UsageError: the model has no batch API.
        ModelError: the server takes no batch, or answered none of its questions.
    """
    if not tasks or tasks[0].batch is None:
        return None
    model = open_model(tasks[0])
    if not isinstance(model, OpenAIModel) or model.api not in _DESKS:
        raise UsageError(
            "--batch needs a batch API, as OpenAI's and Anthropic's models have one: leave it out"
        )
    folder, desk = tasks[0].batch, _DESKS[model.api]
    state = _read(folder)
    model.leave_out(state["without"])
    for name in list(state["under_way"]):
        word, lines = model.talk(desk.look, name)
        if lines is None:
            return (
                f"the batch {name} at {model.url} is not done ({word}): go on later with --resume"
            )
        answered, failure = 0, f"the batch {name} ended as {word}"
        for line in _lines(lines, desk, model):
            if line.status == 200 and model.keep(line.key, line.body):
                answered += 1
            elif line.status != 200:
                learnt, words = model.learn(line.status, line.body)
                answered += learnt
                failure = words or failure
        state["under_way"].remove(name)
        state["without"] = model.left_out()
        _write(folder, state)
        if not answered:
            raise ModelRefusedRequest(f"{model.url} answered nothing of a batch: {failure}")
    questions = dict(_questions(agent, tasks))
    names: list[str] = []
    for start in range(0, len(questions), _AT_ONCE):
        part = dict(list(questions.items())[start : start + _AT_ONCE])
        name = model.talk(desk.submit, model.path, part)
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
            data = intake.parsed(line, model.secrets)
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


def _submit_file(client: Any, path: str, questions: Questions) -> object:
    lines = (
        {"custom_id": key, "method": "POST", "url": f"/v1{path}", "body": body}
        for key, body in questions.items()
    )
    data = "\n".join(map(json.dumps, lines)).encode()
    file = client.files.create(file=("questions.jsonl", data), purpose="batch")
    body = {"input_file_id": file.id, "endpoint": f"/v1{path}", "completion_window": "24h"}
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


def _submit_requests(client: Any, path: str, questions: Questions) -> object:  # noqa: ARG001
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


_FILES = _Desk(_submit_file, _look_at_files, _line_of_file)
_DESKS: Mapping[str, _Desk] = {
    "chat": _FILES,
    "responses": _FILES,
    "anthropic": _Desk(_submit_requests, _look_at_results, _line_of_result),
}
