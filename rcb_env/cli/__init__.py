"""The command `rcb`.

main.py      the group, errors and exit codes
options.py   options that several commands share
settings.py  options as a run's configuration, and back from a run that is resumed
session.py   what commands that make a run share: its sandbox, its progress, its end
progress.py  live progress
config.py    rcb config, and rcb.toml
completion.py  rcb completion, and what names complete to
output.py    the one way out to a terminal

run.py       rcb run; arms.py: with --arms
serve.py     rcb serve
grade.py     rcb grade
results.py   rcb report, rcb trajectory
compare.py   rcb compare; forms.py: the files that both write
items.py     rcb items
view.py      rcb view
export.py    rcb export
browse.py    rcb list, rcb show
check.py     rcb check
new.py       rcb new
suggest.py   rcb suggest
pull.py      rcb pull
doctor.py    rcb doctor
images.py    rcb images
clean.py     rcb clean

Every module imports click and nothing heavy at its top; a command imports what it needs when it is called, so that
`rcb --help` answers at once.
"""

from __future__ import annotations

from rcb_env.cli.main import main

__all__ = ["main"]
