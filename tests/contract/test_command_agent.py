"""Any program as an agent: a small scripted one, started as `rcb run` starts it, and graded in boxes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.settings import AgentSandbox, Budgets, Rules, Shown
from rcb_env.errors import AgentError, UsageError
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import ModelSettings, Task
from rcb_env.play.episode import play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import agent_label, make_agent
from rcb_env.report.trajectory import render

CHALLENGE = "DyT/forward"
SOLVE = """
import os, pathlib, re
path = pathlib.Path(os.environ["RCB_FILE"])
text = path.read_text()
found = re.search(r"[ ]*# TODO: Implement block.*\\n.*\\n", text)
path.write_text(text[:found.start()] + CODE + text[found.end():])
print("edited", path, flush=True)
"""


@pytest.fixture(scope="module")
def challenge() -> Challenge:
    return load_dataset().challenge(CHALLENGE)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader("bubblewrap") as made:
        yield made


class Records:
    def __init__(self) -> None:
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        self.kept.append((kind, json.loads(json.dumps(payload))))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [payload for each, payload in self.kept if each == kind]

    @property
    def output(self) -> str:
        return "".join(record["text"] for record in self.of("output"))


class Player:
    """Plays scripts as agents."""

    def __init__(self, challenge: Challenge, grader: Grader, folder: Path) -> None:
        self.challenge = challenge
        self._grader = grader
        self._folder = folder

    def line(self, script: str, *, solve: bool = False) -> str:
        path = self._folder / "agent.py"
        solving = f"CODE = {self.challenge.reference!r}\n{SOLVE}" if solve else ""
        path.write_text(solving + script)
        return f"{sys.executable} {path}"

    def __call__(
        self,
        script: str = "",
        *,
        solve: bool = False,
        line: str | None = None,
        budgets: Budgets | None = None,
        **task: Any,
    ) -> tuple[Episode, Records]:
        agent = make_agent(f"command:{line or self.line(script, solve=solve)}", model=None)
        records = Records()
        env = ResearchCodeEnv(self.challenge.id, grader=self._grader)
        episode = play_episode(env, agent, Task(self.challenge, **task), records, budgets=budgets)
        assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode
        return episode, records


@pytest.fixture
def play(challenge: Challenge, grader: Grader, tmp_path: Path) -> Player:
    return Player(challenge, grader, tmp_path)


def test_a_program_that_edits_the_file_solves_the_challenge(play: Player) -> None:
    episode, records = play(solve=True)
    assert (episode.status, episode.end_reason) == ("passed", "submitted")
    assert episode.code == play.challenge.reference
    assert episode.agent.startswith("command:")
    assert records.output == f"edited {play.challenge.file}\n"
    assert records.of("command") == [
        {"exit_code": 0, "out_of_time": False, "sandbox": "bubblewrap"}
    ]
    assert episode.usage.cost_usd is None  # it said nothing, which is not nothing


def test_it_finds_its_task_in_files_and_in_the_environment(play: Player) -> None:
    script = """
import json, os, pathlib
told = {name: value for name, value in os.environ.items() if name.startswith("RCB_")}
files = {str(p): p.read_text() for p in pathlib.Path().rglob("*") if p.is_file()}
print(json.dumps({"told": told, "files": files, "here": os.getcwd()}))
"""
    model = ModelSettings("m", base_url="http://127.0.0.1:1/v1")
    episode, records = play(script, seed=7, model=model)
    assert episode.status == "no_change"
    seen = json.loads(records.output)
    told, files = seen["told"], seen["files"]
    challenge = play.challenge
    assert told["RCB_WORKSPACE"] == seen["here"]
    assert (told["RCB_FILE"], told["RCB_CHALLENGE"]) == (challenge.file, challenge.id)
    assert (told["RCB_SEED"], told["RCB_MODEL"]) == ("7", "m")
    assert told["RCB_BASE_URL"] == model.base_url
    assert told["RCB_PROMPT"] == files["PROMPT.md"]
    assert told["RCB_PROMPT_FILE"] == seen["here"] + "/PROMPT.md"
    assert files["PAPER.md"] == challenge.paper.text
    assert challenge.masked().text == files[challenge.file]
    assert files.keys() == {"PROMPT.md", "PAPER.md", *challenge.workspace()}
    assert challenge.file in files["PROMPT.md"]
    assert not Path(seen["here"]).exists()


def test_without_the_paper_there_is_none(play: Player) -> None:
    line = 'ls; echo "paper=[$RCB_PAPER_FILE]"'
    _, records = play(line=line, shown=Shown(paper="none"))
    assert "PAPER.md" not in records.output
    assert "paper=[]" in records.output


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("path.write_text('# mine\\n' + path.read_text())", "line 1 was changed"),
        ("path.write_text(path.read_text() + '# mine\\n')", "after the missing part"),
        ("path.write_text(path.read_text().rstrip())", "after the missing part"),
        ("path.write_text('')", "line 1 was changed"),
        ("path.unlink()", "No such file"),
        ("path.unlink(); path.mkdir()", "directory"),
        ("path.unlink(); os.mkfifo(path)", "no longer a regular file"),
    ],
)
def test_what_is_changed_around_the_region_makes_the_attempt_invalid(
    script: str, says: str, play: Player
) -> None:
    episode, _ = play(script, solve=True)
    assert (episode.status, episode.end_reason) == ("invalid", "frame_changed")
    assert play.challenge.file in episode.error
    assert says in episode.error


def test_no_link_is_followed_out_of_the_folder(play: Player, tmp_path: Path) -> None:
    """A link in the place of the file, of its folder, or of the whole workspace leads nowhere."""
    answer = tmp_path / "elsewhere" / play.challenge.file
    answer.parent.mkdir(parents=True)
    masked = play.challenge.masked()
    answer.write_text(masked.fill(play.challenge.reference))
    (tmp_path / "elsewhere" / "keep").touch()
    outside = repr(str(tmp_path / "elsewhere"))
    head = "import os, pathlib, shutil\n"
    file = f"p = pathlib.Path(os.environ['RCB_FILE']); p.unlink(); p.symlink_to({str(answer)!r})"
    folder = f"d = pathlib.Path(os.environ['RCB_FILE']).parts[0]; shutil.rmtree(d); os.symlink({outside} + '/' + d, d)"
    whole = f"w = os.environ['RCB_WORKSPACE']; os.rename(w, w + '2'); os.symlink({outside}, w)"
    for script, status in ((file, "invalid"), (folder, "invalid"), (whole, "no_change")):
        episode, _ = play(head + script)
        assert episode.status == status, script
    assert (tmp_path / "elsewhere" / "keep").exists()  # and none is removed through it either
    assert answer.exists()


WRONG = "        return x\n"
MADE = """
for name in ("unittest.py", "numpy.py", "torch/__init__.py"):
    made = path.parent / name
    made.parent.mkdir(exist_ok=True)
    made.write_text("class TestCase: pass\\nallclose = lambda *a, **k: True\\n")
"""


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("other.write_text('passes = True\\n')", ["src/blocks.py: changed"]),
        ("other.unlink()", ["src/blocks.py: deleted"]),
        ("other.unlink(); other.symlink_to('/dev/null')", ["src/blocks.py: replaced by a link"]),
        ("other.unlink(); other.mkdir(); (other / 'x').touch()", ["src/blocks.py: replaced"]),
        ("other.chmod(0o777)", ["src/blocks.py: given another mode"]),
        ("path.chmod(0o777); other.write_bytes(other.read_bytes())", None),
        (MADE, ["src/numpy.py: made", "src/torch: made", "src/unittest.py: made"]),
        (
            "os.mkdir('tests'); os.symlink('/dev/null', 'tests.py'); os.remove('PAPER.md')",
            ["PAPER.md: deleted", "tests: made", "tests.py: made"],
        ),
        (r"open(b'\xff.py', 'w').close()", [r"\udcff.py: made"]),
    ],
)
@pytest.mark.parametrize("solve", [True, False])
def test_what_was_done_to_other_files_is_on_record_and_decides_nothing(
    script: str, told: list[str] | None, solve: bool, play: Player
) -> None:
    """Cases C041 and C043: a test or a module beside the file was edited or put there, and was used.

    Grading has the files of the paper and the region; what the program did to others is told.
    """
    head = "" if solve else f"CODE = {WRONG!r}\n{SOLVE}"
    head += "other = path.with_name('blocks.py')\n"
    episode, records = play(head + script, solve=solve)
    assert episode.status == ("passed" if solve else "failed")
    (ended,) = records.of("command")
    assert ended.get("elsewhere") == (told and {"count": len(told), "paths": told})
    assert all(line in render([{"kind": "command", **ended}]) for line in told or ())


def test_of_many_files_ten_are_named_and_all_are_counted(play: Player) -> None:
    script = "for n in range(30): open(f'new{n:02}.py', 'w').close()\nos.makedirs('deep/er')\n"
    episode, records = play(script, solve=True)
    assert episode.passed
    told = records.of("command")[0]["elsewhere"]
    assert told["count"] == 31
    assert told["paths"] == ["deep: made", *(f"new{n:02}.py: made" for n in range(9))]


def test_a_folder_in_whose_place_a_link_is_is_named_and_not_looked_into(
    tmp_path: Path, play: Player
) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = (
        f"import shutil; shutil.rmtree('src'); os.symlink({str(tmp_path / 'elsewhere')!r}, 'src')"
    )
    episode, records = play(script, solve=True)
    assert (episode.status, episode.end_reason) == ("invalid", "frame_changed")
    told = {"count": 1, "paths": ["src: replaced by a link"]}
    assert records.of("command")[0]["elsewhere"] == told


SANDBOXES = pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])


@SANDBOXES
def test_time_that_is_up_ends_the_program_and_what_is_there_is_graded(
    play: Player, sandbox: AgentSandbox
) -> None:
    mark = f"mark-{uuid.uuid4()}"
    script = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for more in ({{}}, {{"start_new_session": True}} if {sandbox == "bubblewrap"} else {{}}):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "{mark}"], **more)
print("started", flush=True)
time.sleep(60)
"""
    began = time.monotonic()
    budgets = Budgets(wall_s=4)
    episode, records = play(script, solve=True, budgets=budgets, rules=Rules(agent_sandbox=sandbox))
    assert time.monotonic() - began < 10
    assert (episode.status, episode.end_reason) == ("passed", "wall_time_spent")
    (ended,) = records.of("command")
    assert ended["out_of_time"]
    assert ended["sandbox"] == sandbox
    assert "started" in records.output
    assert _soon(lambda: not _running(mark))


@SANDBOXES
def test_what_a_program_leaves_running_ends_with_it(play: Player, sandbox: AgentSandbox) -> None:
    """It holds the output open, too: waiting for its end would take for ever."""
    mark = f"{uuid.uuid4().int % 10**6 + 10**6}"  # a sleep of its own length
    line = f"{play.line('', solve=True)}; sleep {mark} & sleep 0.2"
    episode, _ = play(line=line, rules=Rules(agent_sandbox=sandbox))
    assert episode.status == "passed"
    assert episode.wall_s < 20
    assert _soon(lambda: not _running(mark))


def test_a_box_ends_with_the_driver_even_when_that_is_killed(tmp_path: Path) -> None:
    mark = f"{uuid.uuid4().int % 10**6 + 10**6}"
    arguments = ["--challenges", CHALLENGE, "--sandbox", "bubblewrap", "--out", "run", "--quiet"]
    agent = f"command:setsid sleep {mark}"
    driver = subprocess.Popen(
        [sys.executable, "-m", "rcb_env.cli", "run", "--agent", agent, *arguments], cwd=tmp_path
    )
    try:
        assert _soon(lambda: _running(mark), within_s=60)
    finally:
        driver.kill()
        driver.wait()
    assert _soon(lambda: not _running(mark))


def _running(mark: str) -> bool:
    """Whether a process lives that has this among its words; drivers, shells and boxes that name it do not count."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                if mark.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                    return True
    return False


def _soon(holds: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


def test_a_program_that_fails_is_no_wrong_answer(play: Player) -> None:
    episode, _ = play("raise SystemExit('no key is set')")
    assert (episode.status, episode.end_reason) == ("infra_error", "agent_error")
    assert episode.error.endswith("code 1 and changed nothing; its last line: no key is set")
    episode, _ = play(line="exit 3")
    assert episode.error == "the command ended with code 3 and changed nothing; no output"
    episode, _ = play("raise SystemExit(3)", solve=True)
    assert episode.status == "passed"  # it failed after its work was done


def test_a_program_that_is_not_there_stops_the_run(play: Player) -> None:
    with pytest.raises(UsageError, match=r"cannot be run: .*no-such-agent"):
        play(line="no-such-agent --flag")


def test_usage_that_it_reports_counts(play: Player) -> None:
    script = """
import json
with open(os.environ["RCB_USAGE_FILE"], "a") as file:
    for n in (1, 2):
        print(json.dumps({"prompt_tokens": 100 * n, "completion_tokens": 5, "cost_usd": 0.25}), file=file)
"""
    episode, _ = play(script, solve=True)
    usage = episode.usage
    assert (usage.tokens, usage.calls, usage.cost_usd) == (310, 2, 0.5)
    episode, _ = play(script, solve=True, budgets=Budgets(tokens=200))
    assert (episode.status, episode.end_reason) == ("passed", "tokens_spent")


def test_what_it_reported_counts_however_the_attempt_ended(play: Player) -> None:
    """A program that had spent 5 dollars broke the file, or failed, and the run counted nothing."""
    report = """
import os
with open(os.environ["RCB_USAGE_FILE"], "a") as file:
    file.write('{"prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 5}\\n')
"""
    for ending in ("os.remove(os.environ['RCB_FILE'])", "raise SystemExit('gave up')"):
        episode, _ = play(report + ending)
        assert not episode.passed
        assert (episode.usage.cost_usd, episode.usage.tokens) == (5.0, 9), ending
        assert episode.usage.complete


@pytest.mark.parametrize(
    "lines",
    ["", "many\\n", "[1]\\n", '{"cost_usd": -1}\\n', '{"cost_usd": 1e999}\\n', "[" * 10**5],
)
def test_what_is_not_reported_or_not_readable_is_unknown_and_not_zero(
    lines: str, play: Player
) -> None:
    good = '{"prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.5}\\n'
    report = f"""open(os.environ["RCB_USAGE_FILE"], "a").write('{good if lines else ""}{lines}')"""
    episode, records = play(report, solve=True)
    assert episode.passed
    assert episode.usage.cost_usd is None
    assert not episode.usage.complete
    assert episode.usage.tokens == (9 if lines else 0)
    assert ("unreadable_report" in records.of("command")[0]) == bool(lines)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("raise SystemExit(75)", "ended with code 75 and says that it could not work"),
        (
            """import os; open(os.environ["RCB_USAGE_FILE"], "a").write('{"error": "401: wrong key"}')""",
            "says that it could not work: 401: wrong key",
        ),
    ],
)
def test_a_program_can_say_that_it_was_not_its_models_fault(
    script: str, says: str, play: Player
) -> None:
    """Aider ends with code 0 when its key is refused; that was a wrong answer, without a word."""
    episode, _ = play(script)
    assert (episode.status, episode.end_reason) == ("infra_error", "agent_error")
    assert says in episode.error


def test_nothing_done_and_nothing_reported_is_worth_a_warning(play: Player) -> None:
    episode, records = play("")
    assert episode.status == "no_change"
    assert "was a model asked at all" in records.of("warning")[0]["text"]
    assert play("", solve=True)[1].of("warning") == []


def test_the_prompt_is_in_the_trajectory(play: Player) -> None:
    _, records = play("import os; print(os.environ['RCB_PROMPT'], end='')")
    assert records.of("prompt") == [{"text": records.output}]


def test_much_output_is_cut_and_does_not_hold_the_program_up(play: Player) -> None:
    script = "import sys\nfor _ in range(40): sys.stdout.write('x' * 99_999 + '\\n')\n"
    episode, records = play(script, solve=True)
    assert episode.status == "passed"
    assert len(records.output) < 1.2e6
    assert records.output.endswith("[further output is left out]\n")


def test_all_that_follows_the_name_is_the_command() -> None:
    line = "my-agent --mode=fast,careful --x 'a:b' "
    agent = make_agent(f"command:{line}", model=None)
    assert agent_label(agent) == f"command:{line.strip()}"
    assert make_agent(agent_label(agent), model="m") == agent
    for spec in ("command", "command:", "command:  "):
        with pytest.raises(AgentError, match="there is no command"):
            make_agent(spec, model=None)


def test_rcb_run_plays_it(play: Player, tmp_path: Path) -> None:
    line = play.line("", solve=True)
    arguments = ["--challenges", CHALLENGE, "--sandbox", "bubblewrap", "--out", "run", "--json"]
    command = [sys.executable, "-m", "rcb_env.cli", "run", "--agent", f"command:{line}"]
    done = subprocess.run(
        [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["pass_rate"] == 100.0
