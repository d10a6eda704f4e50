"""Run directories: whole lines or none, one writer, exact resume; C071, C073, C076, C078."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rcb_env.errors import StoreError
from rcb_env.runs.durable import JsonLines
from rcb_env.runs.store import RunStore
from rcb_env.runs.stored import EpisodeKey
from tests.made_runs import FILE, episode, key_of, plan_of

CONFIG = {"agent": "single-shot", "model": {"name": "m", "temperature": 0}, "seed": 0}
FILES = {"A/update": "a.py", "A/update-2": "a.py", "A/update-3": "b.py", "B/update": "a.py"}
PLAN = plan_of(
    dict.fromkeys(["DyT/forward", *FILES, *(f"P/{n}" for n in range(4))], 1),
    samples=range(20),
    files=FILES,
)


def key(region: str = "DyT/forward", sample: int = 0) -> EpisodeKey:
    return key_of(CONFIG, region, sample, file=FILES.get(region, FILE))


def finish(store: RunStore, which: EpisodeKey, status: str = "passed", **more: object) -> None:
    with store.trajectory(which) as trajectory:
        trajectory.record("step", {"n": 1})
    made = episode(which.region, status, sample=which.sample, file=which.file, **more)
    store.append(which, made, trajectory)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.create(tmp_path / "run", {"config": CONFIG, "plan": PLAN}) as made:
        yield made


def run_python(
    code: str, *arguments: str | Path | int, preexec_fn: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    """A fresh interpreter, since locks, limits and kills are things of processes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec_fn,
    )


def test_a_finished_episode_comes_back_as_it_was_stored(store: RunStore) -> None:
    finish(store, key(), error="é \u2207 \ud800 \u2028 line", wall_s=0.25)
    (line,) = RunStore.open(store.folder).latest()
    assert line["episode"]["error"] == "é \u2207 \ud800 \u2028 line"
    assert line["episode"]["wall_s"] == 0.25
    assert line["attempt"] == 1
    steps = list(JsonLines(store.folder / line["trajectory"]).read())
    assert steps == [{"kind": "step", "n": 1}]


def test_only_missing_and_infra_episodes_are_open_after_a_resume(store: RunStore) -> None:
    """Case C071: trouble of the machine was stored as a 0, so no resume looked at it again.

    Episodes that infrastructure lost run again, and only they: a time-out is the model's.
    """
    states = ["passed", "failed", "timeout", "infra_error", "invalid", "infra_error", "infra_error"]
    keys = [key(sample=i) for i in range(8)]
    for one, state in zip(keys, states, strict=False):
        finish(store, one, state, error="No space left on device" if state == "infra_error" else "")
    store.close()
    with RunStore.resume(store.folder, CONFIG) as again:
        todo = [one for one in keys if one.id not in again.finished()]
        assert todo == [keys[3], keys[5], keys[6], keys[7]]
        finish(again, keys[3], "passed")
        assert keys[3].id in again.finished()
        latest = {line["key"]: line for line in again.latest()}
        assert latest[keys[3].id]["episode"]["status"] == "passed"
        assert latest[keys[3].id]["attempt"] == 2
        assert latest[keys[5].id]["episode"]["error"] == "No space left on device"
        assert sum(1 for _ in again.lines()) == 8


@pytest.mark.parametrize(
    "damage", ["", "null\n", "[]\n", "42\n", "{}\n", '{"key": "k", "episode": null}\n', "\0\0\n"]
)
def test_a_missing_empty_or_null_result_counts_as_missing_and_is_named(
    store: RunStore, damage: str
) -> None:
    """Case C071: a result file that was missing, empty, or held null was read as a failed test."""
    path = store.folder / "episodes.jsonl"
    assert list(RunStore.open(store.folder).latest()) == []
    path.write_text(damage, encoding="utf-8")
    finish(store, key())
    reader = RunStore.open(store.folder)
    assert [line["key"] for line in reader.latest()] == [key().id]
    assert reader.finished() == {key().id}
    assert len(reader.problems) == (1 if damage else 0)
    assert all("episodes.jsonl" in problem for problem in reader.problems)


def test_samples_of_one_prompt_and_regions_of_one_hint_have_their_own_slots(
    store: RunStore,
) -> None:
    """Case C073: work was matched by prompt text, so samples two and three were "already done"."""
    keys = [key(region, sample) for region in FILES for sample in range(3)]
    assert len({one.id for one in keys}) == 12
    for one in keys[:4]:  # killed after the first sample of the second region
        finish(store, one)
    store.close()
    with RunStore.resume(store.folder, CONFIG) as again:
        for one in keys:
            if one.id not in again.finished():
                finish(again, one)
        stored = [line["key"] for line in again.lines()]
        assert sorted(stored) == sorted(one.id for one in keys)
        assert len({line["trajectory"] for line in again.lines()}) == 12


@pytest.mark.parametrize("field", ["paper", "file", "agent", "model", "settings"])
def test_every_part_of_the_key_tells_episodes_apart(field: str) -> None:
    """Case C073: a model or a setting left out of the key hands one model's results to another."""
    changes: dict[str, Any] = {field: "other"}
    assert key().id != replace(key(), **changes).id


def test_trajectories_of_odd_names_never_share_a_file(store: RunStore) -> None:
    names = ["P/a b", "P/a_b", "P/a/b", "P/../a", "P/" + "x" * 300, "P/" + "x" * 301, "../../etc/x"]
    paths = set()
    for name in names:
        with store.trajectory(key(name)) as trajectory:
            paths.add(trajectory.path.resolve())
    assert len(paths) == len(names)
    root = (store.folder / "trajectories").resolve()
    assert all(path.is_relative_to(root) for path in paths)


APPENDER = """
import sys
from pathlib import Path
from typing import Any
from rcb_env.runs.durable import JsonLines
lines = JsonLines(Path(sys.argv[1]))
for number in range(50):
    lines.append({"writer": int(sys.argv[2]), "number": number, "text": "x" * 300_000})
"""


def test_six_processes_append_large_records_while_a_reader_reports(tmp_path: Path) -> None:
    """Case C076: large appends of several processes interleaved and a reader saw half a file."""
    path = tmp_path / "episodes.jsonl"
    writers = [run_python(APPENDER, path, number) for number in range(6)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        count = sum(len(record["text"]) == 300_000 for record in JsonLines(path).read())
        assert count >= seen
        seen = count
    for writer in writers:
        assert writer.communicate()[1] == ""
        assert writer.returncode == 0
    pairs = [(record["writer"], record["number"]) for record in JsonLines(path).read()]
    assert len(pairs) == 300
    assert set(pairs) == {(writer, number) for writer in range(6) for number in range(50)}


def test_threads_of_one_run_append_whole_lines(store: RunStore) -> None:
    def work(thread: int) -> None:
        for number in range(20):
            finish(store, key(f"P/{thread}", number), code="y" * 10_000)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.latest())) == 80


def test_a_second_writer_is_refused_and_a_reader_is_not(store: RunStore) -> None:
    """Case C076: two runs on one folder mixed their results. The second is told who is first."""
    with pytest.raises(StoreError, match=f"being written by process {os.getpid()}") as refused:
        RunStore.resume(store.folder, CONFIG)
    assert "\n" not in str(refused.value)
    with pytest.raises(StoreError, match="already holds a run"):
        RunStore.create(store.folder, {"config": CONFIG})
    reader = RunStore.open(store.folder)
    finish(store, key())
    assert len(list(reader.latest())) == 1
    with pytest.raises(StoreError, match="reading only"):
        reader.trajectory(key())
    store.close()
    RunStore.resume(store.folder, CONFIG).close()


def test_of_two_starters_on_one_new_folder_one_wins(tmp_path: Path) -> None:
    """Case C076: both starters may see an empty folder; only one may make it a run."""
    code = """
import sys, time
from rcb_env.runs.store import RunStore
from rcb_env.errors import StoreError
while not __import__("os").path.exists(sys.argv[2]): time.sleep(0.001)
try:
    store = RunStore.create(sys.argv[1], {"config": {}})
except StoreError as error:
    print("refused", error)
else:
    print("won"); time.sleep(1)
"""
    starters = [run_python(code, tmp_path / "run", tmp_path / "go") for _ in range(4)]
    time.sleep(0.5)
    (tmp_path / "go").touch()
    said = sorted(starter.communicate()[0].split()[0] for starter in starters)
    assert said == ["refused", "refused", "refused", "won"]


KILLED = """
import os, signal, sys
from rcb_env.runs.store import RunStore
from tests.made_runs import episode, key_of, plan_of
plan = plan_of({"P/0": 1, "P/1": 1})
store = RunStore.create(sys.argv[1], {"config": {"seed": 0}, "plan": plan})
def key(n): return key_of({"seed": 0}, f"P/{n}")
def play(n, stop_at):
    with store.trajectory(key(n)) as trajectory:
        for step in range(1, 7):
            trajectory.record("step", {"step": step, "tokens": 10})
            if step == stop_at: os.kill(os.getpid(), signal.SIGKILL)
    store.append(key(n), episode(f"P/{n}", steps=6), trajectory)
play(0, None)
play(1, 4)
"""


def test_steps_and_totals_survive_a_kill(tmp_path: Path) -> None:
    """Case C078: a trajectory written only at the end left nothing; totals restarted from zero."""
    folder = tmp_path / "run"
    process = run_python(KILLED, folder)
    assert process.wait() == -9
    process.communicate()
    keys = [key_of({"seed": 0}, f"P/{n}") for n in range(2)]
    left = list(JsonLines(folder / "trajectories/P/1.0.jsonl").read())
    assert [record["step"] for record in left] == [1, 2, 3, 4]
    with RunStore.resume(folder, {"seed": 0}) as again:
        assert again.finished() == {keys[0].id}
        with again.trajectory(keys[1]) as trajectory:
            for step in range(1, 7):
                trajectory.record("step", {"step": step, "tokens": 10})
        again.append(keys[1], episode("P/1", steps=6), trajectory)
        lines = list(again.latest())
    assert sum(line["episode"]["steps"] for line in lines) == 12
    # The visible mark of repeated work; the killed attempt's steps are still there to read.
    assert [line["attempt"] for line in lines] == [1, 2]
    assert len(list(JsonLines(folder / "trajectories/P/1.0.jsonl").read())) == 4


def test_a_torn_last_line_is_ignored_by_readers_and_cut_by_the_next_writer(
    store: RunStore,
) -> None:
    finish(store, key(sample=0))
    finish(store, key(sample=1))
    store.close()
    path = store.folder / "episodes.jsonl"
    whole = path.read_bytes()
    for keep in (1, 40, len(whole.splitlines()[1])):
        torn = whole[: len(whole.splitlines(keepends=True)[0]) + keep]
        path.write_bytes(torn)
        assert RunStore.open(store.folder).finished() == {key(sample=0).id}
        with RunStore.resume(store.folder, CONFIG) as again:
            (problem,) = again.problems
            assert f"({keep} bytes)" in problem
            finish(again, key(sample=1))
            assert len(list(again.latest())) == 2


def test_a_line_torn_by_another_process_is_never_glued_to_the_next(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "e.jsonl")
    lines.append({"n": 1})
    with lines.path.open("ab") as file:
        file.write(b'{"n": 2, "text": "' + b"z" * 200_000)
    assert lines.append({"n": 3}) == 200_018
    assert list(lines.read()) == [{"n": 1}, {"n": 3}]


def test_another_config_is_refused_and_the_keys_are_named(store: RunStore) -> None:
    finish(store, key())
    store.close()
    changed = {"agent": "single-shot", "model": {"name": "m", "temperature": 0.7}, "samples": 3}
    with pytest.raises(StoreError) as refused:
        RunStore.resume(store.folder, changed)
    message = str(refused.value)
    assert "model.temperature was 0 and is now 0.7" in message
    assert "samples was null and is now 3" in message
    assert "seed was 0 and is now null" in message
    assert "agent" not in message
    assert "\n" not in message
    RunStore.resume(store.folder, {**CONFIG}).close()  # the refusal let go of the lock


def test_tuples_and_lists_in_a_config_are_the_same(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "r", {"config": {"papers": ("a", "b")}}).close()
    RunStore.resume(tmp_path / "r", {"papers": ("a", "b")}).close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no run.json"),
        ("{", "not a JSON object"),
        ("null", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"format": 1, "plan": [1]}', "damaged: plan"),
        ('{"format": 1, "config": "x"}', "damaged: config"),
        ('{"format": 99}', "not of format 1"),
    ],
)
def test_a_folder_without_a_sound_run_is_refused_in_one_line(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=reason) as refused:
        RunStore.open(tmp_path)
    assert "\n" not in str(refused.value)
    with pytest.raises(StoreError, match=reason):
        RunStore.resume(tmp_path, {})


def test_a_folder_with_other_files_is_not_made_a_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StoreError, match=r"not empty \(it holds thesis.tex\)"):
        RunStore.create(tmp_path, {})


def test_a_start_that_was_killed_early_does_not_block_the_folder(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("999999\n", encoding="ascii")
    (tmp_path / ".unfinished.999999").write_text("{", encoding="ascii")
    RunStore.create(tmp_path, {"config": {}}).close()


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write .*--out"):
        RunStore.create(tmp_path / "file" / "run", {})


FULL = """
import sys
from pathlib import Path
from typing import Any
from rcb_env.errors import StoreError
from rcb_env.runs.store import RunStore
from tests.made_runs import episode, key_of, plan_of
plan = plan_of({"P/a": 1}, samples=range(100))
store = RunStore.create(sys.argv[1], {"config": {}, "plan": plan})
for sample in range(100):
    key = key_of({}, "P/a", sample)
    try:
        with store.trajectory(key) as trajectory:
            trajectory.record("step", {"text": "x" * 100})
        store.append(key, episode("P/a", sample=sample, code="x" * 9000), trajectory)
    except StoreError as error:
        print(sample, error)
        break
"""


def test_a_write_the_disk_cuts_short_leaves_no_half_line(tmp_path: Path) -> None:
    """A size limit in the middle of a line does what a full disk does: part of it is written."""
    folder = tmp_path / "run"
    process = run_python(
        FULL,
        folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    said, errors = process.communicate()
    assert errors == ""
    count, message = said.split(" ", 1)
    assert count == "5"
    assert message.startswith(f"cannot write {folder}/episodes.jsonl: File too large")
    assert message.count("\n") == 1
    assert (folder / "episodes.jsonl").read_bytes().endswith(b"}\n")
    with RunStore.resume(folder, {}) as again:
        assert again.problems == []
        assert len(again.finished()) == 5


def test_a_full_disk_is_one_clear_line() -> None:
    with pytest.raises(StoreError, match="No space left on device; free some space") as refused:
        JsonLines(Path("/dev/full")).append({"n": 1})
    assert "\n" not in str(refused.value)


def test_run_json_holds_the_record_as_plain_json(store: RunStore) -> None:
    record = json.loads((store.folder / "run.json").read_text(encoding="utf-8"))
    assert record["config"] == CONFIG
    assert RunStore.open(store.folder).record == record
