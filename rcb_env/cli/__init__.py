"""The command `rcb`.

main.py      the group, errors and exit codes
options.py   options that several commands share
browse.py    rcb list, rcb show
check.py     rcb check
doctor.py    rcb doctor
images.py    rcb images
run.py       rcb run
grade.py     rcb grade
results.py   rcb report, rcb trajectory
compare.py   rcb compare
export.py    rcb export
progress.py  live progress
output.py    the one way out to a terminal

Every module imports click and nothing heavy at its top; a command imports what it needs when it is called, so that
`rcb --help` answers at once.
"""

from __future__ import annotations

from rcb_env.cli.main import main

__all__ = ["main"]
