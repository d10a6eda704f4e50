"""Completions that the public harness stored, or would grade otherwise: every other verdict is told with its cause."""

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


def write_public_set(folder: Path) -> None:
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def completion(code: str, passed: bool | None, exit_code: int = 0) -> dict[str, Any]:
    told = {"passed": passed, "exit_code": exit_code, "stdout": "", "stderr": ""}
    return {
        "completion": f"```python\n{code}```",
        "formatted_completion": {"lines": code.splitlines()},
        "test_result": None if passed is None else {"success": exit_code == 0, **told},
    }


def test_stored_completions_are_graded_again_and_differences_have_a_cause(tmp_path: Path) -> None:
    """Right code that printed "failed" failed by the public rule, and one answer was never tested."""
    write_public_set(tmp_path / "pset")
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


def test_the_public_verdict_stands_beside_ours_where_it_is_asked_for(tmp_path: Path) -> None:
    write_public_set(tmp_path / "pset")
    codes = (
        "    return x * 2 + 1\n",
        '    print("failed")\n    return x * 2 + 1\n',
        "    return x\n",
        "    import os\n    os._exit(0)\n",
    )
    lines = [
        json.dumps({"challenge": "tiny/scale", "sample": number, "code": code}) + "\n"
        for number, code in enumerate(codes)
    ]
    (tmp_path / "answers.jsonl").write_text("".join(lines))
    where = (
        "--dataset",
        tmp_path / "pset",
        "--challenges",
        "tiny/scale",
        "--sandbox",
        "bubblewrap",
    )
    rcb("grade", tmp_path / "answers.jsonl", "--official", *where, "--out", tmp_path / "run")
    stored = [
        json.loads(line)["episode"]["verdict"]
        for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    ]
    both = sorted((told["status"], told["official_pass"]) for told in stored)
    assert both == [("failed", False), ("failed", True), ("passed", False), ("passed", True)]
    told = json.loads(rcb("report", tmp_path / "run", "--by", "official", "--json"))["official"]
    assert (told["graded"], told["both_pass"], told["both_fail"]) == (4, 1, 1)
    (ours,), (official,) = told["only_ours"], told["only_official"]
    assert ours.endswith("it printed 'failed'")
    assert official.endswith("the script still ended with 0")


def test_the_public_verdict_of_a_native_paper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text(
        '{"challenge": "DyT/forward", "sample": 0, "code": ""}\n'
    )
    words = ("grade", tmp_path / "answers.jsonl", "--official", "--out", tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--official is for folders of the public benchmark" in done.stderr
    assert not (tmp_path / "run").exists()
