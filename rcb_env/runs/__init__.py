"""Many episodes: what is planned, who works on it, and how it stops and resumes.

plan.py       `RunConfig`, the plan it makes, the record in run.json, `open_run`
arms.py       several agents on equal terms: one run each, side by side
workers.py    worker threads, retry, and stopping in seconds
telling.py    how far a run is
playing.py    `run_experiment`: an agent plays the plan
regrading.py  `grade_completions` and `regrade`: runs made of code that is there already
importing.py  runs made of what the public benchmark's harness stored
spending.py   what all episodes together may use
store.py      a run's folder: what is written, and read back
folders.py    which run, or which runs, a folder holds
steps.py      the file of one attempt, step by step
stored.py     what run.json and a line of episodes.jsonl must hold
durable.py    files that outlive a crash
"""

from __future__ import annotations

from rcb_env.runs.plan import RunConfig, default_folder, open_run
from rcb_env.runs.playing import ask_ahead, run_experiment
from rcb_env.runs.regrading import grade_completions, regrade
from rcb_env.runs.spending import RunBudgetSpent
from rcb_env.runs.telling import Progress
from rcb_env.runs.workers import Interrupted

__all__ = [
    "Interrupted",
    "Progress",
    "RunBudgetSpent",
    "RunConfig",
    "ask_ahead",
    "default_folder",
    "grade_completions",
    "open_run",
    "regrade",
    "run_experiment",
]
