"""Completions that the public harness stored are graded again here, and every other verdict is told with its cause."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MODEL = '''"""Two regions."""


def scale(x):
    # <paper2code name="scale">
    y = x * 2
    return y + 1
    # </paper2code name="scale">


def shift(x):
    # <paper2code name="shift">
    return x + 3
    # </paper2code name="shift">
'''
SUITE = """import unittest

from model import scale, shift
from model_ref import scale_ref, shift_ref


class TestBoth(unittest.TestCase):
    def test_scale(self):
        self.assertEqual(scale(5), scale_ref(5))

    def test_shift(self):
        self.assertEqual(shift(5), shift_ref(5))


if __name__ == "__main__":
    unittest.main()
"""
FILES = {
    "papers.yaml": "- id: tiny\n  title: Tiny\n  annotated_file_paths: model.py\n",
    "tiny/model.py": MODEL,
    "tiny/model_ref.py": "def scale_ref(x):\n    return x * 2 + 1\n\n\ndef shift_ref(x):\n    return x + 3\n",
    "tiny/paper2code_paper.md": "Scale it, shift it.\n",
    "tiny/paper2code_test.py": SUITE,
}


def rcb(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completion(code: str, passed: bool | None, exit_code: int = 0) -> dict[str, Any]:
    told = {"passed": passed, "exit_code": exit_code, "stdout": "", "stderr": ""}
    return {
        "completion": f"```python\n{code}```",
        "formatted_completion": {"lines": code.splitlines()},
        "test_result": None if passed is None else {"success": exit_code == 0, **told},
    }


def test_stored_completions_are_graded_again_and_differences_have_a_cause(tmp_path: Path) -> None:
    """Right code that printed "failed" failed by the public rule, and one answer was never tested."""
    for path, text in FILES.items():
        (tmp_path / "pset" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pset" / path).write_text(text)
    scale = [
        completion('    print("failed")\n    return x * 2 + 1\n', False, 0),
        completion("    return x\n", False, 1),
    ]
    shift = [completion("    return x + 3\n", None), completion("    return 3 + x\n", True)]
    snippets = [
        {"name": "scale", "start_line": 4, "predictions": {"M": {"completions": scale}}},
        {"name": "shift", "start_line": 11, "predictions": {"M": {"completions": shift}}},
    ]
    files = [{"rel_path": "model.py", "snippets": snippets}]
    answers = {"problems": [{"folder_name": "tiny", "problem_files": files}]}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    where = ("--dataset", tmp_path / "pset")
    rcb("import", tmp_path / "answers.json", *where, "--out", tmp_path / "official")
    before, after = tmp_path / "official" / "M", tmp_path / "ours"
    rcb("grade", before, "--sandbox", "bubblewrap", "--out", after, "--quiet")
    report = json.loads(rcb("report", after, "--json"))
    assert {state: n for state, n in report["states"].items() if n} == {"passed": 3, "failed": 1}
    pair = json.loads(rcb("compare", before, after, "--json"))
    found = {(one["challenge"], one["sample"]): one for one in pair["disagreements"]}
    assert not any("differ in more than" in told for told in pair["comparison"]["warnings"])
    assert {key: (one["a"], one["b"], one["cause"]) for key, one in found.items()} == {
        ("tiny/scale", 0): ("failed", "passed", "a word in the output"),
        ("tiny/shift", 0): ("infra_error", "passed", "could not be graded"),
    }
    shown = rcb("compare", before, after)
    assert (
        "2 equal answers with two verdicts (1 a word in the output, 1 could not be graded):"
        in shown
    )
    assert "tiny/scale: failed in A, passed in B (a word in the output)" in shown
