"""Open challenges from the data set to the report: loaded, played, measured, certified, and whose fault a failure is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from rcb_env.certify import CertificateFile
from rcb_env.certify.open import certify_open
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.errors import PaperError, SandboxUnavailable, UsageError
from rcb_env.grading.grader import Grader, Verdict
from tests import open_papers

SECANT = open_papers.WITNESSES["secant"]


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    try:
        made = Grader("auto")
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_papers.write(tmp_path_factory.mktemp("open"))


@pytest.fixture(scope="module")
def challenge(folder: Path) -> Challenge:
    return load_dataset(f"{folder}@open").challenge("roots@open")


def _open(folder: Path, **changed: str) -> Challenge:
    return load_dataset(f"{open_papers.write(folder, **changed)}@open").challenge("roots@open")


def test_a_data_set_holds_its_open_challenges_under_a_name_of_its_own(folder: Path) -> None:
    assert [each.id for each in load_dataset(folder).challenges] == ["roots/middle"]
    whole = load_dataset(f"{folder}@open")
    assert [each.id for each in whole.challenges] == ["roots@open"]
    assert whole.name == "little@open"


def test_what_an_agent_sees_is_the_task_and_the_file_without_the_papers_method(
    challenge: Challenge,
) -> None:
    seen = challenge.workspace()
    assert sorted(seen) == ["start.py", "task.md"]
    assert b"TODO: Implement block" in seen["start.py"]
    assert not any(b"middle" in data or b"Hidden" in data for data in seen.values())


def test_a_task_is_shown_also_where_context_is_not(folder: Path) -> None:
    env = ResearchCodeEnv("roots@open", dataset=str(folder), with_context=False)
    env.reset(seed=0)
    observation, *_ = env.step({"tool": "read_file", "arguments": {"path": "task.md"}})
    assert "may be called for 10 points" in observation["text"]


def test_a_folder_without_limits_or_a_file_is_refused_by_name(tmp_path: Path) -> None:
    whole = open_papers.write(tmp_path)
    (whole / "roots/open/witnesses/baseline.py").unlink()
    with pytest.raises(PaperError, match=r"baseline\.py.*is missing"):
        load_dataset(f"{whole}@open")
    (whole / "roots/paper.yaml").write_text(open_papers.PAPER.split("open:")[0])
    with pytest.raises(PaperError, match="time_s and memory_mb"):
        load_dataset(f"{whole}@open")


def test_a_scope_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="scope"):
        ResearchCodeEnv(scope="everything")  # type: ignore[arg-type]


def test_the_papers_own_method_has_zero_and_the_same_answer_the_same_score(
    challenge: Challenge, grader: Grader
) -> None:
    own = grader.grade(challenge, challenge.reference, final=True)
    assert own.score is not None
    assert (own.status, own.score.value, own.score.se) == ("passed", 0.0, 0.0)
    better = [grader.grade(challenge, SECANT, final=True).score for _ in range(2)]
    assert better[0] == better[1]
    assert better[0] is not None
    assert better[0].value is not None
    assert better[0].value > 1
    assert Verdict.from_dict(json.loads(json.dumps(own.to_dict()))) == own


def test_feedback_and_the_score_use_other_problems(challenge: Challenge, grader: Grader) -> None:
    feedback = grader.grade(challenge, SECANT, final=False)
    final = grader.grade(challenge, SECANT, final=True)
    assert len(feedback.cases) == 3
    assert len(final.cases) == 12
    assert not {one.message for one in feedback.cases} & {one.message for one in final.cases}


def test_an_answer_within_its_noise_passes_and_one_far_below_does_not(
    challenge: Challenge, grader: Grader
) -> None:
    baseline = grader.grade(challenge, open_papers.WITNESSES["baseline"], final=True)
    assert baseline.status == "failed"
    assert baseline.score is not None
    assert baseline.score.value == baseline.score.baseline


def test_a_region_without_code_is_no_change_and_counts_as_the_baseline(
    challenge: Challenge, grader: Grader
) -> None:
    verdict = grader.grade(challenge, challenge.masked().placeholder, final=True)
    assert verdict.status == "no_change"
    assert verdict.score is not None
    assert verdict.score.counted == verdict.score.baseline < 0


def test_an_exception_of_the_submission_is_told_with_its_line(
    challenge: Challenge, grader: Grader
) -> None:
    code = "def root(function, low, high):\n    return low / 0\n"
    verdict = grader.grade(challenge, code, final=False)
    assert (verdict.status, verdict.error_class) == ("failed", "value")
    assert "ZeroDivisionError" in verdict.message
    assert "start.py" in verdict.cases[0].message
    assert [case.outcome for case in verdict.cases] == ["error", "not_run", "not_run"]


def test_the_judges_time_does_not_count_against_the_submission(
    tmp_path: Path, grader: Grader
) -> None:
    """Ten calls of 0.6 s take longer than the 5 s that a submission has."""
    judge = open_papers.JUDGE.replace("def value(x):", "def value(x):\n        time.sleep(0.6)")
    judge = judge.replace("import numpy", "import time\nimport numpy").replace(
        "feedback=3", "feedback=1"
    )
    slow = _open(tmp_path, judge=judge, baseline="def root(function, low, high):\n    return low\n")
    verdict = grader.grade(slow, slow.reference, final=False)
    assert verdict.status == "passed", verdict.message
    assert verdict.timings["run_s"] < 5


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("time.sleep(1000)", id="stops"),
        pytest.param("os._exit(3)", id="ends its process"),
        pytest.param("os.kill(os.getppid(), 9)", id="ends what it was forked from"),
        pytest.param("raise RuntimeError('a bug')", id="raises"),
    ],
)
def test_an_oracle_that_breaks_is_infrastructure(
    broken: str, tmp_path: Path, grader: Grader
) -> None:
    judge = open_papers.JUDGE.replace("def value(x):", f"def value(x):\n        {broken}")
    judge = judge.replace("import numpy", "import os\nimport time\nimport numpy")
    challenge = _open(tmp_path, judge=judge)
    paper = challenge.paper
    object.__setattr__(paper, "time_limit_s", 0.5)  # so that the judge's limit is 5 s
    verdict = grader.grade(challenge, challenge.reference, final=False)
    assert verdict.status == "infra_error"
    assert "judge" in verdict.message or "box" in verdict.message


def test_a_judge_whose_boxes_are_killed_from_outside_is_infrastructure(tmp_path: Path) -> None:
    """Twice, as the kernel does where memory is short: that is nothing the submission said."""
    judge = open_papers.JUDGE.replace("def value(x):", "def value(x):\n        time.sleep(0.3)")
    judge = judge.replace("import numpy", "import time\nimport numpy").replace(
        "feedback=3", "feedback=1"
    )
    challenge = _open(tmp_path, judge=judge)
    with Grader("bubblewrap") as grader:
        assert grader.grade(challenge, challenge.reference, final=False).passed
        pool = grader._fleet._pools["judge", "cpu"]
        killed: list[Any] = []

        def kill_two() -> None:
            while len(killed) < 2:
                for box in [box for box in list(pool._all) if box not in killed]:
                    time.sleep(1.0)  # by now it judges
                    killed.append(box)
                    for first in box._channel.children():  # type: ignore[attr-defined]
                        os.kill(first, signal.SIGKILL)
                time.sleep(0.02)

        killer = threading.Thread(target=kill_two)
        killer.start()
        verdict = grader.grade(challenge, challenge.reference, final=False)
        killer.join()
    assert verdict.status == "infra_error", verdict


def test_a_judge_that_fails_only_on_what_it_was_given_is_the_submissions_failure(
    tmp_path: Path, grader: Grader
) -> None:
    judge = open_papers.JUDGE.replace("array(submission.call(", "_checked(submission.call(")
    judge += "\n\ndef _checked(found, shape):\n    assert found != 1.5\n    return array(found)\n"
    challenge = _open(tmp_path, judge=judge)
    code = "def root(function, low, high):\n    return 1.5\n"
    verdict = grader.grade(challenge, code, final=False)
    assert verdict.status == "failed"
    assert "cannot be measured" in verdict.message


def test_an_episode_is_told_its_score_and_earns_it(folder: Path, grader: Grader) -> None:
    env = gymnasium.make(
        "rcb/Challenge-v0",
        challenge="roots@open",
        dataset=str(folder),
        reward="score",
        grader=grader,
    )
    observation, _ = env.reset(seed=0)
    assert "0 is the paper's own method" in observation["text"]
    env.step({"tool": "write_region", "arguments": {"code": SECANT}})
    observation, reward, _, _, info = env.step({"tool": "run_tests", "arguments": {}})
    assert reward == 0.0
    assert "score +" in observation["text"]
    assert info["tests"]["score"]["value"] > 1
    assert list(info["tests"]["terms"]) == ["cubics"]
    _, reward, terminated, _, info = env.step({"tool": "submit", "arguments": {}})
    assert terminated
    assert reward == info["verdict"]["score"]["value"] > 1
    env.close()


def test_less_is_told_at_lower_levels_of_feedback(folder: Path, grader: Grader) -> None:
    env = ResearchCodeEnv("roots@open", dataset=str(folder), feedback="outcome", grader=grader)
    env.reset(seed=0)
    env.step({"tool": "write_region", "arguments": {"code": SECANT}})
    observation, *_, info = env.step({"tool": "run_tests", "arguments": {}})
    assert info["tests"] == {"status": "passed"}
    assert "+" not in observation["text"]


def test_a_run_of_open_challenges_reports_its_score_beside_its_pass_rate(
    folder: Path, tmp_path: Path
) -> None:
    """Resumed without a word of the scope, it is the same run."""

    def rcb(*arguments: str) -> str:
        command = [sys.executable, "-m", "rcb_env.cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = ("--dataset", str(folder), "--scope", "open")
    listed = json.loads(rcb("list", "challenges", *where, "--json"))
    assert listed["id"] == "roots@open"
    rcb("run", "--agent", "reference", *where, "--out", "r", "--quiet")
    rcb("run", "--resume", "r", "--quiet")
    report = json.loads(rcb("report", "r", "--json"))
    assert report["pass_rate"] == 100.0
    assert report["score"] == 0.0
    assert report["open_scores"]["challenges"][0]["baseline"] < 0
    assert "Open challenges" in rcb("report", "r")
    named = ("--dataset", str(folder), "--challenges", "roots@open")
    told = json.loads(
        rcb("run", "--agent", "noop", *named, "--out", "n", "--json").splitlines()[-1]
    )
    assert told["states"]["no_change"] == 1
    assert told["score"] == report["open_scores"]["challenges"][0]["baseline"]
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"challenge": "roots@open", "code": SECANT}))
    graded = rcb("grade", "answers.jsonl", "--dataset", str(folder), "--out", "g", "--json")
    assert json.loads(graded.splitlines()[-1])["score"] > 1
    shown = rcb("show", "roots@open", "--dataset", str(folder))
    assert "task.md" in shown


IN_TWO = """def root(function, low, high):
    import os
    import time

    def compute():
        while time.process_time() < 0.7:
            pass

    if os.fork() == 0:
        compute()
        os._exit(0)
    compute()
    os.wait()
    return 2.0
"""


UNCOUNTED = """def root(function, low, high):
    import os
    import signal
    import time
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    began = time.monotonic()
    while time.monotonic() - began < 2.0:
        if (child := os.fork()) == 0:
            while time.process_time() < 0.02:
                pass
            os._exit(0)
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass
    return 2.0
"""


def test_the_limit_is_processor_time_of_all_processes(challenge: Challenge, grader: Grader) -> None:
    """A busy machine, for which sleep stands here, must not change a score; and two processes have no more than one."""
    short = replace(challenge, paper=replace(challenge.paper, time_limit_s=1.0))
    sleeps = (
        "def root(function, low, high):\n    import time\n    time.sleep(1.5)\n    return 2.0\n"
    )
    slept = grader.grade(short, sleeps, final=False)
    assert slept.score is not None
    assert slept.score.value is not None, slept
    for code in (IN_TWO, UNCOUNTED):  # the second one's children are told in no parent's sum
        computed = grader.grade(short, code, final=False)
        assert computed.status == "timeout", computed
        assert "1 s of processor time" in computed.message


def test_a_sound_open_challenge_is_certified(challenge: Challenge, grader: Grader) -> None:
    report = certify_open(challenge.paper, grader)
    assert report.ok, report.problems
    assert {one.name for one in report.witnesses} == set(open_papers.WITNESSES)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"baseline": open_papers.WITNESSES["secant"]}, "standard errors below"),
        ({"first_idea": open_papers.WITNESSES["inverse_cubic"]}, "may have half"),
        ({"first_idea": ""}, "is missing"),
        ({"null_zero": open_papers.WITNESSES["secant"]}, "less than the baseline"),
        ({"null_zero": ""}, "does not try"),
        ({"secant": open_papers.WITNESSES["baseline"]}, "above 0"),
        ({"secant": "def root(function, low, high):\n    return None\n"}, "is failed"),
    ],
)
def test_an_open_challenge_that_tells_nothing_apart_is_not(
    changed: dict[str, str], told: str, tmp_path: Path, grader: Grader
) -> None:
    report = certify_open(_open(tmp_path, **changed).paper, grader)
    assert any(told in problem.message for problem in report.problems), report.problems


def test_a_challenge_on_record_gets_a_light_check(
    tmp_path: Path, challenge: Challenge, grader: Grader
) -> None:
    path = tmp_path / "CERTIFICATE.json"
    record = CertificateFile(path, kind="open challenges")
    report = certify_open(challenge.paper, grader, workers=2)
    assert record.put(challenge.paper, report, [challenge.paper.id])
    stored = CertificateFile(path, kind="open challenges")
    assert stored.standing(challenge.paper) == "current"
    assert f"{len(open_papers.WITNESSES)} witnesses" in stored.summary(challenge.paper)
    assert certify_open(challenge.paper, grader, light=True).ok
    with pytest.raises(UsageError, match="open challenges; name another file"):
        CertificateFile(path)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"baseline": open_papers.WITNESSES["secant"]}, "must lie below 0"),
        ({"secant": open_papers.WITNESSES["baseline"]}, "two of the alternatives"),
    ],
)
def test_a_light_check_sees_what_is_out_of_order(
    changed: dict[str, str], told: str, tmp_path: Path, grader: Grader
) -> None:
    report = certify_open(_open(tmp_path, **changed).paper, grader, light=True)
    assert any(told in problem.message for problem in report.problems), report.problems


def test_a_judge_without_problems_or_with_a_fault_is_told(tmp_path: Path, grader: Grader) -> None:
    for judge in ("", "1 +", "raise ValueError('no')"):
        report = certify_open(_open(tmp_path, judge=judge).paper, grader)
        assert not report.ok
