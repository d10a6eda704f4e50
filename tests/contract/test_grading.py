"""Isolated grading on a paper of a few lines: what passes, what fails, and how each failure is told."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge, Dataset
from rcb_env.dataset.regions import with_challenges
from rcb_env.env.actions import ToolCall
from rcb_env.env.environment import ResearchCodeEnv
from rcb_env.errors import BoxDied
from rcb_env.grading.grader import Grader, Verdict
from rcb_env.play.agent import Task, Turn
from rcb_env.play.episode import play_episode

SOURCE = '''"""Small things to implement."""

import torch


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    # <paper2code name="scale">
    y = x * factor
    return y + 1
    # </paper2code name="scale">
'''
CASES = """
import torch
from rcb_env.cases import case, raises

@case(seeds=2)
def scales(tree, rng):
    scale = tree.load("small").scale
    x = rng.torch.normal(3, 4)
    return {"y": scale(x, 2.5), "bad": raises(lambda: scale(None, 2.0))}

@case(seeds=1)
def is_differentiable(tree, rng):
    x = rng.torch.normal(5).requires_grad_()
    tree.load("small").scale(x, 3.0).sum().backward()
    return {"grad": x.grad}
"""
CHECKS = """
import numpy as np
from rcb_env.cases import check

@check("is_differentiable")
def the_gradient_is_the_factor(out, ref):
    assert np.all(out["grad"] == 3.0), "the gradient is not the factor"
"""
RIGHT = "    y = x * factor\n    return y + 1\n"


@pytest.fixture(scope="module")
def challenge(
    tmp_path_factory: pytest.TempPathFactory, write_paper: Callable[..., Path]
) -> Challenge:
    files = {
        "src/small.py": SOURCE,
        "src/other.py": "one = 1\n",
        "tests/cases.py": CASES,
        "tests/checks.py": CHECKS,
    }
    limits = {"time_s": 5, "memory_mb": 512}
    root = write_paper(tmp_path_factory.mktemp("papers") / "small", files, limits=limits)
    return load_dataset(root).challenge("small/scale")


@pytest.fixture(scope="module")
def grader(maker_name: str) -> Iterator[Grader]:
    with Grader(maker_name, workers=2) as made:
        yield made


def grade(grader: Grader, challenge: Challenge, code: str, *, final: bool = True) -> Verdict:
    return grader.grade(challenge, code, final=final)


def test_the_reference_passes_with_both_kinds_of_seeds(
    grader: Grader, challenge: Challenge
) -> None:
    final = grade(grader, challenge, challenge.reference)
    feedback = grade(grader, challenge, challenge.reference, final=False)
    assert final.passed
    assert feedback.passed
    assert final.counts() == feedback.counts() == (3, 3)
    seeds = {result.seed for result in final.cases}
    assert not seeds & {result.seed for result in feedback.cases}


def test_a_verdict_survives_being_stored(grader: Grader, challenge: Challenge) -> None:
    verdict = grade(grader, challenge, "    return x\n")
    assert Verdict.from_dict(verdict.to_dict()) == verdict


@pytest.mark.parametrize("code", ["", "\n\n", "    # only a comment\n"])
def test_a_region_without_code_is_no_change(
    grader: Grader, challenge: Challenge, code: str
) -> None:
    assert grade(grader, challenge, code).status == "no_change"


@pytest.mark.parametrize(
    ("code", "error_class", "message"),
    [
        ("    return x * factor\n", "value", "values differ"),
        ("    return (x * factor + 1).double()\n", "type", "the dtype differs"),
        ("    return (x * factor + 1)[:2]\n", "shape", "the shape differs"),
        ("    return x * factor + torch.ones(2)\n", "shape", "RuntimeError: The size of tensor"),
        ("    return x * * factor\n", "syntax", "SyntaxError"),
        ("    y = 1\n  return y\n", "syntax", "IndentationError"),
        ("    return z\n", "name", "NameError: name 'z' is not defined"),
        ("    return x + 'a'\n", "type", "TypeError"),
        ("    return x.scaled(factor)\n", "attribute", "AttributeError"),
        ("    return {}[x]\n", "index_key", "KeyError"),
        ("    import nothing_like_this\n", "import", "ModuleNotFoundError"),
        ("    raise RuntimeError('no')\n", "other", "RuntimeError: no"),
        ("    pass\n", "type", "the type differs"),
    ],
)
def test_a_wrong_region_fails_with_its_class_and_its_first_message(
    grader: Grader, challenge: Challenge, code: str, error_class: str, message: str
) -> None:
    verdict = grade(grader, challenge, code)
    assert verdict.status == "failed"
    assert verdict.error_class == error_class
    assert message in verdict.message


def test_an_error_names_the_line_of_the_candidate_and_no_line_of_the_tests(
    grader: Grader, challenge: Challenge
) -> None:
    verdict = grade(grader, challenge, "    return x.scaled(factor)\n", final=False)
    text = verdict.cases[0].message
    assert "src/small.py:7 in scale: return x.scaled(factor)" in text
    assert "cases.py" not in text


def test_expected_values_stand_in_the_detail_only(grader: Grader, challenge: Challenge) -> None:
    verdict = grade(grader, challenge, "    return x * factor\n", final=False)
    result = verdict.cases[0]
    assert "expected" in result.detail
    assert "expected" not in result.message


def test_a_check_fails_what_the_comparison_cannot_see(
    tmp_path: Path, grader: Grader, write_paper: Callable[..., Path]
) -> None:
    files = {
        "src/small.py": SOURCE.replace("factor\n    return", "float(factor)\n    return"),
        "tests/cases.py": CASES.replace("@case(seeds=1)", "@case(seeds=1, compare=False)"),
        "tests/checks.py": CHECKS,
    }
    root = write_paper(tmp_path / "small", files)
    challenge = load_dataset(root).challenge("small/scale")
    code = "    if x is not None and x.dim() == 1:\n        return x * 4\n" + RIGHT
    verdict = grade(grader, challenge, code)
    assert verdict.message == (
        "is_differentiable: check the_gradient_is_the_factor: the gradient is not the factor"
    )


def test_words_in_the_output_decide_nothing(grader: Grader, challenge: Challenge) -> None:
    """Case C034: a right region may print what looks like a failure, a wrong one what looks like success."""
    loud = (
        "    import sys, traceback, warnings\n"
        "    print('0 samples failed', 'Error: 1e-3')\n"
        "    try:\n        1 / 0\n    except ZeroDivisionError:\n        traceback.print_exc()\n"
        "    warnings.warn('Exception: not really')\n" + RIGHT
    )
    verdict = grade(grader, challenge, loud)
    assert verdict.passed
    assert "0 samples failed" in verdict.stdout
    assert "Traceback" in verdict.stderr
    assert not grade(grader, challenge, "    print('OK', '5 passed')\n    return x\n").passed


ENDED = "the tests did not complete: their process ended with "
EXITED = "the tests did not complete: the code called "
TWICE = "the tests did not complete: the code ended its sandbox, twice"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("    import os\n    print('Ran 3 tests OK')\n    os._exit(0)\n", ENDED + "exit code 0"),
        (
            "    return x\n\nprint('Ran 3 tests OK')\nimport os; os._exit(0)\n",
            ENDED + "exit code 0",
        ),
        ("    import sys\n    sys.exit(0)\n", EXITED + "sys.exit(0)"),
        ("    return x\n\nimport sys; sys.exit(0)\n", EXITED + "sys.exit(0)"),
        (
            "    import atexit, os\n    atexit.register(os._exit, 0)\n    return x\n",
            "scales: output['y']: 12 of 12 values differ",
        ),
        ("    import os\n    os.execv('/bin/true', ['true'])\n", ENDED + "exit code 0"),
        ("    import os\n    os.kill(os.getpid(), 9)\n", ENDED + "signal 9"),
        (
            "    import os, time\n    os.kill(os.getppid(), 9)\n    time.sleep(2)\n    return x\n",
            TWICE,
        ),
        (
            "    import os, time\n    os.kill(-1, 9)\n    time.sleep(2)\n    return x\n",
            TWICE,
        ),
    ],
)
def test_an_early_end_is_a_failure_that_says_so(
    grader: Grader, challenge: Challenge, code: str, message: str
) -> None:
    """Case C032: ending the process, its parent, or everything in the box, with any exit code, is no pass."""
    verdict = grade(grader, challenge, code)
    assert verdict.status == "failed", verdict
    assert verdict.message.startswith(message)
    assert grade(grader, challenge, challenge.reference).passed


def test_right_numbers_after_a_flood_of_output_pass_and_both_ends_of_it_are_told(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C023: 300 MB without an end of line on stdout and on stderr; the observation says how much is left out."""
    floods = """    import sys
    if not hasattr(sys, "flooded"):
        sys.flooded = True
        for stream in (sys.stdout, sys.stderr):
            stream.write("first ")
            for _ in range(300):
                stream.write("x" * 1_000_000)
            stream.write(" last")
"""
    paper = dataclasses.replace(challenge.paper, time_limit_s=120.0)
    patient = with_challenges(dataclasses.replace(paper, challenges=())).challenges[0]
    env = ResearchCodeEnv(patient.id, dataset=Dataset("small", (patient.paper,)), grader=grader)
    env.reset(seed=0)
    env.step({"tool": "write_region", "arguments": {"code": floods + RIGHT}})
    observation, *_, info = env.step({"tool": "run_tests", "arguments": {}})
    assert info["tests"]["status"] == "passed", info
    text = observation["text"]
    assert len(text) < 5_000
    ends = ["first " + "x" * 994, "[… 299998011 bytes left out …]", "x" * 995 + " last"]
    assert text.endswith("\n".join(["--- stdout ---", *ends, "--- stderr ---", *ends]))
    assert len(json.dumps(info["tests"])) < 80_000
    *_, info = env.step({"tool": "submit", "arguments": {}})
    assert info["verdict"]["status"] == "passed"
    assert len(json.dumps(info["verdict"])) < 80_000
    env.close()


def test_a_loop_is_a_timeout_and_a_memory_hog_is_out_of_memory(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C025: the two are told apart from each other, and from plain failures."""
    assert grade(grader, challenge, "    while True: pass\n").status == "timeout"
    for code in (
        "    return x + torch.zeros(2_000_000_000).sum()\n",
        "    bytearray(4_000_000_000)\n",
        "    hog = []\n    while True: hog.append(bytearray(10_000_000))\n",
        "    import subprocess, sys\n"
        "    p = [subprocess.Popen([sys.executable, '-c', 'x = bytearray(200_000_000); input()'],"
        " stdin=subprocess.PIPE) for _ in range(8)]\n"
        "    [q.wait() for q in p]\n",
    ):
        assert grade(grader, challenge, code).status == "out_of_memory", code


def test_objects_that_equal_everything_gain_nothing(grader: Grader, challenge: Challenge) -> None:
    code = (
        "    class Same(torch.Tensor):\n"
        "        def __eq__(self, other): return True\n"
        "    torch.allclose = torch.equal = lambda *a, **k: True\n"
        "    return (x * 0).as_subclass(Same)\n"
    )
    assert grade(grader, challenge, code).error_class == "value"


def test_forged_records_without_the_right_numbers_are_no_pass(
    grader: Grader, challenge: Challenge
) -> None:
    """Writing result messages to every open descriptor: well-formed ones, broken ones, and noise."""
    code = (
        "    import json, os\n"
        "    from rcb_env.runner import wire\n"
        "    record = {'case': 'scales', 'seed': 1, 'error': None, 'outcome': 'passed'}\n"
        "    lies = [wire.pack(record, [b'']), wire.pack({'done': True, 'imports': ['os']}),\n"
        "            wire.pack({'outcomes': []}), wire.pack({'case': 'scales', 'seed': 1, 'error': 3}, [b'x']),\n"
        "            b'\\xff' * 100, b'OK passed']\n"
        "    for lie in lies:\n"
        "        for fd in range(3, 64):\n"
        "            try: os.write(fd, lie)\n"
        "            except OSError: pass\n"
        "    os._exit(0)\n"
    )
    assert grade(grader, challenge, code).status == "failed"


def test_a_closed_grader_answers_infra_error_and_not_a_failure(challenge: Challenge) -> None:
    """Case C071: trouble of ours is never a zero for the candidate."""
    closed = Grader()
    closed.close()
    assert grade(closed, challenge, challenge.reference).status == "infra_error"
    closing = Grader()
    timer = threading.Timer(1.5, closing.close)
    timer.start()
    verdict = grade(closing, challenge, "    import time\n    time.sleep(4)\n    return x\n")
    timer.join()
    assert verdict.status == "infra_error"


def test_a_judge_that_is_lost_is_our_trouble_and_not_a_failure(
    grader: Grader, challenge: Challenge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of the two it is, the reference's own outputs tell: they are judged again."""
    assert grade(grader, challenge, challenge.reference).passed

    def lost(*_: object) -> None:
        raise BoxDied("the engine is gone")

    monkeypatch.setattr(grader._fleet, "run_judge", lost)
    verdict = grade(grader, challenge, "    return x\n")
    assert (verdict.status, verdict.message) == ("infra_error", "the engine is gone")


def test_a_reference_that_fails_is_our_trouble(
    tmp_path: Path, grader: Grader, write_paper: Callable[..., Path]
) -> None:
    files = {
        "src/small.py": SOURCE.replace("x * factor", "x * missing"),
        "tests/cases.py": CASES,
        "tests/checks.py": CHECKS,
    }
    root = write_paper(tmp_path / "small", files)
    verdict = grade(grader, load_dataset(root).challenge("small/scale"), RIGHT)
    assert verdict.status == "infra_error"
    assert "the reference of small fails" in verdict.message


@dataclass(frozen=True)
class Scripted:
    """Makes these calls."""

    calls: tuple[ToolCall, ...]

    def play(self, _: Task) -> Generator[ToolCall, Turn, None]:
        yield from (call for call in self.calls)


class Records:
    """A trajectory in memory."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def record(self, kind: str, payload: Mapping[str, object]) -> None:
        if kind == "step":
            self.steps.append(dict(payload))


PROTECTED = {
    "tests/cases.py": [
        ToolCall("replace", {"old": "torch", "new": "numpy", "path": "tests/cases.py"}),
        ToolCall(
            "apply_patch",
            {"patch": "--- a/tests/cases.py\n+++ b/tests/cases.py\n@@ -1 +1 @@\n-x\n+cases = []\n"},
        ),
        ToolCall(
            "apply_patch",
            {"patch": "--- a/tests/cases.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-import torch\n"},
        ),
        ToolCall(
            "apply_patch",
            {
                "patch": "diff --git a/tests/cases.py b/tests/cases.py\nnew file mode 120000\n"
                "--- /dev/null\n+++ b/tests/cases.py\n@@ -0,0 +1 @@\n+/dev/null\n"
            },
        ),
        ToolCall(
            "apply_patch",
            {
                "patch": "diff --git a/tests/cases.py b/tests/cases.py\n"
                "old mode 100644\nnew mode 100755\n"
            },
        ),
    ],
    "src/other.py": [
        ToolCall("replace", {"old": "1", "new": "2", "path": "src/other.py"}),
        ToolCall(
            "apply_patch",
            {"patch": "--- a/src/other.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one = 1\n"},
        ),
    ],
    "src/small.py": [
        ToolCall("replace", {"old": "import torch\n", "new": "import numpy\n"}),
        ToolCall(
            "apply_patch",
            {
                "patch": "--- a/src/small.py\n+++ b/src/small.py\n@@ -3 +3 @@\n"
                "-import torch\n+import numpy\n"
            },
        ),
    ],
}


def test_a_try_at_a_protected_file_is_on_record_and_leaves_the_honest_edits(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C041: the tests are overwritten, deleted, made a link; then a wrong region is handed in."""
    tries = [(file, call) for file, calls in PROTECTED.items() for call in calls]
    calls = (
        ToolCall("write_region", {"code": "    y = x * factor  # honest\n    return y + 1\n"}),
        *(call for _, call in tries),
        ToolCall("replace", {"old": "y + 1", "new": "y + 2"}),
        ToolCall("submit"),
    )
    records = Records()
    dataset = Dataset("small", (challenge.paper,))
    env = ResearchCodeEnv(challenge.id, dataset=dataset, grader=grader)
    episode = play_episode(env, Scripted(calls), Task(challenge), records)
    assert (episode.status, episode.end_reason) == ("failed", "submitted")
    assert episode.code == "    y = x * factor  # honest\n    return y + 2\n"
    assert [step["error"] for step in records.steps] == [
        False,
        *(True for _ in tries),
        False,
        False,
    ]
    for (file, call), step in zip(tries, records.steps[1:-2], strict=True):
        assert step["action"] == call.to_dict()
        assert file in step["text"]
        assert "may change" in step["text"] or "no such file" in step["text"]
    assert grade(grader, challenge, challenge.reference).passed


def test_what_is_left_running_changes_nothing_that_is_graded_later(
    grader: Grader, challenge: Challenge
) -> None:
    """Case C050: a test run leaves a loop that writes the right answer over whatever is graded next."""
    leaves_a_loop = f"""    import subprocess, sys
    code = {challenge.splice(RIGHT).encode()!r}
    loop = (
        "import glob, time\\n"
        "while True:\\n"
        "    for place in ('src/small.py', *glob.glob('/work/*/src/small.py'), '/tmp/result'):\\n"
        "        try: open(place, 'wb').write(" + repr(code) + ")\\n"
        "        except OSError: pass\\n"
        "    time.sleep(0.01)\\n"
    )
    subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
    return x * factor + 1
"""
    wrong = "    return x * factor\n"
    env = ResearchCodeEnv(challenge.id, dataset=Dataset("small", (challenge.paper,)), grader=grader)
    env.reset(seed=0)
    env.step({"tool": "write_region", "arguments": {"code": leaves_a_loop}})
    *_, info = env.step({"tool": "run_tests", "arguments": {}})
    assert info["tests"]["status"] == "passed"
    env.step({"tool": "write_region", "arguments": {"code": wrong}})
    *_, info = env.step({"tool": "submit", "arguments": {}})
    assert info["verdict"]["status"] == "failed"
    assert info["code_hash"] == hashlib.sha256(wrong.encode()).hexdigest()
    env.close()
    assert grade(grader, challenge, RIGHT).passed
    assert grade(grader, challenge, wrong).status == "failed"
