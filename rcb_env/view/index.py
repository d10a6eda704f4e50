"""A run's episodes in a table of their own, so that pages find, filter and count them without reading the run.

The table is an SQLite file in the user's cache, one for each run folder. It has a row for every planned episode, finished or
not, and is brought up to date before it is read: only lines that were appended since are read, so a page of a run with
20,000 episodes costs milliseconds.

Guarantees:
- A row says what the line that counts says; lines that are damaged or of another run count as missing and are named in
  `problems`, as `rcb_env.runs.store` does.
- An index whose run was replaced, made shorter, or has another line where the last one was read, is made anew, and so is one
  that is damaged. Deleting one loses nothing.
- Several processes may use one index at once.
Not covered: a run that was edited in place before its last line; the steps of an episode, which are read from its trajectory when they are shown.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError
from rcb_env.report.summary import unreported
from rcb_env.runs.durable import parsed
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import Plan, digest, keys, wrong_line
from rcb_env.view.cache import index_path
from rcb_env.view.open_scores import score_of

_VERSION = 2
"""Of the tables; an index of another version is left alone."""
_LINES_AT_ONCE = 500
_WAIT_S = 60.0  # for another process that brings the index up to date
_MESSAGE_CHARS = 300
_CODE_CHARS = 20_000  # of an answer that can be searched
_NOTHING = " is missing: no episode has finished, or it was not copied"

_TABLES = """
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE problem (text TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE attempt (
    key TEXT NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL, trajectory TEXT NOT NULL, status TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX attempt_of ON attempt (key);
CREATE INDEX attempt_at ON attempt (trajectory);
CREATE TABLE episode (
    place INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    challenge TEXT NOT NULL,
    paper TEXT NOT NULL,
    file TEXT NOT NULL,
    sample INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    own_lines INTEGER,
    status TEXT NOT NULL DEFAULT 'missing',
    error_class TEXT NOT NULL DEFAULT '',
    end_reason TEXT NOT NULL DEFAULT '',
    evidence TEXT NOT NULL DEFAULT '',
    score REAL,
    steps INTEGER,
    test_runs INTEGER,
    calls INTEGER,
    tokens INTEGER,
    cost REAL,
    wall_s REAL,
    message TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    offset INTEGER,
    stored INTEGER
);
CREATE INDEX episode_of ON episode (challenge, sample);
CREATE INDEX episode_status ON episode (status);
"""

_STATE = {"run", "lines", "bytes", "last", "inode", "tail"}
_FILLED = (
    "status",
    "error_class",
    "end_reason",
    "evidence",
    "score",
    "steps",
    "test_runs",
    "calls",
    "tokens",
    "cost",
    "wall_s",
    "message",
    "code",
    "offset",
    "stored",
)
_ATTEMPT = "INSERT INTO attempt VALUES (:key, :attempt, :offset, :trajectory, :status, :message)"
_FILL = f"UPDATE episode SET {', '.join(f'{name} = :{name}' for name in _FILLED)} WHERE key = :key"


class Index:
    """The index of one run."""

    def __init__(self, store: RunStore, *, cache: Path | None = None) -> None:
        """Nothing is read before the first `update`.

        Args:
            store: the run, open for reading.
            cache: the folder of all indexes; None: the user's, or a temporary one where that cannot be written.
        """
        self.store = store
        self.episodes = store.folder / "episodes.jsonl"
        place = store.folder.resolve()
        self.path = index_path(f"{digest(str(place))}-v{_VERSION}", cache)
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None  # the file as it was when last read
        self._plan: Plan | None = None

    def update(self, progress: Callable[[int], None] | None = None) -> None:
        """Read what was appended since the last time.

        Args:
            progress: told how many lines were read so far, now and then.

        Raises:
            StoreError: the run cannot be read.
        """
        with self._lock:
            there = self._file()
            if there == self._seen and self.path.exists():
                return
            try:
                self._bring_up_to_date(there, progress)
            except sqlite3.OperationalError as error:
                raise StoreError(
                    f"cannot write the index {self.path}: {error}; free some space, or name another folder with"
                    " XDG_CACHE_HOME"
                ) from error
            except sqlite3.DatabaseError:  # the file is no index, or damaged
                self.path.unlink(missing_ok=True)
                self._bring_up_to_date(there, progress)
            self._seen = there

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for some queries, up to date; rows are read by the names of columns."""
        self.update()
        with contextlib.closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as db:
            db.row_factory = sqlite3.Row
            yield db

    def version(self) -> str:
        """Another text whenever the index holds something else."""
        with self.reading() as db:
            return _state(db).get("digest", "")

    def problems(self) -> list[str]:
        """What was found damaged in the run, one line each."""
        with self.reading() as db:
            return [row["text"] for row in db.execute("SELECT text FROM problem")]

    def kept(self, name: str, make: Callable[[sqlite3.Connection], Any]) -> Any:
        """A value that is made of the index once for each of its versions: JSON-like."""
        with self.reading() as db:
            state = _state(db)
            before = json.loads(state.get(f"kept {name}", "[null]"))
            if before[0] == state["digest"]:
                return before[1]
            made = make(db)
            with contextlib.suppress(sqlite3.OperationalError), db:
                _set(db, f"kept {name}", json.dumps([state["digest"], made]))
            return made

    # --- bringing it up to date -------------------------------------------------------------------

    def _file(self) -> tuple[int, int, int]:
        try:
            there = self.episodes.stat()
        except FileNotFoundError:
            return (0, 0, 0)
        return (there.st_ino, there.st_size, there.st_mtime_ns)

    def _bring_up_to_date(
        self, there: tuple[int, int, int], progress: Callable[[int], None] | None
    ) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(
            sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)
        ) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = OFF")  # it can be made anew
            db.execute("BEGIN IMMEDIATE")
            try:
                state = _state(db) if _has_tables(db) else {}
                if not self._goes_on(state, there):
                    self._begin(db)
                    state = _state(db)
                self._append(db, state, there, progress)
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

    def _goes_on(self, state: Mapping[str, str], there: tuple[int, int, int]) -> bool:
        """Whether the run's file is the one that was read, and only grew."""
        if not state.keys() >= _STATE or state["run"] != self._run_digest:
            return False
        read, last = int(state["bytes"]), int(state["last"])
        if there[1] < read:
            return False
        return self._tail(last, read) == state["tail"] and (
            read == 0 or str(there[0]) == state["inode"]
        )

    def _begin(self, db: sqlite3.Connection) -> None:
        for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            db.execute(f'DROP TABLE "{row[0]}"')
        for statement in filter(str.strip, _TABLES.split(";")):
            db.execute(statement)
        record = self.store.record
        key = keys(record.get("config", {}))
        db.executemany(
            "INSERT OR IGNORE INTO episode (key, challenge, paper, file, sample, lines, own_lines)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    key(entry["paper"], entry["file"], entry["challenge"], sample).id,
                    *(entry[name] for name in ("challenge", "paper", "file")),
                    sample,
                    entry["lines"],
                    entry.get("own_lines"),
                )
                for entry in record.get("plan", ())
                for sample in entry["samples"]
            ),
        )
        values = {
            "run": self._run_digest,
            "lines": "0",
            "bytes": "0",
            "last": "0",
            "inode": "0",
            "tail": "",
        }
        for name, value in values.items():
            _set(db, name, value)

    def _append(
        self,
        db: sqlite3.Connection,
        state: Mapping[str, str],
        there: tuple[int, int, int],
        progress: Callable[[int], None] | None,
    ) -> None:
        """Read on from where the last reader stopped; what was not written whole is left for the next."""
        number, read, last = (int(state[name]) for name in ("lines", "bytes", "last"))
        problems: list[str] = []
        if there == (0, 0, 0):
            problems.append(f"{self.episodes}{_NOTHING}")
        else:
            db.execute("DELETE FROM problem WHERE text LIKE ?", (f"%{_NOTHING}",))
            for batch in self._batches(read):
                rows = []
                for offset, line in batch:
                    number, read, last = number + 1, offset + len(line), offset
                    try:
                        rows.append(_row(self._sound(line), offset, number))
                    except ValueError as reason:
                        problems.append(f"{self.episodes}:{number}: {reason}")
                db.executemany(_ATTEMPT, rows)
                db.executemany(_FILL, rows)
                if progress:
                    progress(number)
        db.executemany("INSERT OR IGNORE INTO problem VALUES (?)", ((each,) for each in problems))
        made = {"lines": str(number), "bytes": str(read), "last": str(last), "inode": str(there[0])}
        made["tail"] = self._tail(last, read)
        made["digest"] = digest([state["run"], made])
        for name, value in made.items():
            _set(db, name, value)

    def _batches(self, read: int) -> Iterator[list[tuple[int, bytes]]]:
        """Whole lines from an offset on, each with its own."""

        def lines() -> Iterator[tuple[int, bytes]]:
            offset = read
            with self.episodes.open("rb") as file:
                file.seek(offset)
                for line in file:
                    if not line.endswith(b"\n"):  # its writer is not done, or was killed
                        return
                    yield offset, line
                    offset += len(line)

        try:
            rest = lines()
            while batch := list(itertools.islice(rest, _LINES_AT_ONCE)):
                yield batch
        except OSError as error:
            raise StoreError(f"cannot read {self.episodes}: {error.strerror}") from error

    def _sound(self, text: bytes) -> Mapping[str, Any]:
        """The line, if it is sound and of this run.

        Raises:
            ValueError: it is not; says why.
        """
        line = parsed(text)
        if not isinstance(line, dict):
            raise ValueError("not a JSON object, so it counts as missing")
        if self._plan is None:
            self._plan = Plan(self.store.record)
        reason = wrong_line(line) or self._plan.stranger(line)
        if reason is not None:
            raise ValueError(f"counts as missing: {reason}")
        return line

    def _tail(self, start: int, end: int) -> str:
        """A digest of the line that was read last, to know the file again."""
        if end == 0:
            return ""
        try:
            with self.episodes.open("rb") as file:
                file.seek(start)
                return hashlib.sha256(file.read(end - start)).hexdigest()[:16]
        except OSError:
            return "unreadable"

    @functools.cached_property
    def _run_digest(self) -> str:
        record = self.store.record
        return digest([record.get("config", {}), record.get("created_at"), record.get("plan", ())])


def _row(line: Mapping[str, Any], offset: int, number: int) -> dict[str, Any]:
    episode = line["episode"]
    verdict, usage = episode["verdict"] or {}, episode["usage"]
    unknown = unreported(usage)
    message = str(episode.get("error") or verdict.get("message") or "")
    return {
        "key": line["key"],
        "attempt": line.get("attempt", 1),
        "trajectory": _text(line["trajectory"]),
        "status": episode["status"],
        "error_class": _text(verdict.get("error_class") or ""),
        "end_reason": _text(episode["end_reason"]),
        "evidence": verdict.get("evidence") or "",
        "score": score.counted if (score := score_of(verdict)) else None,
        "steps": episode["steps"],
        "test_runs": episode["test_runs"],
        "calls": None if unknown else usage.get("calls", 0),
        "tokens": None
        if unknown
        else usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0),
        "cost": usage.get("cost_usd", 0.0),
        "wall_s": episode["wall_s"],
        "message": _text(message[:_MESSAGE_CHARS]),
        "code": _text(episode["code"][:_CODE_CHARS]),
        "offset": offset,
        "stored": number,
    }


def _text(text: object) -> str:
    """A text that SQLite can hold: half a character is written as an escape."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _has_tables(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone() is not None


def _state(db: sqlite3.Connection) -> dict[str, str]:
    return {row[0]: row[1] for row in db.execute("SELECT name, value FROM state")}


def _set(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))
