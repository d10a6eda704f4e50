"""The index of a run: it says what the run says, reads only what is new, and is made anew where the run is another."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.report.scoring import STATES
from rcb_env.report.summary import plan_of as planned_in
from rcb_env.runs.store import RunStore
from rcb_env.view import queries
from rcb_env.view.catalog import Catalog
from rcb_env.view.index import Index
from rcb_env.view.live import writer_of
from rcb_env.view.queries import Filter
from tests.made_runs import finish, plan_of

_LINES = {"A/one": 1, "A/two": 8, "B/three": 5, "B/four": 30}
_RECORD = {"config": {"agent": "a"}, "plan": plan_of(_LINES, samples=(0, 1))}


def states(index: Index) -> dict[str, int]:
    with index.reading() as db:
        return queries.counts(db, "status")


def expected(store: RunStore) -> dict[str, int]:
    found = Counter(line["episode"]["status"] for line in store.latest())
    found["missing"] = len(planned_in(store)) - found.total()
    return {state: count for state, count in found.items() if count}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore.create(tmp_path / "run", _RECORD)


@pytest.fixture
def index(store: RunStore, tmp_path: Path) -> Index:
    return Index(RunStore.open(store.folder), cache=tmp_path / "cache")


def test_it_follows_a_run_that_goes_on(store: RunStore, index: Index) -> None:
    assert states(index) == {"missing": 8}
    versions = [index.version()]
    for number, (challenge, status) in enumerate(
        [("A/one", "passed"), ("A/two", "infra_error"), ("A/two", "failed"), ("B/four", "timeout")]
    ):
        finish(store, challenge, status)
        assert states(index) == expected(store), number
        versions.append(index.version())
    assert len(set(versions)) == len(versions)
    with index.reading() as db:
        row = queries.episode(db, "A/two", 0)
        assert row is not None
        tried = queries.attempts(db, row["key"])
    assert [(each["number"], each["status"]) for each in tried] == [
        (1, "infra_error"),
        (2, "failed"),
    ]
    assert index.store.at(row["offset"])["episode"]["status"] == "failed"
    assert store.folder.joinpath(tried[1]["trajectory"]).is_file()


def test_lines_that_were_read_are_not_read_again(store: RunStore, index: Index) -> None:
    """The first line is spoiled after it was read, at its length: whoever read it again would tell."""
    finish(store, "A/one", "passed")
    finish(store, "A/two", "passed")
    finish(store, "B/three", "passed")
    assert states(index)["passed"] == 3
    episodes = store.folder / "episodes.jsonl"
    whole = episodes.read_bytes()
    with episodes.open("r+b") as file:
        file.write(b"#")
    finish(store, "B/four", "passed")
    assert states(Index(index.store, cache=index.path.parent)) == {"passed": 4, "missing": 4}
    assert index.problems() == []
    index.path.unlink()
    assert states(index) == {"passed": 3, "missing": 5}
    assert len(index.problems()) == 1
    assert len(whole) > 0


def test_what_is_not_whole_yet_is_read_when_it_is(store: RunStore, index: Index) -> None:
    finish(store, "A/one", "passed")
    finish(store, "A/two", "passed")
    episodes = store.folder / "episodes.jsonl"
    whole = episodes.read_bytes()
    for size in range(0, len(whole), 97):
        episodes.write_bytes(whole[:size])
        assert states(index).get("passed", 0) == whole[:size].count(b"\n")
        assert not [each for each in index.problems() if "counts as missing" in each]
    episodes.write_bytes(whole)
    assert states(index)["passed"] == 2


def test_a_run_that_was_rewritten_is_read_anew(
    store: RunStore, index: Index, tmp_path: Path
) -> None:
    finish(store, "A/one", "passed")
    finish(store, "A/two", "passed")
    assert states(index)["passed"] == 2
    episodes = store.folder / "episodes.jsonl"
    first, second = episodes.read_bytes().splitlines(keepends=True)
    episodes.write_bytes(first)
    assert states(index)["passed"] == 1
    episodes.write_bytes(second + first.replace(b'"passed"', b'"failed"'))
    assert states(index) == {"passed": 1, "failed": 1, "missing": 6}
    store.close()
    for path in sorted(store.folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    other = {**_RECORD, "plan": plan_of({"C/new": 3})}
    RunStore.create(store.folder, other).close()
    fresh = Index(RunStore.open(store.folder), cache=tmp_path / "cache")
    assert fresh.path == index.path
    assert states(fresh) == {"missing": 1}


def test_damaged_lines_are_named_as_the_store_names_them(store: RunStore, index: Index) -> None:
    finish(store, "A/one", "passed")
    line = (store.folder / "episodes.jsonl").read_bytes()
    stranger = json.loads(line)
    stranger["key"] = "0" * 16
    with (store.folder / "episodes.jsonl").open("ab") as file:
        file.write(b"[" * 5000 + b"\n\xff\n{}\n" + json.dumps(stranger).encode() + b"\n" + line)
    assert states(index) == {"passed": 1, "missing": 7}
    reader = RunStore.open(store.folder)
    assert len(list(reader.lines())) == 2
    assert index.problems() == sorted(reader.problems)


def test_an_index_that_is_damaged_is_made_anew(store: RunStore, index: Index) -> None:
    finish(store, "A/one", "passed")
    index.path.parent.mkdir(parents=True)
    index.path.write_bytes(b"this is no database" * 1000)
    assert states(index) == {"passed": 1, "missing": 7}


def test_several_readers_bring_it_up_to_date_at_once(store: RunStore, index: Index) -> None:
    for challenge in _LINES:
        finish(store, challenge, "passed")
    found: list[dict[str, int]] = []
    others = [Index(RunStore.open(store.folder), cache=index.path.parent) for _ in range(8)]
    threads = [
        threading.Thread(target=lambda each: found.append(states(each)), args=[each])
        for each in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"passed": 4, "missing": 4}] * 8
    with index.reading() as db:
        assert db.execute("SELECT count(*) FROM attempt").fetchone()[0] == 4


def test_a_run_is_live_as_long_as_its_writer_holds_it(store: RunStore) -> None:
    writer = writer_of(store.folder)
    assert writer is not None
    assert writer.trajectories == ()
    store.close()
    assert writer_of(store.folder) is None  # the lock still names the process, which is alive
    RunStore.resume(store.folder, {"agent": "a"}).close()  # looking took nothing away


_TEXT = st.text(max_size=8)
_GIVEN = st.lists(
    st.tuples(
        st.sampled_from(["q", "state", "paper", "size", "error", "cost", "order", "page", "x"]),
        _TEXT
        | st.sampled_from([*STATES, *queries.ORDERS, "1-2", "21+", "A", "' OR 1 --", "1e999", "0"]),
    ),
    max_size=8,
)


@given(given=_GIVEN)
def test_any_address_is_a_filter_that_comes_back_the_same(given: list[tuple[str, str]]) -> None:
    wanted = Filter.of(given)
    again = Filter.of(urllib.parse.parse_qsl(wanted.query(), keep_blank_values=True))
    assert again.where()[0] == wanted.where()[0]
    assert (again.order, again.page, again.states) == (wanted.order, wanted.page, wanted.states)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([], ["A/one", "A/two", "B/three", "B/four"]),
        ([("state", "failed"), ("state", "timeout")], ["A/two", "B/four"]),
        ([("paper", "A")], ["A/one", "A/two"]),
        ([("size", "6-10")], ["A/two"]),
        ([("size", "21+")], ["B/four"]),
        ([("error", "logic")], ["A/two"]),
        ([("cost", "2")], ["B/three", "B/four"]),
        ([("q", "THREE")], ["B/three"]),
        ([("q", "deep cause")], ["A/two"]),
        ([("q", "%")], []),
        ([("order", "lines")], ["B/four", "A/two", "B/three", "A/one"]),
        ([("order", "newest")], ["B/four", "B/three", "A/two", "A/one"]),
        ([("state", "no such state"), ("order", "no such order")], [*_LINES]),
        ([("paper", "' OR 1 --")], []),
    ],
)
def test_episodes_are_found_by_what_is_asked_of_them(
    tmp_path: Path, given: list[tuple[str, str]], names: list[str]
) -> None:
    record = {**_RECORD, "plan": plan_of(_LINES)}
    ends = {"A/one": "passed", "A/two": "failed", "B/three": "passed", "B/four": "timeout"}
    with RunStore.create(tmp_path / "run", record) as store:
        for cost, (name, status) in enumerate(ends.items()):
            verdict = {"status": status, "cases": [], "notes": []}
            verdict |= {"error_class": "logic", "message": "a deep cause"} if cost == 1 else {}
            usage = {"calls": 1, "cost_usd": float(cost)}
            finish(store, name, status, verdict=verdict, usage=usage)
    index = Index(RunStore.open(tmp_path / "run"), cache=tmp_path / "cache")
    with index.reading() as db:
        wanted = Filter.of(given)
        count, rows = queries.episodes(db, wanted)
        assert [row["challenge"] for row in rows] == names
        assert count == len(names)
        around = [queries.neighbours(db, wanted, row["place"]) for row in rows]
    assert [after["challenge"] for _, after in around if after] == names[1:]
    assert [before["challenge"] for before, _ in around if before] == names[:-1]


def test_runs_are_found_below_a_folder_by_their_paths(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d/e/f", "too/deep/to/be/found", ".hidden/x"):
        RunStore.create(tmp_path / "runs" / name, _RECORD).close()
    catalog = Catalog(tmp_path / "runs", cache=tmp_path / "cache")
    assert sorted(run.name for run in catalog.runs()) == ["a", "b/c", "b/d/e/f"]
