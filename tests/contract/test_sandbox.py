"""The conformance suite: what every kind of box must do, whoever makes it.

Each test sends a small case into a real box and runs it there. Known differences between makers: a killed driver's
containers are ended at once but removed only when the next `Docker` is made.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_env import cases
from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import BoxDied
from rcb_env.runner import wire
from rcb_env.sandbox import make
from rcb_env.sandbox.box import MIB, Box, BoxSettings, Limits, RunRequest, RunResult
from rcb_env.sandbox.pool import Pool

LIMITS = Limits(wall_s=20.0, memory_bytes=256 * MIB, processes=40, file_size_bytes=8 * MIB)
SETTINGS = BoxSettings(scratch_bytes=16 * MIB)


@pytest.fixture(scope="module")
def shared_box(maker_name: str) -> Iterator[list[Box]]:
    boxes = [new_box(maker_name)]
    yield boxes
    boxes[0].close()


@pytest.fixture
def box(shared_box: list[Box], maker_name: str) -> Box:
    """A box that works: the module's, or a new one when a test before this one ended it."""
    try:
        shared_box[0].ping()
        assert shared_box[0].clean
    except (BoxDied, AssertionError):
        shared_box[0].close()
        shared_box[0] = new_box(maker_name)
    return shared_box[0]


def new_box(maker_name: str) -> Box:
    made = Box(make(maker_name), SETTINGS)
    assert made.zygote("plain", ("numpy",))
    return made


def execute(
    box: Box, body: str, limits: Limits = LIMITS, files: dict[str, bytes] | None = None
) -> RunResult:
    """Run the body of a function in the box; what it returns is read by `answer`."""
    source = "import ctypes, os, signal, socket, subprocess, sys, threading, time\nfrom rcb_env.cases import case\n"
    source += "@case(seeds=1)\ndef probe(tree, rng):\n" + textwrap.indent(
        textwrap.dedent(body), "    "
    )
    sources = wire.pack({"sources": {"tests/cases.py": source}})
    made = box.run("plain", RunRequest("rcb_env.runner.case_run:compiled", sources, limits))
    _, code = wire.unpack(io.BytesIO(made.result).read)
    argument = wire.pack({"file": "src/x.py", "purpose": "final", "paper": "probe"}, code)
    request = RunRequest("rcb_env.runner.case_run:run", argument, limits, files=files or {})
    return box.run("plain", request)


def answer(run: RunResult) -> Any:
    """What the body returned."""
    assert run.ended == "exit"
    assert run.exit_code == 0, run
    stream = io.BytesIO(run.result)
    header, (output,) = wire.unpack(stream.read)
    assert header["error"] is None, header["error"]
    return cases.decode(output)


def own_memory(field: str) -> int:
    """Bytes, from this process's status."""
    rows = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return next(int(row[1]) * 1024 for row in rows if row[0] == field + ":")


def error(run: RunResult) -> str:
    """The type of the exception that ended the body."""
    header, _ = wire.unpack(io.BytesIO(run.result).read)
    return str(header["error"]["type"])


def test_the_files_of_a_run_are_there_and_nothing_else(box: Box) -> None:
    files = {"src/a.py": b"x = 1\n", "data/deep/b.bin": bytes(range(256))}
    found = answer(
        execute(
            box,
            "return sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs)",
            files=files,
        )
    )
    assert found == ["./data/deep/b.bin", "./src/a.py"]


def test_the_files_of_a_run_are_its_users_own_and_of_an_ordinary_kind(box: Box) -> None:
    """Case C028: they can be edited, and what a run writes beside them is gone with it."""
    body = """
        made = []
        for name in (".", "src", "src/a.py"):
            status = os.stat(name)
            ours = status.st_uid == os.getuid() and status.st_gid == os.getgid()
            made.append((oct(status.st_mode & 0o777), ours, abs(time.time() - status.st_mtime) < 60))
        with open("src/a.py", "a") as file:
            file.write("y = 2\\n")
        os.makedirs("out/deep")
        open("out/deep/numbers.txt", "w").close()
        sys.dont_write_bytecode = False
        sys.path.insert(0, "src")
        import a
        return made, a.y, sorted(os.listdir(".")), sorted(os.listdir("src"))
    """
    files = {"src/a.py": b"x = 1\n"}
    folder, file = ("0o755", True, True), ("0o644", True, True)
    assert answer(execute(box, body, files=files)) == (
        [folder, folder, file],
        2,
        ["out", "src"],
        ["__pycache__", "a.py"],
    )
    look = "return [sorted(names + files) for _, names, files in os.walk('.')], open('src/a.py').read()"
    assert answer(execute(box, look, files=files)) == ([["src"], ["a.py"]], "x = 1\n")


def test_nothing_of_a_run_is_left_for_the_next(box: Box) -> None:
    """Case C050, C036: files, processes and shared memory of one run are gone before the next begins."""
    leave = """
        for folder in ("/work", "/work/tree", "/tmp", "/dev/shm"):
            os.makedirs(folder + "/left/deep/deeper", exist_ok=True)
            open(folder + "/left/deep/deeper/file", "w").close()
            for path in ("/left/deep/deeper", "/left/deep", "/left"):
                os.chmod(folder + path, 0)
        ctypes.CDLL(None).shmget(4711, 4096, 0o1666)
        for _ in range(20):
            subprocess.Popen(["sleep", "600"], start_new_session=True)
        os.environ["LEFT"] = "1"
        sys.modules["os"].left = True
        return len(os.listdir("/tmp"))
    """
    assert answer(execute(box, leave)) == 1
    look = """
        running = [open(f"/proc/{p}/cmdline").read() for p in os.listdir("/proc") if p.isdigit()]
        return {
            "files": sorted(os.listdir("/work") + os.listdir("/tmp") + os.listdir("/dev/shm")),
            "sleeping": sum("sleep" in words for words in running),
            "shared": len(open("/proc/sysvipc/shm").read().splitlines()) - 1,
            "memory": "LEFT" in os.environ or hasattr(os, "left"),
        }
    """
    assert answer(execute(box, look)) == {
        "files": ["tree"],
        "sleeping": 0,
        "shared": 0,
        "memory": False,
    }


def test_there_is_no_network(box: Box) -> None:
    body = """
        names = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else ["lo"]
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=2)
        except OSError as error:
            return names, "refused"
        return names, "connected"
    """
    assert answer(execute(box, body)) == (["lo"], "refused")


def test_only_the_scratch_folders_can_be_written(box: Box) -> None:
    body = """
        writable = []
        for folder in ("/", "/usr", "/etc", "/home", "/root", "/var", sys.prefix, sys.base_prefix, "/work", "/tmp", "/dev/shm"):
            try:
                open(folder + "/probe", "w").close()
            except OSError:
                continue
            writable.append(folder)
        return writable
    """
    assert answer(execute(box, body)) == ["/work", "/tmp", "/dev/shm"]


def test_the_user_is_unprivileged_and_cannot_become_root(box: Box) -> None:
    body = """
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        try:
            os.setuid(0)
        except OSError:
            stays = True
        else:
            stays = os.getuid() != 0
        return stays, os.getuid() != 0, int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"].strip()
    """
    assert answer(execute(box, body)) == (True, True, 0, 0, "1")


def test_the_runner_and_the_zygote_cannot_be_read(box: Box) -> None:
    body = """
        opened = []
        for pid in os.listdir("/proc"):
            if pid.isdigit() and int(pid) not in (1, os.getpid()):  # 1: the box's init
                for name in ("mem", "environ", "maps"):
                    try:
                        if open(f"/proc/{pid}/{name}", "rb").read(1):
                            opened.append((pid, name))
                    except OSError:
                        pass
                try:
                    opened.extend((pid, fd) for fd in os.listdir(f"/proc/{pid}/fd"))
                except OSError:
                    pass
        return opened
    """
    assert answer(execute(box, body)) == []


def test_the_host_cannot_be_seen(box: Box) -> None:
    paths = [__file__, "/etc/shadow", "/proc/1/root/etc/shadow", "/var/run/docker.sock"]
    body = f"return [p for p in {paths} if os.access(p, os.R_OK)], os.uname().nodename"
    assert answer(execute(box, body)) == ([], "box")


def test_a_run_past_its_wall_time_is_ended_with_all_its_children(box: Box) -> None:
    """Case C021: a child in its own session that ignores SIGTERM ends with the run; the next run is quick."""
    body = """
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\nwhile True: pass"
        for _ in range(2):
            subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        print("so far", flush=True)
        while True:
            pass
    """
    for _ in range(2):  # a second try does not pile up on the first
        started = time.monotonic()
        run = execute(box, body, Limits(wall_s=1.0))
        assert run.ended == "timeout"
        assert run.stdout == "so far\n"
        assert time.monotonic() - started < 6.0
        look = execute(box, "return len([p for p in os.listdir('/proc') if p.isdigit()])")
        assert answer(look) <= 5
        assert look.wall_s < 1.0


def test_a_run_stuck_in_c_code_with_all_signals_blocked_is_ended(box: Box) -> None:
    body = """
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        ctypes.PyDLL(None).usleep(600_000_000)
    """
    assert execute(box, body, Limits(wall_s=1.0)).ended == "timeout"


def test_a_background_process_does_not_hold_up_the_answer(box: Box) -> None:
    """Case C036: a process that inherited the output and sleeps does not keep a run from ending."""
    body = """
        subprocess.Popen(["sleep", "600"])
        return "passed"
    """
    started = time.monotonic()
    assert answer(execute(box, body)) == "passed"
    assert time.monotonic() - started < 5.0


def test_a_background_process_does_not_hold_up_a_timeout(box: Box) -> None:
    """Case C036: the same when the test itself hangs; neither is there afterwards."""
    body = """
        subprocess.Popen(["sleep", "600"])
        time.sleep(600)
    """
    started = time.monotonic()
    assert execute(box, body, Limits(wall_s=1.0)).ended == "timeout"
    assert time.monotonic() - started < 6.0
    look = "return [p for p in os.listdir('/proc') if p.isdigit() and 'sleep' in open(f'/proc/{p}/cmdline').read()]"
    assert answer(execute(box, look)) == []


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


def test_too_much_memory_in_one_process_is_refused(box: Box) -> None:
    run = execute(box, "return len(bytearray(2_000_000_000))")
    assert run.ended == "memory" or error(run) == "MemoryError"


def test_too_much_memory_in_many_processes_ends_the_run(box: Box) -> None:
    """Case C025: every child stays below the limit of a process; together they pass the limit of the run."""
    body = """
        code = "x = bytearray(60_000_000); import time; time.sleep(30)"
        children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(20)]
        for child in children:
            child.wait()
        return "all lived"
    """
    assert execute(box, body).ended == "memory"


@pytest.fixture
def small_container(docker_only: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """One that the kernel gives less memory than the runner would."""
    monkeypatch.setattr("rcb_env.sandbox.docker._MEMORY_BYTES", 200 * MIB)
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


def test_a_run_that_is_killed_for_another_reason_is_not_called_out_of_memory(box: Box) -> None:
    """Case C025: exit code 137 alone says nothing."""
    run = execute(box, "subprocess.run(['sh', '-c', 'kill -9 $$'])\nreturn 'passed'")
    assert answer(run) == "passed"
    assert execute(box, "time.sleep(60)", Limits(wall_s=0.5)).ended == "timeout"


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
    if hasattr(channel, "_container"):
        from rcb_env.sandbox.engine import engine

        engine().api.kill(channel._container)
    else:
        os.kill(channel.children()[0], signal.SIGKILL)


def test_a_fork_bomb_ends_with_its_run(box: Box) -> None:
    body = """
        def bomb():
            while True:
                try:
                    os.fork()
                except OSError:
                    time.sleep(0.001)
        bomb()
    """
    run = execute(box, body, Limits(wall_s=2.0, memory_bytes=256 * MIB, processes=40))
    assert run.ended in ("timeout", "memory")
    assert answer(execute(box, "return 1")) == 1


def test_the_disk_cannot_be_filled(box: Box) -> None:
    body = """
        written = 0
        try:
            for number in range(1000):
                with open(f"/tmp/{number}", "wb") as file:
                    written += file.write(bytes(4_000_000))
        except OSError as error:
            return error.strerror, written < 20_000_000
    """
    assert answer(execute(box, body)) == ("No space left on device", True)
    assert answer(execute(box, "return os.listdir('/tmp')")) == []


def test_a_file_cannot_pass_its_size_limit(box: Box) -> None:
    body = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            with open("/tmp/large", "wb") as file:
                file.write(bytes(12_000_000))
        except OSError as error:
            return error.strerror
    """
    assert answer(execute(box, body)) == "File too large"


@pytest.mark.parametrize(
    ("how", "code"),
    [("os._exit(0)", 0), ("os._exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
)
def test_an_early_end_is_reported_as_it_was(box: Box, how: str, code: int) -> None:
    run = execute(box, how)
    assert (run.ended, run.exit_code, run.result) == ("exit", code, b"")


def test_a_process_replaced_by_another_program_sends_no_result(box: Box) -> None:
    run = execute(box, "os.execv('/bin/echo', ['echo', 'OK'])")
    assert (run.exit_code, run.result, run.stdout) == (0, b"", "OK\n")


def test_every_run_reads_the_source_it_was_given(box: Box) -> None:
    """Case C038: an edit of the same length within the same second is not hidden by bytecode of the run before."""
    body = "return tree.load('m').v"
    for value in (1, 2, 1):
        assert answer(execute(box, body, files={"src/m.py": f"v = {value}\n".encode()})) == value


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
    "paper.yaml": "id: hidden\ntitle: Hidden\nauthors: [Nobody]\ndomain: none\nlicense: MIT\n"
    "dates: {v1: 2025-01-01}\nannotated: [src/hidden.py]\nimage: cpu\nlimits: {time_s: 5, memory_mb: 512}\n",
    "paper.md": "Multiply.\n",
    "src/hidden.py": HIDDEN,
    "src/hidden.egg-info/SOURCES.txt": "src/hidden.py\n",
    "tests/cases.py": "from rcb_env.cases import case\n",
    "tests/checks.py": "from rcb_env.cases import check\n",
}
PUBLIC_INDEX = "- {id: hidden, title: Hidden, annotated_file_paths: src/hidden.py}\n"
PUBLIC = {
    "paper2code_paper.md": "Multiply.\n",
    "src/hidden.py": HIDDEN,
    "paper2code_test.py": "import unittest\n",
}


def checkout(root: Path, files: dict[str, str]) -> None:
    """Make a folder a checkout with everything packed, a stash of the line, and bytecode."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
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


def test_no_file_in_a_box_holds_the_masked_lines(box: Box, tmp_path: Path) -> None:
    """Case C047: the papers' folders are checkouts with packs and bytecode; of them a box gets the visible tree alone.

    All other files of a public folder are counted in: they go into the box where it is graded.
    """
    since = time.time() - 1.0  # the clock of files may be behind
    checkout(tmp_path / "native" / "hidden", NATIVE)
    checkout(tmp_path / "public" / "hidden", PUBLIC)
    (tmp_path / "public" / "papers.yaml").write_text(PUBLIC_INDEX)
    native = load_dataset(tmp_path / "native" / "hidden").challenges[0]
    public = load_dataset(tmp_path / "public").challenges[0]
    sent = {"native": native.workspace(), "public": {**public.workspace(), **public.paper.tests}}
    assert sent["native"].keys() >= {"src/hidden.py"}
    assert sent["public"].keys() >= {"src/hidden.py", "paper2code_test.py"}
    files = {f"{name}/{path}": data for name in sent for path, data in sent[name].items()}
    assert holders(box, files, since) == []


def test_the_search_for_masked_lines_finds_them(box: Box, tmp_path: Path) -> None:
    """Case C047: were the whole folder in a box, its pack, stash and bytecode would be found."""
    since = time.time() - 1.0
    checkout(tmp_path, NATIVE)
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


def test_a_box_that_is_stopped_is_given_up_at_the_deadline(maker_name: str) -> None:
    mortal = new_box(maker_name)
    with pytest.raises(BoxDied):
        mortal._ask({"do": "run"}, (), 1.0)


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


def test_boxes_die_with_a_driver_that_is_killed(maker_name: str) -> None:
    """Case C026: after kill -9 of the driver no process of its boxes is left, without any clean-up by anybody."""
    program = f"""
import sys, time
from rcb_env.sandbox import make
from rcb_env.sandbox.box import Box, BoxSettings
box = Box(make({maker_name!r}), BoxSettings(scratch_bytes=12345678))
print("up", flush=True)
time.sleep(600)
"""
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"up\n"
    driver.kill()
    driver.wait()
    driver.stdout.close()
    deadline = time.monotonic() + 10
    while _processes_with("12345678"):
        assert time.monotonic() < deadline, "a box outlived its driver"
        time.sleep(0.05)


def _processes_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if text in words and "-c\0\nimport sys, time" not in words:
            found.append(words)
    return found
