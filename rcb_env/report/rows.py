"""Files of rows: JSON Lines, or Parquet with the package pyarrow.

Guarantees: `read_rows` gives back equal rows from both. `datasets` of Hugging Face reads both alike: conversations are lists
of JSON objects there, so a message has the keys it was written with and no others. In Parquet they are Arrow's JSON type,
which other readers show as text.
Not covered: what a row holds (`rcb_env.report.training`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rcb_env.errors import StoreError, UsageError
from rcb_env.runs.durable import JsonLines

Row = dict[str, Any]

ABOUT = ("challenge", "paper", "sample", "seed", "agent", "model", "status", "lines")
"""What a row of one episode takes from it as it is."""
_CONVERSATIONS = frozenset({"messages", "prompt", "chosen", "rejected"})
_ROWS_AT_ONCE = 256  # of a row group in Parquet


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
                for name in _CONVERSATIONS & row.keys():
                    row[name] = [json.loads(message) for message in row[name]]
                yield row
    else:
        raise _unknown_kind(path)


def clean(value: Any) -> Any:
    """The same with texts that UTF-8 can carry; a model may have written half a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {clean(name): clean(item) for name, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


class JsonLinesWriter:
    """Writes rows as JSON Lines."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="ascii")

    def write(self, row: Row) -> None:
        """Write one."""
        self._file.write(json.dumps(row) + "\n")

    def __enter__(self) -> JsonLinesWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


class ParquetWriter:
    """Writes rows as Parquet."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._writer = _parquet().ParquetWriter(path, schema)
        self._rows: list[Row] = []

    def write(self, row: Row) -> None:
        """Write one, some later."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        columns = [self._column(pa, each.name, each.type) for each in self._schema]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._rows.clear()

    def _column(self, pa: Any, name: str, kind: Any) -> Any:
        values = [row[name] for row in self._rows]
        if name not in _CONVERSATIONS:
            return pa.array(values, kind)
        texts = [[json.dumps(message) for message in messages] for messages in values]
        stored = pa.array(texts, pa.list_(pa.string()))
        messages = pa.ExtensionArray.from_storage(kind.value_type, stored.values)
        return pa.ListArray.from_arrays(stored.offsets, messages)

    def __enter__(self) -> ParquetWriter:
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


def writer_of(
    path: Path, form: str, more: Sequence[str] = ()
) -> Callable[[Path], JsonLinesWriter | ParquetWriter]:
    """What writes rows of a form, with more columns than it has by itself, to files of this name's kind.

    Raises:
        UsageError: the kind is unknown, or pyarrow is missing.
    """
    if path.suffix == ".jsonl":
        return JsonLinesWriter
    if path.suffix == ".parquet":
        _parquet()
        schema = _schema(form, more)
        return lambda scratch: ParquetWriter(scratch, schema)
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


def _schema(form: str, more: Sequence[str]) -> Any:
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    messages = pa.list_(pa.json_())
    kinds = {
        "sample": whole,
        "conversation": whole,
        "seed": whole,
        "lines": whole,
        "own_lines": whole,
        "reward": real,
        **dict.fromkeys(_CONVERSATIONS, messages),
        "mask": pa.list_(whole),
        "rewards": pa.list_(real),
        "progress": pa.list_(real),
        "sampled": pa.list_(
            pa.struct(
                [
                    ("prompt_ids", pa.list_(whole)),
                    ("ids", pa.list_(whole)),
                    ("logprobs", pa.list_(real)),
                ]
            )
        ),
        "input_ids": pa.list_(whole),
        "labels": pa.list_(whole),
    }
    if form == "preference":
        names = ["challenge", "paper", "lines", "content_hash", "prompt", "chosen", "rejected"]
        about = ("run", "sample", "agent", "model", "status", "code", "reward")
        names += [f"{side}_{name}" for side in ("chosen", "rejected") for name in about]
        names.append("tools")
    else:
        names = ["run", *ABOUT, "own_lines", "content_hash", "code", "messages", "mask"]
        names += ["rewards", "progress", "sampled", "reward", "tools"]
        names += more
    return pa.schema(
        [(name, kinds.get(name) or kinds.get(name.partition("_")[2], text)) for name in names]
    )
