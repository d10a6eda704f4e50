"""What a call of an oracle costs in an open challenge: a message from one box to another through the driver, and back.

The same challenge is graded with a submission that calls its oracle many times and with one that does not; the difference of the two,
by the number of calls, is what a call takes. One hop more or less of a machine that does other things shows here at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Result, median
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.papers import Challenge
from rcb_env.grading.grader import Grader

POINTS = 50  # in one call, of 20 numbers each
_FILES = {
    "papers.yaml": "name: oracle\npapers: [echo]\n",
    "echo/paper.yaml": (
        "id: echo\ntitle: Echo\nauthors: [Nobody]\ndates: {v1: 2024-01-01}\ndomain: none\nlicense: MIT\n"
        "annotated: [src/echo.py]\nimage: cpu\nlimits: {time_s: 60, memory_mb: 512}\n"
        "open: {time_s: 60, memory_mb: 512}\n"
    ),
    "echo/paper.md": "Echo.\n",
    "echo/src/echo.py": '# <paper2code name="x">\nx = 1\n# </paper2code name="x">\n',
    "echo/tests/cases.py": "",
    "echo/tests/checks.py": "",
    "echo/open/task.md": "Echo.\n",
    "echo/open/start.py": '# <paper2code name="x">\ndef f(oracle):\n    return 1\n# </paper2code name="x">\n',
    "echo/open/witnesses/baseline.py": "def f(oracle):\n    return 1\n",
    "echo/open/judge.py": (
        "from rcb_env.judging import Oracle, problems\n"
        "@problems(feedback=1, final=1)\n"
        "def echo(submission, rng):\n"
        "    oracle = Oracle(lambda x: x, budget=10**9, shape=(20,))\n"
        "    return float(submission.call('f', oracle=oracle))\n"
    ),
}
_CALLING = """import numpy as np
def f(oracle):
    x = np.ones(({points}, 20))
    for _ in range({calls}):
        oracle(x)
    return 1
"""


def run(makers: Sequence[str], *, quick: bool) -> Result:
    """Gradings with calls and without take turns."""
    calls, rounds = (20, 2) if quick else (1000, 9)
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        challenge = _challenge(Path(folder))
        for maker in makers:
            with Grader(maker) as grader:
                spent: dict[int, list[float]] = {0: [], calls: []}
                for _ in range(rounds):
                    for count, times in spent.items():
                        times.append(_seconds(grader, challenge, count))
            a_call_s = (median(spent[calls]) - median(spent[0])) / calls
            figures[f"{maker}: one call of an oracle, ms"] = round(1000 * a_call_s, 3)
            figures[f"{maker}: a problem without calls, ms"] = round(1000 * median(spent[0]), 1)
    return Result(
        "oracle",
        f"open challenges: {calls} calls of an oracle with {POINTS} points each",
        figures=figures,
        targets={f"{maker}: one call of an oracle, ms": "<= 1" for maker in makers},
    )


def _challenge(folder: Path) -> Challenge:
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_dataset(f"{folder}@open").challenge("echo@open")


def _seconds(grader: Grader, challenge: Challenge, calls: int) -> float:
    verdict = grader.grade(challenge, _CALLING.format(points=POINTS, calls=calls), final=True)
    if verdict.status != "passed":
        raise RuntimeError(f"the benchmark's submission has not passed: {verdict.message}")
    return verdict.timings["run_s"] + verdict.timings["judge_s"]
