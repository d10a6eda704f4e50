"""What a run by the public benchmark's own rule executes: ``cd folder && python paper2code_test.py``.

The whole folder is on disk, suite and references included; nothing is seeded, and nobody but the script's exit code and output
tells how it went. Like a fresh interpreter it starts from generators that the machine seeds; unlike one it has the packages
imported already.
Not covered: what is run when an interpreter ends (`atexit`, threads that go on); what the rule makes of it
(`grading/official.py`).
"""

from __future__ import annotations

import random
import runpy
import sys
import traceback
from pathlib import Path
from typing import BinaryIO

from rcb_env.runner.case_run import parse


def run(argument: bytes, result: BinaryIO) -> int:
    """Run the script that the header's ``suite`` names, in the current folder; returns its exit code."""
    del result
    header, _ = parse(argument)
    script = str(Path.cwd() / header["suite"])
    sys.argv = [script]
    sys.path.insert(0, str(Path.cwd()))
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)  # noqa: T201 (as an interpreter does)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
