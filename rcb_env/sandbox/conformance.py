"""What every kind of box must do, whoever makes it, tried on real ones: `rcb doctor --conformance NAME`.

A check runs a few lines of Python in a box and looks at what comes back.
Not covered: attacks on a box and on grading, which the exploit tests try, and how quick a box is.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rcb_env.errors import BoxDied, blame
from rcb_env.sandbox.box import Limits
from rcb_env.sandbox.trial import (
    Differs,
    NotTried,
    Trial,
    answer,
    error,
    execute,
    expect,
    sleeps,
    wait_until,
)

_COUNT = "return len([p for p in os.listdir('/proc') if p.isdigit()])"


@dataclass(frozen=True)
class Result:
    """How a check ended."""

    check: str
    outcome: Literal["ok", "differs", "not tried"]
    found: str = ""


Check = Callable[[Trial], None]
CHECKS: dict[str, Check] = {}
"""Every check, by what it says of a box."""


def conform(sandbox: str) -> Iterator[Result]:
    """Try every check on boxes of one kind, one after the other.

    Raises:
        SandboxUnavailable: such boxes cannot be made here.
    """
    with contextlib.closing(Trial(sandbox)) as trial:
        for name in CHECKS:
            yield check(name, trial)


def check(name: str, trial: Trial) -> Result:
    """Try one check."""
    try:
        CHECKS[name](trial)
    except NotTried as why:
        return Result(name, "not tried", str(why))
    except (Differs, BoxDied) as found:
        return Result(name, "differs", str(found))
    except Exception as error:  # noqa: BLE001 (of a maker that is somebody else's)
        return Result(name, "differs", blame(error))
    return Result(name, "ok")


def _check(function: Check) -> Check:
    CHECKS[function.__name__.strip("_").replace("_", " ")] = function
    return function


@_check
def _a_run_gets_its_files_and_no_others(trial: Trial) -> None:
    files = {"src/a.py": b"x = 1\n", "data/deep/b.bin": bytes(range(256))}
    body = """
        found = sorted(os.path.join(d, f) for d, _, fs in os.walk(".") for f in fs)
        return found, open("data/deep/b.bin", "rb").read() == bytes(range(256))
    """
    expect(trial.ask(body, files=files), (["./data/deep/b.bin", "./src/a.py"], True))


@_check
def _the_files_of_a_run_are_its_users_own_and_can_be_edited(trial: Trial) -> None:
    body = """
        made = []
        for name in (".", "src", "src/a.py"):
            status = os.stat(name)
            ours = status.st_uid == os.getuid() and status.st_gid == os.getgid()
            made.append((oct(status.st_mode & 0o777), ours))
        with open("src/a.py", "a") as file:
            file.write("y = 2\\n")
        os.makedirs("out/deep")
        sys.dont_write_bytecode = False
        sys.path.insert(0, "src")
        import a
        return made, a.y, sorted(os.listdir(".")), sorted(os.listdir("src"))
    """
    folder, file = ("0o755", True), ("0o644", True)
    wanted = ([folder, folder, file], 2, ["out", "src"], ["__pycache__", "a.py"])
    files = {"src/a.py": b"x = 1\n"}
    expect(trial.ask(body, files=files), wanted)
    expect(trial.ask("return open('src/a.py').read()", files=files), "x = 1\n")


@_check
def _every_run_reads_the_source_it_was_given(trial: Trial) -> None:
    """An edit of the same length within the same second is not hidden by bytecode of the run before."""
    for value in (1, 2, 1):
        files = {"src/m.py": f"v = {value}\n".encode()}
        expect(trial.ask("return tree.load('m').v", files=files), value)


@_check
def _nothing_of_a_run_is_left_for_the_next(trial: Trial) -> None:
    """Files in folders that are closed, shared memory, processes in sessions of their own."""
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
    look = """
        running = [open(f"/proc/{p}/cmdline").read() for p in os.listdir("/proc") if p.isdigit()]
        return {
            "files": sorted(os.listdir("/work") + os.listdir("/tmp") + os.listdir("/dev/shm")),
            "sleeping": sum("sleep" in words for words in running),
            "shared": len(open("/proc/sysvipc/shm").read().splitlines()) - 1,
            "memory": "LEFT" in os.environ or hasattr(os, "left"),
        }
    """
    expect(trial.ask(leave), 1)
    expect(trial.ask(look), {"files": ["tree"], "sleeping": 0, "shared": 0, "memory": False})


@_check
def _there_is_no_network(trial: Trial) -> None:
    body = """
        names = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else ["lo"]
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=2)
        except OSError:
            return names, "refused"
        return names, "connected"
    """
    expect(trial.ask(body), (["lo"], "refused"))


@_check
def _only_the_temporary_folders_can_be_written(trial: Trial) -> None:
    body = """
        writable = []
        for folder in ("/", "/usr", "/etc", "/home", "/root", "/run", "/var", "/var/tmp", sys.prefix, sys.base_prefix,
                       "/work", "/tmp", "/dev", "/dev/shm"):
            try:
                open(folder + "/probe", "w").close()
            except OSError:
                continue
            writable.append(folder)
        return writable
    """
    expect(trial.ask(body), ["/work", "/tmp", "/dev/shm"])


@_check
def _the_user_is_unprivileged_and_cannot_become_root(trial: Trial) -> None:
    body = """
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        try:
            os.setuid(0)
        except OSError:
            pass
        return os.getuid() != 0, int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"].strip()
    """
    expect(trial.ask(body), (True, 0, 0, "1"))


@_check
def _no_other_process_of_the_box_can_be_read(trial: Trial) -> None:
    body = """
        opened = []
        for pid in os.listdir("/proc"):
            if pid.isdigit() and int(pid) != os.getpid():
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
    expect(trial.ask(body), [])


@_check
def _the_host_cannot_be_seen(trial: Trial) -> None:
    paths = [__file__, sys.prefix + "/pyvenv.cfg", "/etc/shadow", "/proc/1/root/etc/shadow"]
    paths += ["/var/run/docker.sock", "/run/podman/podman.sock"]
    body = f"return [p for p in {paths} if os.access(p, os.R_OK)], os.uname().nodename"
    expect(trial.ask(body), ([], "box"))
    expect(trial.ask("return [k for k in os.environ if 'KEY' in k or 'PROXY' in k.upper()]"), [])


@_check
def _a_run_past_its_time_is_ended_with_all_its_processes(trial: Trial) -> None:
    """Children in sessions of their own that ignore SIGTERM as well; what was printed so far is kept."""
    body = """
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\nwhile True: pass"
        for _ in range(2):
            subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        print("so far", flush=True)
        while True:
            pass
    """
    before = trial.ask(_COUNT)
    run = trial.run(body, Limits(wall_s=1.0))
    expect((run.ended, run.stdout), ("timeout", "so far\n"))
    expect(trial.ask(_COUNT), before)


@_check
def _a_run_stuck_in_c_code_with_all_signals_blocked_is_ended(trial: Trial) -> None:
    body = """
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        ctypes.PyDLL(None).usleep(600_000_000)
    """
    expect(trial.run(body, Limits(wall_s=1.0)).ended, "timeout")


@_check
def _a_process_in_the_background_holds_up_no_answer(trial: Trial) -> None:
    """It has inherited the output and sleeps, after a run that ends as after one that is ended."""
    expect(trial.ask("subprocess.Popen(['sleep', '600'])\nreturn 'passed'"), "passed")
    hangs = "subprocess.Popen(['sleep', '600'])\ntime.sleep(600)"
    expect(trial.run(hangs, Limits(wall_s=1.0)).ended, "timeout")


@_check
def _a_flood_of_output_is_drained_and_its_head_and_tail_are_kept(trial: Trial) -> None:
    body = """
        for stream in (sys.stdout, sys.stderr):
            stream.write("first ")
            for _ in range(50):
                stream.write("x" * 1_000_000)
            stream.write(" last")
        return 7
    """
    run = trial.run(body, Limits(wall_s=60.0))
    expect(answer(run), 7)
    for text in (run.stdout, run.stderr):
        shape = (text[:6], text[-5:], "bytes left out" in text, len(text) < 40_000)
        expect(shape, ("first ", " last", True, True))


@_check
def _an_early_end_is_told_as_it_was(trial: Trial) -> None:
    for how, code in (
        ("os._exit(0)", 0),
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ):
        run = trial.run(how)
        expect((run.ended, run.exit_code, run.result), ("exit", code, b""))
    run = trial.run("os.execv('/bin/echo', ['echo', 'OK'])")
    expect((run.exit_code, run.result, run.stdout), (0, b"", "OK\n"))


@_check
def _too_much_memory_in_one_process_is_refused(trial: Trial) -> None:
    run = trial.run("return len(bytearray(2_000_000_000))")
    expect(run.ended == "memory" or error(run) == "MemoryError", True)


@_check
def _too_much_memory_in_many_processes_ends_the_run(trial: Trial) -> None:
    """Every child stays below the limit of a process; together they pass the limit of the run."""
    body = """
        code = "x = bytearray(60_000_000); import time; time.sleep(30)"
        children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(20)]
        for child in children:
            child.wait()
        return "all lived"
    """
    expect(trial.run(body).ended, "memory")


@_check
def _a_run_killed_for_another_reason_is_not_called_out_of_memory(trial: Trial) -> None:
    """The exit code 137 alone says nothing."""
    body = "subprocess.run(['sh', '-c', 'kill -9 $$'])\nreturn 'passed'"
    expect(trial.ask(body), "passed")


@_check
def _a_fork_bomb_ends_with_its_run(trial: Trial) -> None:
    body = """
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.001)
    """
    expect(trial.run(body, Limits(wall_s=2.0, processes=40)).ended in ("timeout", "memory"), True)
    expect(trial.ask("return 1"), 1)


@_check
def _the_disk_cannot_be_filled(trial: Trial) -> None:
    body = """
        written = 0
        try:
            for number in range(1000):
                with open(f"/tmp/{number}", "wb") as file:
                    written += file.write(bytes(4_000_000))
        except OSError as error:
            return error.strerror, written < 20_000_000
    """
    expect(trial.ask(body), ("No space left on device", True))
    expect(trial.ask("return os.listdir('/tmp')"), [])


@_check
def _a_file_cannot_pass_its_size_limit(trial: Trial) -> None:
    body = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            with open("/tmp/large", "wb") as file:
                file.write(bytes(12_000_000))
        except OSError as error:
            return error.strerror
    """
    expect(trial.ask(body), "File too large")


@_check
def _a_box_whose_zygote_is_killed_dies_and_says_so(trial: Trial) -> None:
    mortal = trial.new_box()
    body = "for p in os.listdir('/proc'):\n    p.isdigit() and 1 < int(p) != os.getpid() and os.kill(int(p), 9)\nreturn 1"
    try:
        execute(mortal, body)
        expect(mortal.clean, False)
    except BoxDied as death:
        expect((death.during_run, death.from_outside), (True, False))
    finally:
        mortal.close()


@_check
def _a_box_that_is_silent_is_given_up_at_the_deadline(trial: Trial) -> None:
    mortal = trial.new_box()
    slow = {"do": "zygote", "name": "slow", "parent": "", "preload": ["torch"]}
    try:
        mortal._ask(slow, (), 0.01)
    except BoxDied:
        return
    finally:
        mortal.close()
    raise Differs("an answer came after its deadline")


@_check
def _a_box_ends_with_its_driver(trial: Trial) -> None:
    """After kill -9 of the driver no process of its box is left, without anybody cleaning up."""
    marker = f"600.{secrets.randbelow(10**9):09}"
    program = "import sys; from rcb_env.sandbox.trial import hold; hold(*sys.argv[1:])"
    driver = subprocess.Popen([sys.executable, "-c", program, trial.sandbox, marker])
    try:
        if not wait_until(lambda: sleeps(marker) or driver.poll() is not None) or not sleeps(
            marker
        ):
            raise NotTried("processes of its boxes cannot be seen from here")
    finally:
        driver.kill()
        driver.wait()
    if not wait_until(lambda: not sleeps(marker)):
        raise Differs("a process of a box outlived the driver")
