"""What each page shows.

Guarantees: a page reads rows of indexes and, of the run itself, at most the episode it is about; so it is as quick with
20,000 episodes as with twenty.
Not covered: addresses (`app.py`); the look (`templates/`).
"""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rcb_env.errors import StoreError, UsageError
from rcb_env.report.comparison import differences
from rcb_env.report.scoring import STATES, Comparison, compare, score
from rcb_env.report.slices import SIZES
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.stored import digest
from rcb_env.view import queries, tasks, texts
from rcb_env.view.catalog import Catalog, Run
from rcb_env.view.live import Writer, writer_of
from rcb_env.view.markup import fill
from rcb_env.view.queries import ORDERS, Filter
from rcb_env.view.regions import regions
from rcb_env.view.steps import Played, Step, cases_of, sorted_out, text_of

_STEPS = 100  # of one page
_MOST_RUNS = 8  # side by side
_TELL_S = 1.0
_DISCORDANT = 50  # challenges of one page

Given = Sequence[tuple[str, str]]


class Pages:
    """The pages of a catalog's runs."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def prepare(self, tell: Callable[[str], None]) -> None:
        """Do now what the first visitor would wait for.

        Args:
            tell: what takes long, line by line.
        """
        for run in self.catalog.runs():
            told = time.monotonic()

            def progress(lines: int, name: str = run.name) -> None:
                nonlocal told
                if time.monotonic() - told > _TELL_S:
                    told = time.monotonic()
                    tell(f"reading {name}: {lines} episodes so far")

            run.index.update(progress)
            totals(run)
            tasks.load(run)

    def runs(self, given: Given) -> str:
        """All runs."""
        search = dict(given).get("q", "").strip().lower()
        rows = []
        for run in self.catalog.runs():
            if search in f"{run.name} {run.label} {run.dataset}".lower():
                rows.append({"run": run, "live": writer_of(run.store.folder), **totals(run)})
        return fill(
            "runs.html",
            version=self.version(),
            rows=rows,
            search=search,
            broken=self.catalog.broken(),
            root=self.catalog.root,
        )

    def run(self, name: str, given: Given) -> str:
        """One run: its numbers, and its episodes."""
        run, wanted = self.catalog.run(name), Filter.of(given)
        with run.index.reading() as db:
            count, rows = queries.episodes(db, wanted)
            choices = {
                name: queries.counts(db, name) for name in ("status", "paper", "error_class")
            }
        pages = max(1, -(-count // queries.PAGE))
        writer = writer_of(run.store.folder)
        return fill(
            "run.html",
            version=self.version(run),
            run=run,
            live=writer,
            playing=_in_play(run, writer),
            totals=totals(run),
            problems=run.index.problems(),
            wanted=wanted,
            count=count,
            rows=rows,
            pages=pages,
            choices=choices,
            sizes=[name for name, _, _ in SIZES],
            orders=ORDERS,
            others=[other for other in self.catalog.runs() if other.name != run.name],
        )

    def episode(self, name: str, given: Given) -> str:
        """One episode, step by step."""
        run, asked, wanted = self.catalog.run(name), dict(given), Filter.of(given)
        challenge, sample = asked.get("challenge", ""), _whole(asked.get("sample", "0"))
        with run.index.reading() as db:
            row = queries.episode(db, challenge, sample)
            if row is None:
                raise UsageError(f"{run.name} plans no sample {sample} of {challenge!r}")
            before, after = queries.neighbours(db, wanted, row["place"])
            tried = queries.attempts(db, row["key"])
        found = _attempt(run, row, tried, asked.get("attempt"))
        played = sorted_out(found.records)
        known = tasks.task(run, challenge)
        first = max(0, _whole(asked.get("from", "0")))
        config = run.store.record.get("config", {})
        done = [step for step in played.steps if step.index is not None]
        states = dict(
            zip(
                (id(step) for step in done),
                regions((step.record for step in done), known.challenge, config),
                strict=False,
            )
        )
        shown = [_shown(step, states) for step in played.steps[first : first + _STEPS]]
        code = found.episode.get("code") or ""
        return fill(
            "episode.html",
            version=self.version(run, found.trajectory),
            run=run,
            row=row,
            found=found,
            episode=found.episode,
            verdict=found.verdict,
            groups=_grouped(cases_of(found.verdict)),
            tried=tried,
            played=played,
            steps=shown,
            first=first,
            more=max(0, len(played.steps) - first - _STEPS),
            page=_STEPS,
            known=known,
            code=code,
            against=texts.difference(known.challenge.reference, code)
            if known.challenge and code
            else None,
            wanted=wanted,
            before=before,
            after=after,
        )

    def challenge(self, name: str, given: Given) -> str:
        """One challenge, and how it went in every run."""
        run, challenge = self.catalog.run(name), dict(given).get("challenge", "")
        known = tasks.task(run, challenge)
        rows = []
        for other in self.catalog.runs():
            if challenge in other.planned:
                query = "SELECT * FROM episode WHERE challenge = ? ORDER BY sample"
                with other.index.reading() as db:
                    rows.append((other, db.execute(query, [challenge]).fetchall()))
        if challenge not in run.planned:
            raise UsageError(f"{run.name} plans no challenge {challenge!r}")
        section = tasks.sections(known.challenge) if known.challenge else None
        return fill(
            "challenge.html",
            version=self.version(),
            run=run,
            challenge=challenge,
            entry=run.planned[challenge],
            known=known,
            section=section,
            rows=rows,
        )

    def compare(self, given: Given) -> str:
        """Two runs: rates, and the challenges that only one of them solved, both answers beside each other."""
        asked = dict(given)
        every = self.catalog.runs()
        if not ("a" in asked and "b" in asked):
            return fill("compare.html", version="", pair=None, every=every, asked=asked)
        a, b = (self.catalog.run(asked[side]) for side in ("a", "b"))
        pair = _compared(a, b)
        found = pair.comparison
        every_one = [*found.only_a_better, *found.only_b_better]
        first = max(0, _whole(asked.get("from", "0")))
        sides = [
            (challenge, _answer(a, challenge), _answer(b, challenge))
            for challenge in every_one[first : first + _DISCORDANT]
        ]
        return fill(
            "compare.html",
            version="",
            pair=pair,
            a=a,
            b=b,
            every=every,
            asked=asked,
            first=first,
            page=_DISCORDANT,
            discordant=[
                (challenge, one, other, texts.side_by_side(one["code"], other["code"]))
                for challenge, one, other in sides
            ],
            count=len(every_one),
            b_better=set(found.only_b_better),
        )

    def matrix(self, given: Given) -> str:
        """Runs by challenge."""
        every = self.catalog.runs()
        names = [value for name, value in given if name == "run"]
        chosen = [self.catalog.run(name) for name in dict.fromkeys(names)] or every[:_MOST_RUNS]
        chosen = chosen[:_MOST_RUNS]
        asked = dict(given)
        columns = []
        for run in chosen:
            with run.index.reading() as db:
                columns.append(queries.by_challenge(db))
        search, only = asked.get("q", "").strip().lower(), asked.get("differ") == "1"
        rows = []
        for challenge in dict.fromkeys(name for column in columns for name in column):
            cells = [column.get(challenge) for column in columns]
            shares = {cell[0] / cell[2] for cell in cells if cell and cell[1] < cell[2]}
            if search in challenge.lower() and not (only and len(shares) < 2):
                rows.append((challenge, cells))
        first = max(0, _whole(asked.get("from", "0")))
        return fill(
            "matrix.html",
            version=self.version(),
            every=every,
            chosen=chosen,
            rows=rows[first : first + queries.PAGE * 2],
            count=len(rows),
            first=first,
            page=queries.PAGE * 2,
            search=asked.get("q", "").strip(),
            only=only,
        )

    def raw(self, name: str, given: Given) -> str:
        """One text of an episode, whole: a record of a trajectory, or a part of it."""
        run, asked = self.catalog.run(name), dict(given)
        if "line" in asked:
            with run.index.reading() as db:
                known = db.execute(
                    "SELECT 1 FROM attempt WHERE offset = ?", [_whole(asked["line"])]
                ).fetchone()
            if known is None:
                raise UsageError(f"{run.name} has no such episode")
            value: Any = run.store.at(_whole(asked["line"]))
        else:
            path = _trajectory(run, asked.get("trajectory", ""))
            number = _whole(asked.get("record", "0"))
            records = JsonLines(path).read(lambda _problem: None)
            value = next((each for n, each in enumerate(records) if n == number), None)
        for step in filter(None, asked.get("part", "").split(".")):
            if isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, Mapping) and step in value:
                value = value[step]
            else:
                raise UsageError(f"there is no {asked['part']!r} in this record")
        return texts.plain(value) if isinstance(value, str) else texts.as_json(value, 10**9).text

    def version(self, run: Run | None = None, trajectory: str = "") -> str:
        """Another text whenever a page about this would show something else."""
        parts = []
        for each in [run] if run else self.catalog.runs():
            writer = writer_of(each.store.folder)
            parts.append(f"{each.index.version()} {writer.trajectories if writer else None}")
            if trajectory and writer and trajectory in writer.trajectories:
                parts.append(str((each.store.folder / trajectory).stat().st_size))
        return digest(parts)


@dataclass(frozen=True)
class Found:
    """One attempt at an episode, as it was stored or as far as it is."""

    trajectory: str
    """Its path in the run's folder, or ""."""
    records: Sequence[Mapping[str, Any]]
    episode: Mapping[str, Any]
    """As stored; empty while it is in play."""
    number: int | None
    offset: int | None
    problems: Sequence[str]

    @property
    def verdict(self) -> Mapping[str, Any]:
        """On the answer, or nothing."""
        verdict = self.episode.get("verdict")
        return verdict if isinstance(verdict, Mapping) else {}

    @property
    def in_play(self) -> bool:
        """Whether it is not stored yet."""
        return not self.episode


@dataclass(frozen=True)
class Pair:
    """Run B against run A."""

    comparison: Comparison
    warnings: tuple[str, ...]
    papers: int


def totals(run: Run) -> dict[str, Any]:
    """A run in a few numbers, from its index."""

    def made(db: sqlite3.Connection) -> dict[str, Any]:
        rows = queries.planned(db)
        if not rows:
            return {"planned": 0, "states": {}, "rate": None, "scaled": None, "sums": {}}
        scored = score(rows, ks=[])
        return {
            "planned": scored.planned,
            "states": dict(scored.states),
            "rate": _plain_rate(scored.pass_rate),
            "scaled": _plain_rate(scored.scaled_pass_rate),
            "sums": queries.sums(db),
        }

    kept: dict[str, Any] = run.index.kept("totals", made)
    finished = kept["planned"] - kept["states"].get("missing", 0)
    states = [(state, kept["states"][state]) for state in STATES if kept["states"].get(state)]
    return {**kept, "finished": finished, "states": states}


def _plain_rate(rate: Any) -> dict[str, Any] | None:
    if rate is None or rate.value is None:
        return None
    interval = [rate.interval.low, rate.interval.high] if rate.interval else None
    return {"value": rate.value, "low": rate.low, "high": rate.high, "interval": interval}


def _compared(a: Run, b: Run) -> Pair:
    return _compared_once(_Same(a, a.index.version()), _Same(b, b.index.version()))


class _Same:
    """A run at one of its versions."""

    def __init__(self, run: Run, version: str) -> None:
        self.run = run
        self._known = (str(run.index.path), version)

    def __hash__(self) -> int:
        return hash(self._known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._known == other._known


@functools.lru_cache(maxsize=32)
def _compared_once(a: _Same, b: _Same) -> Pair:
    rows = []
    for side in (a, b):
        with side.run.index.reading() as db:
            rows.append(queries.planned(db))
    try:
        found = compare(*rows)
    except ValueError as error:
        raise UsageError(f"{a.run.name} and {b.run.name} cannot be compared: {error}") from None
    common = {row.challenge for row in rows[0]} & {row.challenge for row in rows[1]}
    warnings = differences(a.run.store.record, b.run.store.record, common)
    papers = len({row.paper for row in rows[0] if row.challenge in common})
    return Pair(found, (*found.warnings, *warnings), papers)


def _answer(run: Run, challenge: str) -> dict[str, Any]:
    """How a challenge went in a run, with one of the answers: a failed one, if there is any."""
    query = "SELECT * FROM episode WHERE challenge = ? ORDER BY status = 'passed', status = 'missing', sample"
    with run.index.reading() as db:
        rows = db.execute(query, [challenge]).fetchall()
    shown = rows[0]
    code = shown["code"]
    if shown["offset"] is not None and len(code) >= texts.MOST_CHARS:
        code = str(run.store.at(shown["offset"])["episode"].get("code") or "")
    return {"row": shown, "rows": sorted(rows, key=lambda row: int(row["sample"])), "code": code}


def _attempt(run: Run, row: sqlite3.Row, tried: Sequence[sqlite3.Row], asked: str | None) -> Found:
    """The attempt that is asked for: by its number; else the one that counts; else the one in play."""
    chosen = [each for each in tried if str(each["number"]) == asked] if asked else tried
    if asked and not chosen:
        raise UsageError(f"there is no attempt {asked} at {row['challenge']} in {run.name}")
    if chosen:
        line = run.store.at(chosen[-1]["offset"])
        try:
            path = run.store.trajectory_of(line)
        except StoreError as error:
            return Found(
                "", (), line["episode"], line["attempt"], chosen[-1]["offset"], [str(error)]
            )
        problems: list[str] = []
        records = list(JsonLines(path).read(problems.append))
        return Found(
            line["trajectory"],
            records,
            line["episode"],
            line["attempt"],
            chosen[-1]["offset"],
            problems,
        )
    for name, start in _in_play(run, writer_of(run.store.folder)):
        if (start.get("challenge"), start.get("sample")) == (row["challenge"], row["sample"]):
            records = list(JsonLines(_trajectory(run, name)).read(lambda _problem: None))
            return Found(name, records, {}, None, None, ())
    return Found("", (), {}, None, None, ())


def _in_play(run: Run, writer: Writer | None) -> list[tuple[str, Mapping[str, Any]]]:
    """Trajectories that are being written, each with its first record."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for path in writer.trajectories if writer else ():
        start = next(JsonLines(run.store.folder / path).read(lambda _problem: None), None)
        if start is not None and isinstance(start.get("challenge"), str):
            found.append((path, start))
    return found


def _trajectory(run: Run, name: str) -> Any:
    """The file of a trajectory that the run has, by its path there.

    Raises:
        UsageError: it has none of that path.
    """
    with run.index.reading() as db:
        known = db.execute("SELECT 1 FROM attempt WHERE trajectory = ?", [name]).fetchone()
    writer = writer_of(run.store.folder)
    if known is None and not (writer and name in writer.trajectories):
        raise UsageError(f"{run.name} has no such trajectory")
    return run.store.trajectory_of({"trajectory": name, "episode": {"challenge": name}})


def _shown(step: Step, states: Mapping[int, tuple[str | None, str | None]]) -> dict[str, Any]:
    before, after = states.get(id(step), (None, None))
    changed = after is not None and after != before
    return {
        "step": step,
        "region": after,
        "diff": texts.difference(before or "", after or "", context=3) if changed else None,
        "groups": _grouped(step.cases),
    }


def _grouped(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Test cases by name, those that did not pass first, each with its runs."""
    groups: dict[str, dict[str, Any]] = {}
    for case in cases:
        name = text_of(case.get("case"))
        group = groups.setdefault(name, {"name": name, "passed": 0, "total": 0, "told": []})
        group["total"] += 1
        if case.get("outcome") == "passed":
            group["passed"] += 1
        else:
            group["told"].append(case)
    return sorted(groups.values(), key=lambda group: group["passed"] == group["total"])


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


__all__ = ["Pages", "Played", "totals"]
