"""The public benchmark's own verdict, beside ours: one run of the suite as its harness does, and its rule.

The rule: the script ends within 60 s, with exit code 0, and none of four words is in its output. It is asked for on demand, in
studies of how far both agree, and never decides anything: right code that prints "failed" fails by it, and code that ends the
interpreter with 0 passes.
Guarantees: it runs in a box for candidates like all other code.
Not covered: a folder that earlier completions have left files in, as the harness's cache may: ours is always fresh. The
harness uses all processors, a box as many threads as it was made with.
"""

from __future__ import annotations

from dataclasses import replace

from rcb_env.dataset.loading import SUITE
from rcb_env.dataset.papers import Challenge
from rcb_env.errors import BoxDied
from rcb_env.grading.isolated import run_of
from rcb_env.grading.outcome import how_it_ended
from rcb_env.grading.verdict import Verdict
from rcb_env.runner import wire
from rcb_env.sandbox.fleet import Fleet

_RUN = "rcb_env.runner.official_run:run"
WORDS = ("Error:", "Exception:", "Traceback", "failed")


def with_official(fleet: Fleet, challenge: Challenge, code: str, verdict: Verdict) -> Verdict:
    """A verdict of ours with the public one beside it.

    Raises:
        BoxDied: no box works.
    """
    paper = challenge.paper
    request = run_of(
        paper,
        _RUN,
        wire.pack({"suite": SUITE}),
        {**paper.tests, **challenge.tree(code)},
        words=WORDS,
    )
    run = fleet.run_candidate(request)
    if isinstance(run, BoxDied):
        ended = "memory" if run.out_of_memory else "its box ended"
    elif run.ended == "timeout":
        ended = "time"
    elif run.ended == "memory":
        ended = "memory"
    elif run.exit_code != 0:
        ended = how_it_ended(run)
    elif run.words:
        ended = f"it printed {', '.join(map(repr, sorted(run.words)))}"
    else:
        ended = ""
    return replace(verdict, official_pass=not ended, official_end=ended)
