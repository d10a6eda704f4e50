"""Several missing parts at once: graded in boxes, played, and at the command line; test_agents_at_every_scope.py has the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.env.settings import Budgets, Rules
from rcb_env.grading.grader import Grader
from rcb_env.play.agent import ModelSettings, Task
from rcb_env.play.episode import play_episode
from rcb_env.play.record import Episode
from rcb_env.play.registry import make_agent
from rcb_env.runs.store import RunStore
from rcb_env.view.catalog import Catalog
from rcb_env.view.pages import Pages
from tests.two_files import FILES

Server = Any  # its class lives in conftest.py, which cannot be imported from here
ID = "small@paper"
RIGHT = {
    "scale": "    return x * factor + 1\n",
    "shift": "    return x - 1\n",
    "remember": "        self.factor = factor\n",
}


def answer(**codes: str) -> str:
    """One block for each region."""
    blocks = (f"```python\n# region: {name}\n{code}```\n" for name, code in codes.items())
    return "\n".join(["These are the parts.\n", *blocks])


def text(**codes: str) -> str:
    """The same as `write_region` takes it."""
    return "".join(f"# region: {name}\n{code}" for name, code in codes.items())


WRONG = {**RIGHT, "shift": "    return x + 1\n"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]) -> Path:
    folder = write_paper(tmp_path_factory.mktemp("papers") / "small", FILES).parent
    (folder / "papers.yaml").write_text("name: tiny\npapers: [small]\n")
    return folder


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return load_dataset(f"{folder}@paper")


@pytest.fixture(scope="module")
def challenge(dataset: Dataset) -> Challenge:
    return dataset.challenge(ID)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


class Records:
    def __init__(self) -> None:
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        self.kept.append((kind, json.loads(json.dumps(payload))))

    @property
    def tools(self) -> list[str]:
        return [step["action"]["tool"] for kind, step in self.kept if kind == "step"]


Play = Callable[..., tuple[Episode, Records]]


@pytest.fixture
def play(dataset: Dataset, grader: Grader, request: pytest.FixtureRequest) -> Play:
    def run(agent: str, server: Server = None, **rules: Any) -> tuple[Episode, Records]:
        model = None
        if server is not None:
            model = ModelSettings(name=request.node.name, base_url=server.url)
        records = Records()
        made = make_agent(agent, model=model.name if model else None)
        env = ResearchCodeEnv(ID, dataset=dataset, grader=grader, rules=Rules(**rules))
        task = Task(dataset.challenge(ID), seed=0, model=model, rules=Rules(**rules))
        episode = play_episode(env, made, task, records, budgets=Budgets())
        assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode
        return episode, records

    return run


# --- grading ----------------------------------------------------------------------------------


def test_the_reference_passes_every_case_and_nothing_written_is_no_change(
    challenge: Challenge, grader: Grader
) -> None:
    for final, cases in ((False, 3), (True, 5)):  # feedback on several files: one seed a case
        verdict = grader.grade(challenge, challenge.reference, final=final)
        assert (verdict.status, verdict.counts(), verdict.evidence) == (
            "passed",
            (cases, cases),
            "isolated",
        )
        nothing = grader.grade(challenge, "", final=final)
        assert (nothing.status, nothing.message) == ("no_change", "nothing was written")
        unnamed = grader.grade(challenge, "def scale(x):\n    return x\n", final=final)
        assert unnamed.status == "no_change"
        assert unnamed.message == (
            "the answer names no region: begin each of its parts with a line `# region: NAME`"
        )
        later = grader.grade(challenge, text(scale="", shift="    # later\n"), final=final)
        assert later.status == "no_change"


def test_a_part_of_the_regions_gets_a_part_of_the_cases(
    challenge: Challenge, grader: Grader
) -> None:
    verdict = grader.grade(challenge, text(scale=RIGHT["scale"]), final=True)
    assert verdict.status == "failed"
    passed = {case.case for case in verdict.cases if case.outcome == "passed"}
    # A class without a body is no Python, and neither is a function: whatever needs that file fails.
    assert passed <= {"scales"}
    verdict = grader.grade(challenge, text(**WRONG), final=True)
    assert verdict.counts() == (4, 5)
    assert [case.case for case in verdict.cases if case.outcome != "passed"] == ["shifts"]


def test_a_file_is_graded_by_the_cases_that_cover_it(folder: Path, grader: Grader) -> None:
    files = load_dataset(f"{folder}@file")
    for id, cases in (("small/src/scaling.py@file", 3), ("small/src/twice.py@file", 2)):
        one = files.challenge(id)
        verdict = grader.grade(one, one.reference, final=True)
        assert (verdict.status, verdict.counts()) == ("passed", (cases, cases))
    nameless = grader.grade(
        files.challenge("small/src/twice.py@file"), RIGHT["remember"], final=True
    )
    assert nameless.passed


# --- agents -----------------------------------------------------------------------------------


def test_the_oracles_score_everything_and_nothing(play: Play, challenge: Challenge) -> None:
    episode, records = play("reference")
    assert (episode.status, episode.code) == ("passed", challenge.reference)
    assert (episode.file, episode.lines) == ("src", 3)
    assert records.tools == ["write_region", "submit"]
    episode, _ = play("noop")
    assert episode.status == "no_change"


@pytest.mark.parametrize(("skill", "status"), [(1, "passed"), (0, "failed")])
def test_a_simulated_model_has_a_fault_in_one_of_the_regions(
    play: Play, skill: int, status: str
) -> None:
    assert play(f"simulated:skill={skill}")[0].status == status


def test_one_reply_answers_all_regions(play: Play, model_server: Server) -> None:
    model_server.plays(model_server.answer(answer(**RIGHT)))
    episode, records = play("single-shot", model_server)
    assert (episode.status, records.tools) == ("passed", ["write_region", "submit"])
    (asked,) = (request["body"]["messages"] for request in model_server.requests)
    prompt = asked[-1]["content"]
    assert "- remember: `src/twice.py` from line 6 on" in prompt
    assert "# region: scale" in prompt
    assert prompt.count("# TODO: Implement block") == 3 + 1  # in the files, and in the task
    assert "x * factor" not in prompt


def test_a_reply_that_leaves_a_region_out_gets_a_part_of_the_cases(
    play: Play, model_server: Server
) -> None:
    parts = {name: code for name, code in RIGHT.items() if name != "remember"}
    model_server.plays(model_server.answer(answer(**parts)))
    episode, _ = play("single-shot", model_server)
    assert episode.status == "failed"
    assert episode.verdict is not None
    outcomes = {case["case"]: case["outcome"] for case in episode.verdict["cases"]}
    assert outcomes["scales"] == outcomes["shifts"] == "passed"
    assert outcomes["twice"] != "passed"


@pytest.mark.parametrize("history", ["continued", "fresh"])
def test_a_repair_sends_only_the_region_that_was_wrong(
    play: Play, model_server: Server, history: str
) -> None:
    model_server.plays(
        model_server.answer(answer(**WRONG)),
        model_server.answer("I do not know."),
        model_server.answer(answer(shift=RIGHT["shift"])),
    )
    episode, records = play(f"repair:rounds=2,history={history}", model_server)
    assert episode.status == "passed"
    assert records.tools == ["write_region", "run_tests", "write_region", "submit"]
    asked = [request["body"]["messages"][-1]["content"] for request in model_server.requests]
    assert "put into its places and tested" in asked[1]
    assert "such as `# region: scale`, as its first line" in asked[2]
    if history == "fresh":
        assert "# region: remember" in asked[2]


def test_draws_do_not_mix(play: Play, model_server: Server) -> None:
    """A draw that leaves a region out is not completed by the draw before it."""
    model_server.plays(
        model_server.answer(answer(shift=RIGHT["shift"])),
        model_server.answer(answer(scale=RIGHT["scale"], remember=RIGHT["remember"])),
    )
    episode, _ = play("best-of-n:n=2", model_server)
    assert episode.status == "failed"


def test_a_model_solves_it_by_tools(play: Play, model_server: Server) -> None:
    patch = "--- a/src/twice.py\n+++ b/src/twice.py\n@@ -6,2 +6,1 @@\n"
    patch += (
        '-        # TODO: Implement block "remember"\n-        # Approximately 1 line(s) of code.\n'
    )
    patch += "+        self.factor = factor\n"
    model_server.plays(
        model_server.calls(("read_file", {"path": "src/twice.py"})),
        model_server.calls(
            ("write_region", {"code": text(scale=RIGHT["scale"], shift=WRONG["shift"])}),
            ("apply_patch", {"patch": patch}),
            ("run_tests", {}),
        ),
        model_server.calls(
            ("replace", {"path": "src/scaling.py", "old": "return x + 1", "new": "return x - 1"}),
            ("run_tests", {}),
        ),
        model_server.calls(("submit", {})),
    )
    episode, records = play("tools", model_server)
    steps = [step for kind, step in records.kept if kind == "step"]
    assert not any(step["error"] for step in steps)
    assert "Tests: failed, 2 of 3 passed" in steps[3]["text"]
    assert steps[4]["text"].startswith("replaced: shift: src/scaling.py line")
    assert (episode.status, episode.end_reason) == ("passed", "submitted")


def test_a_planner_and_a_solver_share_the_regions(play: Play, model_server: Server) -> None:
    model_server.plays(
        model_server.answer("1. Multiply."),
        model_server.calls(("write_region", {"code": text(**RIGHT)}), ("submit", {})),
    )
    episode, _ = play("plan", model_server)
    assert episode.status == "passed"


EDIT = """
import pathlib, re
RIGHT = %r
for path in ("src/scaling.py", "src/twice.py"):
    text = pathlib.Path(path).read_text()
    for name, code in RIGHT.items():
        text = re.sub(r'[ ]*# TODO: Implement block "%%s"\\n.*\\n' %% name, lambda _: code, text)
    pathlib.Path(path).write_text(text%s)
"""


@pytest.mark.parametrize(("more", "status"), [("", "passed"), (" + 'x = 1\\n'", "invalid")])
def test_a_program_edits_several_files_and_nothing_around_the_regions(
    play: Play, tmp_path: Path, more: str, status: str
) -> None:
    program = tmp_path / "edit.py"
    program.write_text(EDIT % (RIGHT, more))
    episode, records = play(f"command:{sys.executable} {program}", agent_sandbox="none")
    assert episode.status == status
    prompts = [about["text"] for kind, about in records.kept if kind == "prompt"]
    assert "- shift: `src/scaling.py` from line" in prompts[0]
    if status == "invalid":
        assert episode.end_reason == "frame_changed"


# --- environments -----------------------------------------------------------------------------


def test_gymnasium_makes_it_by_its_scope(folder: Path, grader: Grader) -> None:
    env = gymnasium.make("rcb/Challenge-v0", dataset=str(folder), scope="paper", grader=grader)
    observation, _ = env.reset(seed=0)
    assert "- shift: src/scaling.py" in observation["text"]
    write = {"tool": "write_region", "arguments": {"code": text(**RIGHT)}}
    observation, *_ = env.step(write)
    assert observation["text"].startswith("wrote 3 of 3 regions: scale: src/scaling.py line 6")
    twin = env.unwrapped.fork()  # type: ignore[attr-defined]
    _, reward, terminated, _, info = env.step({"tool": "submit", "arguments": {}})
    assert (reward, terminated, info["verdict"]["status"]) == (1.0, True, "passed")
    *_, told = twin.step({"tool": "run_tests", "arguments": {}})
    assert told["tests"]["status"] == "passed"
    env.close()


def test_the_share_of_cases_can_be_the_reward(folder: Path, grader: Grader) -> None:
    env = gymnasium.make(
        "rcb/Challenge-v0", challenge=ID, dataset=str(folder), reward="cases", grader=grader
    )
    env.reset(seed=0)
    total = 0.0
    for action in (
        {"tool": "write_region", "arguments": {"code": text(**WRONG)}},
        {"tool": "submit", "arguments": {}},
    ):
        _, reward, *_ = env.step(action)
        total += float(reward)
    assert 0 < total < 1
    env.close()


# --- the command line -------------------------------------------------------------------------


def rcb(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_command_line_lists_shows_runs_grades_and_reports_a_scope(
    folder: Path, tmp_path: Path
) -> None:
    own = ("--dataset", str(folder))
    listed = rcb("list", "challenges", *own, "--scope", "file", "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [(row["id"], row["lines"]) for row in rows] == [
        ("small/src/scaling.py@file", 2),
        ("small/src/twice.py@file", 1),
    ]
    shown = rcb("show", ID, *own, cwd=tmp_path)
    assert "part:      remember: src/twice.py, 1 line" in shown.stdout
    assert shown.stdout.count("# TODO: Implement block") == 3

    run = rcb("run", *own, "--scope", "paper", "--agent", "reference", "--out", "ran", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    (line,) = RunStore.open(tmp_path / "ran").latest()
    assert line["episode"]["status"] == "passed"
    pages = Pages(Catalog(tmp_path, cache=tmp_path / "cache"))
    page = pages.challenge("ran", [("challenge", ID)])
    assert page.count("<mark>") == 3
    assert "src/twice.py" in page
    assert "wrote 3 of 3 regions" in pages.episode("ran", [("challenge", ID)])
    reported = rcb("report", "ran", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr

    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        json.dumps({"challenge": ID, "sample": 0, "completion": answer(**RIGHT)})
        + "\n"
        + json.dumps({"challenge": ID, "sample": 1, "code": text(**WRONG)})
        + "\n"
    )
    graded = rcb("grade", str(answers), *own, "--out", "graded", cwd=tmp_path)
    assert graded.returncode == 0, graded.stderr
    lines = RunStore.open(tmp_path / "graded").latest()
    assert {line["episode"]["sample"]: line["episode"]["status"] for line in lines} == {
        0: "passed",
        1: "failed",
    }
    again = rcb("grade", "graded", "--out", "again", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr

    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text(
        json.dumps({"challenge": ID, "sample": 0, "code": ""})
        + "\n"
        + json.dumps({"challenge": "small/scale", "sample": 0, "code": ""})
        + "\n"
    )
    refused = rcb("grade", str(mixed), *own, cwd=tmp_path)
    assert refused.returncode == 2
    assert "write two files" in refused.stderr


def test_the_check_finds_a_region_that_no_case_needs(
    folder: Path, tmp_path: Path, write_paper: Callable[..., Path]
) -> None:
    for scope in ("file", "paper"):
        done = rcb("check", "--dataset", str(folder), "--scope", scope, "--no-cache", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"small@{scope}: certified" in done.stdout
    extra = FILES["src/twice.py"].replace(
        "        # <paper2code",
        '        self.x = 0\n        # <paper2code name="more">\n        self.more = 1\n'
        '        # </paper2code name="more">\n        # <paper2code',
    )
    files = {**FILES, "src/twice.py": extra}
    other = write_paper(tmp_path / "weak" / "small", files)
    done = rcb("check", "--dataset", str(other), "--scope", "paper", "--no-cache", cwd=tmp_path)
    assert done.returncode == 1
    assert "small@paper passes without more; add a case that needs it" in done.stdout


# --- a whole library --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(folder: Path) -> Challenge:
    return load_dataset(f"{folder}@library").challenge("small@library")


@pytest.fixture(scope="module")
def sources(library: Challenge) -> dict[str, str]:
    """The reference, file by file."""
    return {path: library.paper.visible[path].decode() for path in library.files}


@pytest.fixture
def play_library(library: Challenge, grader: Grader, request: pytest.FixtureRequest) -> Play:
    dataset = Dataset("tiny@library", (library.paper,))

    def run(agent: str, server: Server = None, **rules: Any) -> tuple[Episode, Records]:
        model = None
        if server is not None:
            model = ModelSettings(name=request.node.name, base_url=server.url)
        records = Records()
        made = make_agent(agent, model=model.name if model else None)
        env = ResearchCodeEnv(library.id, dataset=dataset, grader=grader, rules=Rules(**rules))
        task = Task(library, seed=0, model=model, rules=Rules(**rules))
        return play_episode(env, made, task, records, budgets=Budgets()), records

    return run


def files_of(sources: Mapping[str, str]) -> str:
    return "".join(f"```python\n# file: {path}\n{text}```\n\n" for path, text in sources.items())


def test_a_library_is_graded_by_all_cases_and_its_surface_is_no_answer(
    library: Challenge, sources: Mapping[str, str], grader: Grader
) -> None:
    verdict = grader.grade(library, library.reference, final=True)
    assert (verdict.status, verdict.counts()) == ("passed", (5, 5))
    assert grader.grade(library, "", final=True).status == "no_change"
    part = f"# file: src/scaling.py\n{sources['src/scaling.py']}"
    verdict = grader.grade(library, part, final=True)
    assert (verdict.status, verdict.counts()) == ("failed", (3, 5))


def test_the_oracles_play_a_library(play_library: Play) -> None:
    assert play_library("reference")[0].status == "passed"
    assert play_library("noop")[0].status == "no_change"
    assert play_library("simulated:skill=0")[0].status == "failed"


def test_one_reply_holds_all_files(
    play_library: Play, model_server: Server, sources: Mapping[str, str]
) -> None:
    model_server.plays(model_server.answer(f"Here.\n\n{files_of(sources)}"))
    episode, _ = play_library("single-shot", model_server)
    assert episode.status == "passed"
    prompt = model_server.requests[0]["body"]["messages"][-1]["content"]
    assert "# file: src/scaling.py" in prompt
    assert "raise NotImplementedError" in prompt
    assert "TODO" not in prompt
    assert "x * factor" not in prompt


def test_a_repair_sends_only_the_file_that_was_wrong(
    play_library: Play, model_server: Server, sources: Mapping[str, str]
) -> None:
    wrong = {**sources, "src/twice.py": sources["src/twice.py"].replace("= factor", "= 1")}
    model_server.plays(
        model_server.answer(files_of(wrong)),
        model_server.answer(files_of({"src/twice.py": sources["src/twice.py"]})),
    )
    episode, records = play_library("repair:rounds=1", model_server)
    assert (episode.status, records.tools) == (
        "passed",
        ["write_region", "run_tests", "write_region", "submit"],
    )


def test_a_model_writes_a_library_by_tools(
    play_library: Play, model_server: Server, sources: Mapping[str, str]
) -> None:
    code = "".join(f"# file: {path}\n{text}" for path, text in sources.items())
    model_server.plays(
        model_server.calls(("write_region", {"code": code.replace("x - 1", "x + 1")})),
        model_server.calls(
            ("run_tests", {}),
            ("replace", {"path": "src/scaling.py", "old": "x + 1", "new": "x - 1"}),
        ),
        model_server.calls(("submit", {})),
    )
    episode, records = play_library("tools", model_server)
    assert (episode.status, episode.test_runs) == ("passed", 1)
    texts = [step["text"] for kind, step in records.kept if kind == "step"]
    assert texts[0].startswith("wrote 2 of 2 files: src/scaling.py lines 1-")
    assert "2 of 3 passed" in texts[1]


def test_a_program_writes_a_library(
    play_library: Play, tmp_path: Path, sources: Mapping[str, str]
) -> None:
    program = tmp_path / "write.py"
    program.write_text(
        f"import pathlib\nfor path, text in {dict(sources)!r}.items():\n"
        "    pathlib.Path(path).write_text(text)\n"
    )
    episode, records = play_library(f"command:{sys.executable} {program}", agent_sandbox="none")
    assert episode.status == "passed"
    prompts = [about["text"] for kind, about in records.kept if kind == "prompt"]
    assert "- `src/twice.py`, 6 lines" in prompts[0]


def test_the_check_takes_a_library(folder: Path, tmp_path: Path) -> None:
    done = rcb("check", "--dataset", str(folder), "--scope", "library", "--no-cache", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "small@library: certified" in done.stdout
    shown = rcb("show", "small@library", "--dataset", str(folder), cwd=tmp_path)
    assert "raise NotImplementedError" in shown.stdout
