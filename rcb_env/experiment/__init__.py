"""Many episodes: what is planned, who works on it, and how it stops and resumes.

plan.py     `RunConfig`, the plan it makes, the record in run.json, `open_run`
crew.py     worker threads, retry, progress, and stopping in seconds
playing.py  `run_experiment`: an agent plays the plan
spending.py what all episodes together may use
judging.py  `grade_completions` and `regrade`: runs made of code that is there already
"""

from __future__ import annotations

from rcb_env.experiment.crew import Interrupted, Progress
from rcb_env.experiment.judging import grade_completions, regrade
from rcb_env.experiment.plan import RunConfig, default_folder, open_run
from rcb_env.experiment.playing import run_experiment
from rcb_env.experiment.spending import RunBudgetSpent

__all__ = [
    "Interrupted",
    "Progress",
    "RunBudgetSpent",
    "RunConfig",
    "default_folder",
    "grade_completions",
    "open_run",
    "regrade",
    "run_experiment",
]
