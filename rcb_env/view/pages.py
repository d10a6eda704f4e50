"""What each page shows.

Guarantees: a page reads rows of indexes and, of the run itself, at most the episode it is about; so it is as quick with
20,000 episodes as with twenty.
Not covered: addresses (`app.py`); the look (`templates/`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcb_env.errors import StoreError, UsageError
from rcb_env.report.items import FINDINGS
from rcb_env.report.slices import SIZES
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.stored import digest
from rcb_env.view import attempts, items, markup, open_scores, pairs, queries, tasks, texts
from rcb_env.view.catalog import Catalog, Run
from rcb_env.view.live import writer_of
from rcb_env.view.markup import fill
from rcb_env.view.queries import ORDERS, Filter
from rcb_env.view.regions import regions
from rcb_env.view.steps import Step, cases_of, sorted_out, text_of
from rcb_env.view.totals import totals

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
        markup.prepare()
        for run in self.catalog.runs():
            told = time.monotonic()

            def progress(lines: int, name: str = run.name) -> None:
                nonlocal told
                if time.monotonic() - told > _TELL_S:
                    told = time.monotonic()
                    tell(f"reading {name}: {lines} episodes so far")

            with contextlib.suppress(StoreError):  # its pages say so
                run.index.update(progress)
                totals(run)
            tasks.load(run)

    def runs(self, given: Given) -> str:
        """All runs."""
        search = dict(given).get("q", "").strip().lower()
        rows, broken = [], self.catalog.broken()
        for run in self.catalog.runs():
            if search in f"{run.name} {run.label} {run.dataset}".lower():
                try:
                    rows.append({"run": run, "live": writer_of(run.store.folder), **totals(run)})
                except StoreError as error:
                    broken[run.name] = str(error)
        return fill(
            "runs.html",
            version=self.version(),
            rows=rows,
            scored=any(row["score"] is not None for row in rows),
            search=search,
            broken=broken,
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
            playing=attempts.in_play(run, writer),
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
        found = attempts.chosen(run, row, tried, asked.get("attempt"))
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
            **_told(found.verdict, cases_of(found.verdict)),
            timings=_numbers(found.verdict.get("timings")),
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
        pair = pairs.compared(a, b)
        found = pair.comparison
        every_one = [*found.only_a_better, *found.only_b_better]
        first = max(0, _whole(asked.get("from", "0")))
        sides = [
            (challenge, pairs.answer(a, challenge), pairs.answer(b, challenge))
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
            shares = {
                cell.passed / cell.planned if cell.score is None else cell.score
                for cell in cells
                if cell and cell.open < cell.planned
            }
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

    def items(self, given: Given) -> str:
        """How hard each challenge is, and whether it tells strong agents from weak ones."""
        every = self.catalog.runs()
        names = [value for name, value in given if name == "run"]
        runs = [self.catalog.run(name) for name in dict.fromkeys(names)] or every
        asked = dict(given)
        search, finding, order = (asked.get(name, "") for name in ("q", "finding", "order"))
        found = items.analysed(runs) if len(runs) > 1 else None
        fitting = (
            items.chosen(found, search=search.strip(), finding=finding, order=order)
            if found
            else []
        )
        first = max(0, _whole(asked.get("from", "0")))
        link = markup.address(
            "items", run=names, q=search or None, finding=finding or None, order=order or None
        )
        return fill(
            "items.html",
            version=self.version(),
            every=every,
            chosen=[run.name for run in runs],
            found=found,
            rows=fitting[first : first + queries.PAGE * 2],
            run_of=lambda challenge: next(run.name for run in runs if challenge in run.planned),
            count=len(fitting),
            first=first,
            page=queries.PAGE * 2,
            link=link + ("&" if "?" in link else "?"),
            search=search.strip(),
            finding=finding,
            findings=list(FINDINGS),
            meanings=FINDINGS,
            order=order,
            orders=list(items.ORDERS),
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
            path = attempts.trajectory(run, asked.get("trajectory", ""))
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


def _shown(step: Step, states: Mapping[int, tuple[str | None, str | None]]) -> dict[str, Any]:
    before, after = states.get(id(step), (None, None))
    changed = after is not None and after != before
    return {
        "step": step,
        "region": after,
        "diff": texts.difference(before or "", after or "", context=3) if changed else None,
        **_told(step.tests, step.cases),
    }


def _told(holder: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a verdict or feedback says of the tests."""
    return {
        "score": open_scores.score_of(holder),
        "families": open_scores.families(holder, cases),
        "groups": _grouped(open_scores.faults(holder, cases)),
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


def _numbers(value: object) -> dict[str, float]:
    found = value.items() if isinstance(value, Mapping) else ()
    return {str(name): each for name, each in found if isinstance(each, int | float)}


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1
