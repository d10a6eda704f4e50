"""`rcb` as scripts and people call it: as a process, by its output and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

_SOURCE = """\
def twice(x):
    # <paper2code name="double it">
    return 2 * x
    # </paper2code name="double it">
"""
_CASES = """\
from rcb_env.cases import case


@case(seeds=2)
def doubled(tree, rng):
    return tree.load("twice").twice(rng.numpy.standard_normal(4))
"""


def _rcb(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _last_object(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture
def tiny(tmp_path: Path, write_paper: Callable[..., Path]) -> Path:
    """A data set of one challenge."""
    files = {
        "paper.md": "Doubling, as everybody knows it.\n",
        "src/twice.py": _SOURCE,
        "tests/cases.py": _CASES,
    }
    folder = write_paper(
        tmp_path / "papers" / "tiny",
        files,
        arxiv="0000.00000",
        venue="nowhere",
        domain="tests",
        limits={"time_s": 20, "memory_mb": 512},
    ).parent
    (folder / "papers.yaml").write_text("name: tiny-set\npapers: [tiny]\n")
    return folder


def _one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("rcb: ")
    for word in words:
        assert word in line


# --- what a user can get wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], ["frobnicate", "rcb --help"]),
        (["run", "--agnet", "noop"], ["--agnet", "--agent"]),
        (["run"], ["--agent", "rcb list agents"]),
        (["run", "--agent", "refrence"], ["refrence", "reference", "rcb list agents"]),
        (["run", "--agent", "single-shot"], ["single-shot", "--model"]),
        (["run", "--agent", "noop", "--model", "m"], ["noop", "--model"]),
        (["run", "--arms", "noop,reference", "--cluster", "local:2"], ["--cluster", "--arms"]),
        (
            ["run", "--agent", "single-shot", "--batch", "--cluster", "auto"],
            ["--cluster", "--batch"],
        ),
        (
            ["run", "--agent", "noop", "--base-url", "http://127.0.0.1:9/v1"],
            ["--base-url", "--model"],
        ),
        (["run", "--agent", "simulated:skil=1"], ["skil", "skill"]),
        (["run", "--agent", "noop", "--samples", "0"], ["--samples"]),
        (["run", "--agent", "noop", "--feedback", "everything"], ["--feedback", "messages"]),
        (["run", "--agent", "noop", "--sandbox", "chroot"], ["chroot", "rcb doctor"]),
        (["run", "--agent", "noop", "--papers", "DyTT"], ["DyTT", "DyT", "rcb list papers"]),
        (["run", "--agent", "noop", "--challenges", "DyT/forwrd"], ["forwrd", "DyT/forward"]),
        (["run", "--agent", "noop", "--dataset", "nowhere"], ["nowhere", "papers.yaml"]),
        (["run", "--agent", "noop", "--papers", ""], ["--papers", "empty", "leave it out"]),
        (["list", "challenges", "--challenges", " ,"], ["--challenges", "empty"]),
        (["run", "--resume"], ["--resume"]),
        (["show", "DyT/forwrd"], ["DyT/forwrd", "DyT/forward", "rcb list challenges"]),
        (["list", "challenges", "--papers", "x"], ["'x'"]),
        (["check", "DyTT"], ["DyTT", "DyT"]),
        (["new", "../mine"], ["'../mine'", "letters, digits"]),
        (["suggest", "nowhere.py"], ["nowhere.py"]),
        (
            ["export", "runs", "--format", "rl", "--out", "x.jsonl", "--reward", "foo"],
            ["'foo'", "sparse, cases, weighted, score, lines, shaped"],
        ),
        (["report", "nowhere"], ["there is no folder nowhere"]),
        (["trajectory", "nowhere"], ["there is no folder nowhere"]),
        (["grade", "nowhere.jsonl"], ["nowhere.jsonl"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_gives_one_line_and_exit_code_2(
    arguments: Sequence[str], words: Sequence[str], tmp_path: Path
) -> None:
    _one_line(_rcb(*arguments, folder=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("papers.yaml", "tiny-set", "[tiny", ["papers.yaml:"]),
        ("tiny/paper.yaml", "authors", "writers", ["tiny/paper.yaml:", "authors"]),
        (
            "tiny/src/twice.py",
            '    # </paper2code name="double it">\n',
            "",
            ["twice.py:2", "double it"],
        ),
    ],
)
def test_a_broken_data_set_gives_file_and_line(
    file: str, old: str, new: str, words: Sequence[str], tiny: Path, tmp_path: Path
) -> None:
    (tiny / file).write_text((tiny / file).read_text().replace(old, new))
    for command in (["list", "challenges"], ["run", "--agent", "noop"]):
        _one_line(_rcb(*command, "--dataset", str(tiny), folder=tmp_path), *words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["file.jsonl:2"]),
        (
            '{"challenge": "tiny/triple-it", "sample": 0, "code": ""}',
            ["file.jsonl:2", "tiny/triple-it"],
        ),
        ('{"challenge": "tiny/double-it", "sample": 1}', ["file.jsonl:2", "completion"]),
    ],
)
def test_a_bad_line_of_a_file_of_completions_is_named(
    line: str, words: Sequence[str], tiny: Path, tmp_path: Path
) -> None:
    good = '{"challenge": "tiny/double-it", "sample": 0, "code": "    return x + x\\n"}'
    (tmp_path / "file.jsonl").write_text(f"{good}\n{line}\n")
    done = _rcb("grade", "file.jsonl", "--dataset", str(tiny), folder=tmp_path)
    _one_line(done, *words)


def test_a_folder_that_cannot_be_written_gives_one_line(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _rcb(
        "run", "--agent", "noop", "--dataset", str(tiny), "--out", "file/run", folder=tmp_path
    )
    _one_line(done, "file/run")


def test_an_agents_own_error_is_called_that(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Guess:\n    def play(self, task):\n        yield 1, 2\n"
    )
    done = _rcb("run", "--agent", "mine:Guess", "--dataset", str(tiny), folder=tmp_path)
    assert done.returncode == 1
    said = "the agent's own error: Guess.play yielded a tuple; yield rcb_env.ToolCall"
    assert said in done.stdout
    assert f"tiny/double-it sample 0: {said}" in done.stderr
    assert "infrastructure" not in done.stdout
    assert "trying again" not in done.stderr


def test_the_agent_of_the_documentation_plays(tiny: Path, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "other-agents.md").read_text()
    example = text.split("```python\n", 1)[1].split("\n```\n", 1)[0]
    for answer, status in (("return x", "failed"), ("return 2 * x", "passed")):
        (tmp_path / "mine.py").write_text(example.replace("return x", answer))
        run = ["run", "--agent", "mine:Mine:rounds=3", "--dataset", str(tiny), "--out", status]
        done = _rcb(*run, "--json", folder=tmp_path)
        assert _last_object(done)["states"][status] == 1, done.stderr
    (line,) = (tmp_path / "failed" / "episodes.jsonl").read_text().splitlines()
    episode = json.loads(line)["episode"]
    assert (episode["end_reason"], episode["test_runs"]) == ("submitted", 3)
    assert episode["usage"]["calls"] == 3


# --- what scripts read -------------------------------------------------------------------------


def test_challenges_are_listed_one_object_a_line(tmp_path: Path) -> None:
    done = _rcb("list", "challenges", "--json", folder=tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) >= 24
    assert all({"id", "paper", "file", "hint", "lines"} <= row.keys() for row in rows)
    papers = [
        json.loads(line)
        for line in _rcb("list", "papers", "--json", folder=tmp_path).stdout.splitlines()
    ]
    assert sum(paper["challenges"] for paper in papers) == len(rows)


def test_all_agents_are_listed_with_their_settings(tmp_path: Path) -> None:
    done = _rcb("list", "agents", "--json", folder=tmp_path)
    agents = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {"single-shot", "repair", "reference", "noop", "simulated"} <= agents.keys()
    assert agents["simulated"]["settings"]["skill"] is not None
    text = _rcb("list", "agents", folder=tmp_path).stdout
    assert "tests=true,stop=true" in text
    assert "Draws `n` answers" in text


def test_a_challenge_is_shown_without_its_answer(tmp_path: Path) -> None:
    shown = _last_object(_rcb("show", "DyT/forward", "--json", folder=tmp_path))
    assert 'TODO: Implement block "forward"' in shown["masked_file"]
    assert "reference" not in shown
    text = _rcb("show", "DyT/forward", folder=tmp_path).stdout
    assert shown["masked_file"] in text
    answer = _last_object(_rcb("show", "DyT/forward", "--json", "--reference", folder=tmp_path))
    assert answer["reference"] not in text


def test_doctor_says_which_sandbox_works(tmp_path: Path) -> None:
    report = _last_object(_rcb("doctor", "--json", folder=tmp_path))
    assert report["works"] is True
    assert {"Python", "bubblewrap", "OPENAI_API_KEY"} <= {one["name"] for one in report["findings"]}


def test_a_run_is_reported_read_graded_again_and_resumed(tiny: Path, tmp_path: Path) -> None:
    options = ["--dataset", str(tiny), "--samples", "2", "--json"]
    run = _last_object(
        _rcb("run", "--agent", "reference", "--out", "one", *options, folder=tmp_path)
    )
    assert run["run"] == "one"
    assert (run["planned"], run["pass_rate"], run["scaled_pass_rate"]) == (2, 100.0, 100.0)
    assert run["states"]["passed"] == 2

    report = _last_object(_rcb("report", "one", "--json", folder=tmp_path))
    assert {key: report[key] for key in run} == run
    rows = _rcb("report", "one", "--csv", folder=tmp_path).stdout.splitlines()
    assert len(rows) == 3

    steps = _rcb("trajectory", "one", "tiny/double-it", "--sample", "1", folder=tmp_path)
    assert "submit" in steps.stdout

    again = _last_object(_rcb("grade", "one", "--out", "two", "--json", folder=tmp_path))
    assert {**again, "run": "one"} == run

    before = (tmp_path / "one" / "episodes.jsonl").read_bytes()
    resumed = _rcb("run", "--resume", "one", "--json", folder=tmp_path)
    assert _last_object(resumed) == run
    assert " (as before)\n" in resumed.stderr
    assert (tmp_path / "one" / "episodes.jsonl").read_bytes() == before
    refused = _rcb("run", "--resume", "one", "--seed", "1", folder=tmp_path)
    _one_line(refused, "seed")
    for other in ("noop", "single-shot"):  # whether or not the recorded model, or none, suits it
        refused = _rcb("run", "--resume", "one", "--agent", other, folder=tmp_path)
        _one_line(refused, f"agent reference, not {other}", "leave out --agent")
    _one_line(_rcb("run", "--agent", "noop", "--out", "one", folder=tmp_path), "--resume")


def test_a_reader_that_has_left_is_no_failure(tiny: Path, tmp_path: Path) -> None:
    """A closed pipe gave exit code 1, which says that the answer is no."""
    run = ["run", "--agent", "reference", "--dataset", str(tiny), "--out", "one"]
    for arguments in (run, ["trajectory", "one"], ["report", "one"], ["list", "agents", "--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "rcb_env.cli", *arguments],
            cwd=tmp_path,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
        os.close(writing)
        assert (arguments, done.returncode) == (arguments, 0)
        assert "rror" not in done.stderr
    assert len((tmp_path / "one" / "episodes.jsonl").read_bytes().splitlines()) == 1


def test_completions_from_anywhere_become_a_run(tiny: Path, tmp_path: Path) -> None:
    reply = "Here it is:\n```python\n    return x + x\n```\n"
    lines = [
        {"challenge": "tiny/double-it", "sample": 0, "completion": reply},
        {"challenge": "tiny/double-it", "sample": 1, "code": "    return 3 * x\n"},
        {"challenge": "tiny/double-it", "sample": 2, "completion": "I cannot do that."},
    ]
    (tmp_path / "file.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["--dataset", str(tiny), "--out", "run", "--json"]
    done = _rcb("grade", "file.jsonl", *options, folder=tmp_path)
    first, second, third, *_ = done.stderr.splitlines()
    assert (first, second.partition(":")[0]) == ("run: run", "sandbox")
    assert third == "starting the boxes ..."
    run = _last_object(done)
    assert run["planned"] == 3
    assert {state: count for state, count in run["states"].items() if count} == {
        "passed": 1,
        "failed": 1,
        "invalid": 1,
    }
    assert run["pass_rate"] == pytest.approx(100 / 3)


def test_check_answers_with_its_exit_code(tiny: Path, tmp_path: Path) -> None:
    """A paper whose tests accept an emptied region is not fit to judge anybody by."""
    options = ["--dataset", str(tiny), "--no-cache"]
    fine = _rcb("check", "tiny", *options, folder=tmp_path)
    assert fine.returncode == 0, fine.stdout + fine.stderr
    (tiny / "tiny" / "tests" / "cases.py").write_text(
        _CASES.replace("return tree", "return None; tree")
    )
    blind = _rcb("check", "tiny", *options, folder=tmp_path)
    assert blind.returncode == 1
    assert "tiny/src/twice.py" in blind.stdout


def test_a_new_paper_is_started_and_regions_are_proposed_and_tagged(tmp_path: Path) -> None:
    """In a data set of its own: an unfinished paper is in nobody's default list."""
    made = _rcb("new", "mine", folder=tmp_path)
    assert made.returncode == 0
    assert "rcb run with --dataset drafts" in made.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["drafts"]
    source = tmp_path / "drafts/mine/src/more.py"
    source.write_text("import example\n\n\ndef half(x):\n    y = x * 0.5\n    return y + 0.25\n")
    found = _last_object(_rcb("suggest", str(source), "--json", folder=tmp_path))
    (first,) = found["proposals"]
    assert (first["name"], first["start"], first["end"]) == ("half", 5, 6)
    assert found["context"] == ["src/example.py"]
    wrong = _rcb("suggest", str(source), "--apply", "2", folder=tmp_path)
    _one_line(wrong, "no proposal 2", "rcb suggest")
    tagged = _rcb("suggest", str(source), "--apply", "1", folder=tmp_path)
    assert tagged.returncode == 0
    assert "add src/more.py to annotated in " in tagged.stdout
    index = tmp_path / "drafts/mine/paper.yaml"
    index.write_text(index.read_text().replace("example.py]", "example.py, src/more.py]"))
    rows = _rcb("list", "challenges", "--dataset", "drafts", "--json", folder=tmp_path).stdout
    assert [json.loads(row)["id"] for row in rows.splitlines()][-1] == "mine/half"


def test_a_certificate_makes_the_next_check_a_light_one(tiny: Path, tmp_path: Path) -> None:
    options = ["--dataset", str(tiny), "--certificate", str(tiny / "CERTIFICATE.json")]
    before = _rcb("check", "tiny", *options, folder=tmp_path)
    assert "; not certified in " in before.stdout
    assert _rcb("check", "--full", *options, folder=tmp_path).returncode == 0
    light = _rcb("check", "--scope", "library", *options, folder=tmp_path)
    assert "tiny@library: certified; light check, " in light.stdout
    refused = _rcb("check", "--full", "--scope", "paper", *options, folder=tmp_path)
    _one_line(refused, "leave out --scope")
    light = _rcb("check", *options, folder=tmp_path)
    assert light.returncode == 0
    assert "; light check, " in light.stdout
    assert "; 2 of 2 mutants fail; the reference passes 2 of 2 runs;" in light.stdout
    (tiny / "tiny" / "paper.md").write_text("Other words.\n")
    assert "; changed since it was certified in " in _rcb("check", *options, folder=tmp_path).stdout
    (tiny / "CERTIFICATE.json").write_text("{}")
    _one_line(_rcb("check", *options, folder=tmp_path), "CERTIFICATE.json", "rcb check --full")


def test_a_run_against_a_server_that_is_not_there_is_not_begun(tiny: Path, tmp_path: Path) -> None:
    """Case C071: a server that is not there is no model that knows nothing."""
    options = ["--dataset", str(tiny), "--json", "--model-retries", "0", "--out", "run"]
    server = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    done = _rcb("run", "--agent", "single-shot", *server, *options, folder=tmp_path)
    assert done.returncode == 2
    assert "http://127.0.0.1:9/v1/chat/completions cannot be reached" in done.stderr
    assert not (tmp_path / "run" / "run.json").exists()  # the folder is free again


def test_a_run_in_which_no_model_answered_is_no_success(
    tiny: Path, tmp_path: Path, model_server: Any
) -> None:
    """Case C071: the same of a server that only ever fails."""
    model_server.plays(model_server.status(500))
    options = ["--dataset", str(tiny), "--json", "--model-retries", "0"]
    server = ["--model", "m", "--base-url", model_server.url]
    done = _rcb("run", "--agent", "single-shot", *server, *options, folder=tmp_path)
    assert done.returncode == 1
    run = json.loads(done.stdout.splitlines()[-1])
    assert run["states"]["infra_error"] == run["planned"] == 1
