"""Every kind of box does what every box must (`rcb_env.sandbox.conformance`), and what only some of them can.

Each test sends a small case into a real box and runs it there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import BoxDied
from rcb_env.runner import wire
from rcb_env.sandbox import make
from rcb_env.sandbox.box import MIB, Box, BoxSettings, Limits, RunRequest
from rcb_env.sandbox.conformance import CHECKS, check
from rcb_env.sandbox.podman import PodmanChannel
from rcb_env.sandbox.podman_command import podman
from rcb_env.sandbox.pool import Pool
from rcb_env.sandbox.trial import LIMITS, SETTINGS, Trial, answer, execute


@pytest.fixture(scope="module")
def trial(maker_name: str) -> Iterator[Trial]:
    with contextlib.closing(Trial(maker_name)) as made:
        yield made


@pytest.fixture
def box(trial: Trial) -> Box:
    """A box that works: the module's, or a new one when a test before this one ended it."""
    return trial.box()


def new_box(maker_name: str) -> Box:
    return Trial(maker_name).new_box()


@pytest.mark.parametrize("name", CHECKS)
def test_a_box_does_what_every_box_must(trial: Trial, name: str) -> None:
    """Cases C021, C023, C025, C026, C028, C036, C038, C050."""
    result = check(name, trial)
    if result.outcome == "not tried":
        pytest.skip(result.found)
    assert result.outcome == "ok", result.found


def own_memory(field: str) -> int:
    """Bytes, from this process's status."""
    rows = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return next(int(row[1]) * 1024 for row in rows if row[0] == field + ":")


def test_the_clients_own_time_out_decides_nothing(
    docker_only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C030: a test that is silent for longer than the engine's client waits for an answer passes."""
    from rcb_env.sandbox import engine

    monkeypatch.setattr(engine, "_TIMEOUT_S", 1)
    with monkeypatch.context() as own:
        own.setattr(engine, "_clients", lambda clients={}: clients)
        quiet = new_box(docker_only)
        try:
            assert answer(execute(quiet, "time.sleep(3)\nreturn 'passed'")) == "passed"
        finally:
            quiet.close()
            engine.engine().close()


def test_a_flood_of_output_is_drained_and_its_head_and_tail_kept(box: Box) -> None:
    """Case C023: 300 MB on stdout and on stderr change nothing but the text that is kept."""
    body = """
        for stream in (sys.stdout, sys.stderr):
            stream.write("first ")
            for _ in range(300):
                stream.write("x" * 1_000_000)
            stream.write(" last")
        return 7
    """
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = own_memory("VmRSS")
    run = execute(box, body, Limits(wall_s=60.0))
    assert own_memory("VmHWM") - before < 64 * MIB
    assert answer(run) == 7
    for text in (run.stdout, run.stderr):
        assert text.startswith("first ")
        assert text.endswith(" last")
        assert "bytes left out" in text
        assert len(text) < 40_000


@pytest.fixture
def small_container(docker_only: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """One that the kernel gives less memory than the runner would."""
    monkeypatch.setattr("rcb_env.sandbox.docker.BOX_MEMORY_BYTES", 200 * MIB)
    small = new_box(docker_only)
    yield small
    small.close()


def test_a_child_that_the_kernel_ends_for_memory_ends_the_run(small_container: Box) -> None:
    """Case C025: the parent swallows it and answers as if nothing had happened; that is no pass."""
    body = """
        code = "x = bytearray(1_000_000_000)"
        child = subprocess.run([sys.executable, "-c", code])
        return child.returncode
    """
    run = execute(small_container, body, Limits(wall_s=20.0, memory_bytes=3000 * MIB))
    assert run.ended == "memory"
    assert answer(execute(small_container, "return 'works still'")) == "works still"


def test_a_container_whose_first_process_the_kernel_ends_is_out_of_memory(
    small_container: Box,
) -> None:
    """Case C025: here the runner itself takes the memory."""
    files = {f"{number}.bin": bytes(10 * MIB) for number in range(30)}
    with pytest.raises(BoxDied) as death:
        execute(small_container, "return 1", Limits(wall_s=90.0), files=files)
    assert death.value.out_of_memory
    assert not death.value.from_outside


def test_a_container_gets_as_many_processors_as_it_has_threads_and_one(docker_only: str) -> None:
    """However many processes its code starts, the rest of a larger machine stays free."""
    from rcb_env.sandbox.engine import engine

    made = Box(make(docker_only), BoxSettings(threads=3))
    channel: Any = made._channel
    limits = engine().api.inspect_container(channel._container)["HostConfig"]
    made.close()
    assert limits["CpuQuota"] / limits["CpuPeriod"] == 4.0


def test_a_box_that_is_killed_from_outside_says_so(maker_name: str) -> None:
    mortal = new_box(maker_name)
    channel: Any = mortal._channel
    threading.Timer(0.5, lambda: kill_from_outside(channel)).start()
    with pytest.raises(BoxDied) as death:
        execute(mortal, "time.sleep(20)")
    assert death.value.during_run
    assert death.value.from_outside
    assert not death.value.out_of_memory


def kill_from_outside(channel: Any) -> None:
    if isinstance(channel, PodmanChannel):
        podman("kill", channel._container)
    elif hasattr(channel, "_container"):
        from rcb_env.sandbox.engine import engine

        engine().api.kill(channel._container)
    else:
        os.kill(channel.children()[0], signal.SIGKILL)


# Every file that is no older than the line it may hold, and whatever is packed in it.
SEARCH = """
    import stat, zlib

    def texts(data):
        yield data
        at = 0 if data[:1] == b"x" else data.find(b"x") if data[:4] == b"PACK" else -1
        while at >= 0:  # a loose object is one stream, a pack has many, and each begins with an x
            try:
                yield zlib.decompressobj().decompress(data[at:], 1_000_000)
            except zlib.error:
                pass
            at = data.find(b"x", at + 1)

    looked, found = 0, set()
    for place in os.listdir("/"):
        if place in ("proc", "sys") or os.path.islink("/" + place):
            continue
        for folder, _, entries in os.walk("/" + place):
            for path in (os.path.join(folder, entry) for entry in entries):
                try:
                    status = os.lstat(path)
                    if status.st_ctime < since or not stat.S_ISREG(status.st_mode):
                        continue
                    with open(path, "rb") as file:
                        held = any(needle in text for text in texts(file.read()))
                except OSError:
                    continue
                looked += 1
                if held or "/.git/" in path or path.endswith(".pyc"):
                    found.add(path)
    return looked, sorted(found)
"""
SECRET = "seven_and_a_quarter = x * 7.25"
HIDDEN = f"""def f(x):
    # <paper2code name="secret">
    {SECRET}
    return seven_and_a_quarter
    # </paper2code name="secret">
"""
NATIVE = {
    "paper.md": "Multiply.\n",
    "src/hidden.py": HIDDEN,
    "src/hidden.egg-info/SOURCES.txt": "src/hidden.py\n",
    "tests/cases.py": "from rcb_env.cases import case\n",
    "tests/checks.py": "from rcb_env.cases import check\n",
}
PUBLIC = {
    "papers.yaml": "- {id: hidden, title: Hidden, annotated_file_paths: src/hidden.py}\n",
    "hidden/paper2code_paper.md": "Multiply.\n",
    "hidden/src/hidden.py": HIDDEN,
    "hidden/paper2code_test.py": "import unittest\n",
}


def checkout(root: Path) -> None:
    """Make a folder a checkout with everything packed, a stash of the line, and bytecode."""
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(root)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    next(root.rglob("*.md")).write_text(SECRET)
    for words in (["stash", "-q"], ["gc", "-q"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(root)], check=True)


def holders(box: Box, files: dict[str, bytes], since: float) -> list[str]:
    """The files in a box that hold the line, or the history or the bytecode of those that do."""
    facts = f"since = {since}\nneedle = bytes.fromhex({SECRET.encode().hex()!r})\n"
    run = execute(box, facts + textwrap.dedent(SEARCH), Limits(wall_s=60.0), files)
    looked, found = answer(run)
    assert looked >= len(files)
    return [str(path) for path in found]


def test_no_file_in_a_box_holds_the_masked_lines(
    box: Box, tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    """Case C047: the papers' folders are checkouts with packs and bytecode; of them a box gets the visible tree alone.

    All other files of a public folder are counted in: they go into the box where it is graded.
    """
    since = time.time() - 1.0  # the clock of files may be behind
    hidden = write_paper(tmp_path / "native" / "hidden", NATIVE)
    checkout(hidden)
    for name, text in PUBLIC.items():
        (tmp_path / "public" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "public" / name).write_text(text)
    checkout(tmp_path / "public" / "hidden")
    native = load_dataset(hidden).challenges[0]
    public = load_dataset(tmp_path / "public").challenges[0]
    sent = {"native": native.workspace(), "public": {**public.workspace(), **public.paper.tests}}
    assert sent["native"].keys() >= {"src/hidden.py"}
    assert sent["public"].keys() >= {"src/hidden.py", "paper2code_test.py"}
    files = {f"{name}/{path}": data for name in sent for path, data in sent[name].items()}
    assert holders(box, files, since) == []


def test_the_search_for_masked_lines_finds_them(
    box: Box, tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    """Case C047: were the whole folder in a box, its pack, stash and bytecode would be found."""
    since = time.time() - 1.0
    checkout(write_paper(tmp_path, NATIVE))
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in paths}
    (pack,) = (path for path in files if path.endswith(".pack"))
    (bytecode,) = (path for path in files if "hidden.cpython" in path)
    # Not for their names alone, and an object that is not packed as well.
    files["renamed"] = files[pack]
    files["loose"] = zlib.compress(b"blob 30\0" + SECRET.encode())
    found = {path.removeprefix("/work/tree/") for path in holders(box, files, since)}
    assert {"src/hidden.py", pack, bytecode, "renamed", "loose"} <= found
    assert "src/hidden.egg-info/SOURCES.txt" not in found


def test_a_box_whose_runner_is_killed_says_so_at_once(maker_name: str) -> None:
    mortal = new_box(maker_name)
    started = time.monotonic()
    with pytest.raises(BoxDied):
        execute(
            mortal,
            "os.kill(os.getppid(), 9)\nfor p in os.listdir('/proc'):\n    p.isdigit() and int(p) > 1 and os.kill(int(p), 9)",
        )
    assert time.monotonic() - started < 5.0


def test_a_pool_replaces_boxes_that_died_and_never_starts_more_than_its_size(
    maker_name: str,
) -> None:
    pool = Pool(make(maker_name), SETTINGS, 2)
    with pool.lease() as first:
        first.close()
        with pytest.raises(BoxDied):
            first.ping()
    together = threading.Barrier(2)

    def use() -> None:
        with pool.lease() as leased:
            together.wait(timeout=30)
            leased.ping()

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pool._all) == 2
    pool.close()
    with pytest.raises(BoxDied), pool.lease():
        pass


def test_a_box_that_has_served_its_number_of_runs_is_replaced(
    maker_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rcb_env.sandbox.pool.RUNS_PER_BOX", 3)
    pool = Pool(make(maker_name), SETTINGS, 1)
    sources = wire.pack({"sources": {}})
    job = RunRequest("rcb_env.runner.case_run:compiled", sources, LIMITS)
    served = []
    for _ in range(4):
        with pool.lease() as leased:
            assert leased.zygote("plain", ())
            assert leased.run("plain", job).exit_code == 0
            served.append(leased)
    old, new = dict.fromkeys(served)
    assert served == [old, old, old, new]
    with pytest.raises(BoxDied):
        old.ping()
    new.ping()
    assert pool._all == {new}
    pool.close()
