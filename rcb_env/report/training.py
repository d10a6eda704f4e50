"""Runs as training data: conversations in OpenAI's chat format, with tool calls and masks.

Three forms, each a row for each
    sft         solved episode: ``messages`` and ``mask``
    preference  pair of a solved and a failed episode that were set the same task: ``prompt``,
                ``chosen``, ``rejected``
    rl          episode: ``messages``, ``mask``, and ``rewards`` of any declared reward

The messages are those of `rcb_env.wrappers.ChatMessages`, so a model is trained on what it will be
shown. ``mask`` and ``rewards`` have one number for each message: 1 where the model wrote it, and what
its step earned. ``tools`` is the JSON text of the schemas. Files are JSON Lines, or Parquet with the
package pyarrow; `datasets` of Hugging Face reads both.

Guarantees: the order of the run, one pass, memory that does not grow with it (of pairs, only their
places are held). `read_rows` gives back equal rows from both kinds of file; the rows of "rl" have every
finished episode, so scores from them are the run's, and `rcb grade` takes such a file as it is. An
"infra_error" says nothing about a model: its mask is 0 throughout.
Not covered: the prompts of agents that make the calls for their model, whose rows hold the assignment
and the calls (`Exported.without_prompts` names them); tokens and chat templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

from rcb_env.env.actions import tool_schemas
from rcb_env.env.rewards import RewardSpec, rewards_of
from rcb_env.errors import StoreError, UsageError, unknown
from rcb_env.report.scoring import Planned
from rcb_env.report.summary import plan_of
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import INFRA, RunStore
from rcb_env.wrappers.chat import SYSTEM, assistant
from rcb_env.wrappers.layer import left

Form = Literal["sft", "preference", "rl"]
FORMS: tuple[Form, ...] = get_args(Form)
Row = dict[str, Any]

_ABOUT = ("challenge", "paper", "sample", "seed", "agent", "model", "status", "lines")
_ROWS_AT_ONCE = 256  # of a row group in Parquet


@dataclass
class Exported:
    """What an export did."""

    rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> number of episodes that gave no row."""
    without_prompts: set[str] = field(default_factory=set)
    """Agents that made the calls for their model: what they asked it is not in the rows."""

    def without(self, reason: str) -> None:
        """Count an episode that gives no row."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def export(
    runs: Sequence[str | Path],
    form: Form,
    path: str | Path,
    *,
    reward: RewardSpec | None = None,
    force: bool = False,
) -> Exported:
    """Write runs as training data. The file is there whole or, if no episode gives a row, not at all.

    Args:
        runs: run directories.
        form: one of `FORMS`.
        path: ends with .jsonl or .parquet.
        reward: what steps earn; None: `rewards.sparse`.
        force: whether an older file is replaced.

    Raises:
        UsageError: the form or the kind of file is unknown, the file is there, or pyarrow is missing.
        StoreError: a run cannot be read, or the file cannot be written.
    """
    if form not in FORMS:
        raise unknown("format", str(form), FORMS)
    path = Path(path)
    writer = _writer(path, form)  # before any work: it may be that there is no pyarrow
    if path.exists() and not force:
        raise UsageError(f"{path} is there already: add --force, or choose another --out")
    stores = [RunStore.open(run) for run in runs]
    made = Exported()
    rows = rows_of(stores, form, reward=reward, made=made)
    scratch = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writer(scratch) as out:
            for row in rows:
                out.write(row)
                made.rows += 1
        if made.rows:
            scratch.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return made


def rows_of(
    stores: Iterable[RunStore],
    form: Form,
    *,
    reward: RewardSpec | None = None,
    made: Exported | None = None,
) -> Iterator[Row]:
    """The rows of `export`, one at a time.

    Args:
        stores: runs open for reading.
        form: one of `FORMS`.
        reward: what steps earn; None: `rewards.sparse`.
        made: where episodes without a row are counted.
    """
    counted = made if made is not None else Exported()
    spec = reward or RewardSpec()
    if form == "preference":
        yield from _pairs(list(stores), spec, counted)
        return
    for store in stores:
        run = _Run(store, counted)
        for line in store.latest():
            row = run.row(line, spec)
            if form == "rl":
                yield row
            elif row["status"] != "passed":
                counted.without("not solved")
            elif not any(row["mask"]):
                counted.without("no steps")
            else:
                yield row


# --- one run ----------------------------------------------------------------------------------


class _Run:
    """Rows of the episodes of a run."""

    def __init__(self, store: RunStore, made: Exported) -> None:
        self._store = store
        self._made = made
        config = store.record.get("config", {})
        self._max_steps = int(config.get("max_steps") or 0)
        self._max_test_runs = int(config.get("max_test_runs") or 0)
        self._own_lines = {outcome.challenge: outcome.own_lines for outcome in plan_of(store)}
        self._name = store.folder.resolve().name

    def row(self, line: Mapping[str, Any], spec: RewardSpec) -> Row:
        """A whole episode."""
        episode = line["episode"]
        start, steps = self._records(line)
        earned = rewards_of(
            spec, steps, lines=int(episode["lines"]), verdict=episode.get("verdict")
        )
        if any(step["unasked"] for step in steps):
            self._made.without_prompts.add(_clean(episode["agent"]))
        trained = episode["status"] != INFRA
        messages = self._opening(start) if start else []
        mask, rewards = [0] * len(messages), [0.0] * len(messages)
        for message, reward in self._turns(steps, earned):
            messages.append(message)
            mask.append(int(trained and message["role"] == "assistant"))
            rewards.append(reward)
        return {
            "run": self._name,
            **{name: _clean(episode.get(name)) for name in _ABOUT},
            "own_lines": self._own_lines.get(episode["challenge"]),
            "content_hash": episode["content_hash"],
            "code": _clean(episode["code"]),
            "messages": messages,
            "mask": mask,
            "rewards": rewards,
            "reward": sum(rewards),
            "tools": json.dumps(tool_schemas()),
        }

    def task(self, line: Mapping[str, Any]) -> str:
        """What an episode was set, as a text: equal for equal tasks."""
        start, _ = self._records(line, steps=False)
        return json.dumps(
            [line["episode"]["content_hash"], self._opening(start) if start else None]
        )

    def _opening(self, start: Mapping[str, Any]) -> list[dict[str, Any]]:
        budget = {"steps_left": self._max_steps, "test_runs_left": self._max_test_runs}
        told = f"{_clean(start['text'])}\n\n{left(budget)}"
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": told}]

    def _records(
        self, line: Mapping[str, Any], *, steps: bool = True
    ) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        start: dict[str, Any] | None = None
        found: list[dict[str, Any]] = []
        reply: Mapping[str, Any] = {}
        for record in JsonLines(self._store.folder / line["trajectory"]).read():
            if record.get("kind") == "start" and "text" in record:
                start = record
                if not steps:
                    break
            elif record.get("kind") == "model_call":
                reply = record.get("reply") or {}
            elif record.get("kind") == "step":
                # Where a model calls tools itself, its words stand beside the first call; where an
                # agent makes the calls, they belong to another conversation.
                own = bool(reply.get("tool_calls")) or not _called(record["action"])
                said = reply.get("text") or "" if own else ""
                found.append({**record, "said": said, "unasked": bool(reply) and not own})
                reply = {}
        # An older run, or one that only graded, has nothing that a conversation could begin with.
        return start, found if start else []

    def _turns(
        self, steps: Sequence[Mapping[str, Any]], rewards: Sequence[float]
    ) -> Iterator[tuple[dict[str, Any], float]]:
        tests_left = self._max_test_runs
        for number, (step, reward) in enumerate(zip(steps, rewards, strict=True)):
            action = step["action"]
            called = _called(action)
            tests_left -= called and action["tool"] == "run_tests" and not step["error"]
            budget = {
                "steps_left": self._max_steps - number - 1,
                "test_runs_left": tests_left,
            }
            told = f"{_clean(step['text'])}\n\n{left(budget)}"
            if called:
                arguments = action.get("arguments")
                call = {
                    "tool": _clean(action["tool"]),
                    "arguments": arguments if isinstance(arguments, Mapping) else {},
                }
                id = f"call_{number}"
                yield assistant(call, id=id, content=_clean(step["said"])), reward
                yield {"role": "tool", "tool_call_id": id, "content": told}, 0.0
            else:
                written = step["said"] or (action if isinstance(action, str) else "")
                yield {"role": "assistant", "content": _clean(written)}, reward
                yield {"role": "user", "content": told}, 0.0


def _called(action: object) -> bool:
    """Whether an action names a tool, be it one that exists or not."""
    return (
        isinstance(action, Mapping) and isinstance(action.get("tool"), str) and action["tool"] != ""
    )


# --- pairs ------------------------------------------------------------------------------------


def _pairs(stores: Sequence[RunStore], spec: RewardSpec, made: Exported) -> Iterator[Row]:
    """Solved against failed, task by task; the shorter list is gone through again and again."""
    runs = [_Run(store, made) for store in stores]
    places: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for number, store in enumerate(stores):
        for offset in store.offsets().values():
            line = store.at(offset)
            episode = line["episode"]
            if episode["status"] == INFRA or not episode.get("steps"):
                made.without("infra_error" if episode["status"] == INFRA else "no steps")
                continue
            solved, failed = places.setdefault(runs[number].task(line), ([], []))
            (solved if episode["status"] == "passed" else failed).append((number, offset))
    for solved, failed in places.values():
        if not (solved and failed):
            for _ in (*solved, *failed):
                made.without("all solved" if solved else "none solved")
            continue
        for index in range(max(len(solved), len(failed))):
            chosen, rejected = (
                runs[number].row(stores[number].at(offset), spec)
                for number, offset in (solved[index % len(solved)], failed[index % len(failed)])
            )
            if not (any(chosen["mask"]) and any(rejected["mask"])):
                made.without("no steps")
                continue
            yield _pair(chosen, rejected)


def _pair(chosen: Row, rejected: Row) -> Row:
    sides = {"chosen": chosen, "rejected": rejected}
    row: Row = {name: chosen[name] for name in ("challenge", "paper", "lines", "content_hash")}
    row["prompt"] = chosen["messages"][:2]
    for side, one in sides.items():
        row[side] = one["messages"][2:]
    for side, one in sides.items():
        for name in ("run", "sample", "agent", "model", "status", "code", "reward"):
            row[f"{side}_{name}"] = one[name]
    row["tools"] = chosen["tools"]
    return row


# --- files ------------------------------------------------------------------------------------


def read_rows(path: str | Path) -> Iterator[Row]:
    """The rows of an exported file, of either kind.

    Raises:
        UsageError: the kind of file is unknown, or pyarrow is missing.
        StoreError: it cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise StoreError(f"{path}: no such file")
    if path.suffix == ".jsonl":
        yield from JsonLines(path).read()
    elif path.suffix == ".parquet":
        for batch in _parquet().ParquetFile(path).iter_batches(batch_size=_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                yield {name: _without_nulls(value) for name, value in row.items()}
    else:
        raise _unknown_kind(path)


def outcomes(rows: Iterable[Mapping[str, Any]]) -> list[Planned]:
    """What rows of the form "rl" say about a run, for `rcb_env.report.scoring.score`."""
    names = ("challenge", "paper", "lines", "sample", "status", "own_lines")
    return [Planned(**{name: row[name] for name in names}) for row in rows]


class _JsonLinesWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="ascii")

    def write(self, row: Row) -> None:
        self._file.write(json.dumps(row) + "\n")

    def __enter__(self) -> _JsonLinesWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


class _ParquetWriter:
    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._writer = _parquet().ParquetWriter(path, schema)
        self._rows: list[Row] = []

    def write(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        import pyarrow

        self._writer.write_table(pyarrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows.clear()

    def __enter__(self) -> _ParquetWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._rows:
            self._flush()
        self._writer.close()


def _writer(path: Path, form: Form) -> Callable[[Path], _JsonLinesWriter | _ParquetWriter]:
    if path.suffix == ".jsonl":
        return _JsonLinesWriter
    if path.suffix == ".parquet":
        _parquet()
        schema = _schema(form)
        return lambda scratch: _ParquetWriter(scratch, schema)
    raise _unknown_kind(path)


def _unknown_kind(path: Path) -> UsageError:
    return UsageError(f"{path}: the name must end with .jsonl or .parquet")


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            "Parquet needs the package pyarrow: install rcb-env[parquet], or choose .jsonl"
        ) from error
    return pyarrow.parquet


def _schema(form: Form) -> Any:
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    function = pa.struct([("name", text), ("arguments", text)])
    call = pa.struct([("id", text), ("type", text), ("function", function)])
    message = pa.struct(
        [
            ("role", text),
            ("content", text),
            ("tool_calls", pa.list_(call)),
            ("tool_call_id", text),
        ]
    )
    messages = pa.list_(message)
    kinds = {
        "sample": whole,
        "seed": whole,
        "lines": whole,
        "own_lines": whole,
        "reward": real,
        "messages": messages,
        "prompt": messages,
        "chosen": messages,
        "rejected": messages,
        "mask": pa.list_(whole),
        "rewards": pa.list_(real),
    }
    if form == "preference":
        names = ["challenge", "paper", "lines", "content_hash", "prompt", "chosen", "rejected"]
        about = ("run", "sample", "agent", "model", "status", "code", "reward")
        names += [f"{side}_{name}" for side in ("chosen", "rejected") for name in about]
        names.append("tools")
    else:
        names = ["run", *_ABOUT, "own_lines", "content_hash", "code", "messages", "mask"]
        names += ["rewards", "reward", "tools"]
    return pa.schema(
        [(name, kinds.get(name) or kinds.get(name.partition("_")[2], text)) for name in names]
    )


def _without_nulls(value: Any) -> Any:
    """Messages without the keys that Parquet adds to make all of them alike."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _clean(value: Any) -> Any:
    """A text that UTF-8 can carry; a model may have written half a character."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
