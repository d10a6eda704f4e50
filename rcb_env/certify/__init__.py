"""`rcb check`: is a paper good enough to judge agents by?

Points looked at: every region is short; nothing the agent sees holds a region's answer; the
reference passes again and again, with the seeds of feedback and of the final score; what a region
gives depends on the seed; an emptied region fails; small faults in a region fail; other answers end
as their author says. What is wrong becomes a `Problem` with file and line.

    points.py       what can be said without running code       problem.py   what a check found, and how it is told
    run.py          what takes runs; `certify`                  verdicts.py  verdicts by content
    batch.py       many candidates graded at once
    reasons.py      why some mutants may survive
    answers.py      answers other than the reference, right and wrong ones
    open.py         what an open challenge has to meet
    joint.py        what challenges of several regions have to meet
    variants.py     what variants have to meet; variant_texts.py: without running them
    suites.py       papers in the public layout
    nothing.py      what partial credit can be had without trying
    certificate.py  what was found, and the file of it that is committed with a data set

Not covered: the prose of a paper; known exploits, which have tests of their own.
"""

from __future__ import annotations

from rcb_env.certify.batch import Progress
from rcb_env.certify.certificate import Certificate, CertificateFile, Depth, RegionResult, Survivor
from rcb_env.certify.points import leaks, static_problems
from rcb_env.certify.problem import Problem
from rcb_env.certify.run import certify
from rcb_env.certify.verdicts import Verdicts

__all__ = [
    "Certificate",
    "CertificateFile",
    "Depth",
    "Problem",
    "Progress",
    "RegionResult",
    "Survivor",
    "Verdicts",
    "certify",
    "leaks",
    "static_problems",
]
