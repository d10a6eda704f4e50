"""Runs as pages: `rcb view`, and the files that `rcb report --html` and `rcb compare --html` write.

Pages are read from run folders and an index of each; nothing here plays, grades or changes a run.

index.py      what a run's episodes are, in a table beside the run: found, filtered and counted without reading all
cache.py      where those tables are
catalog.py    the runs below a folder, by the names that addresses have
live.py       whether somebody writes a run, and which episodes are in play
queries.py    what is asked of an index
totals.py     a run in a few numbers
items.py      challenges as the items of a test
pairs.py      two runs side by side
attempts.py   the stored attempts at an episode, and the one in play
steps.py      an episode's trajectory as steps, each with what led to it
regions.py    the region's text after each step
tasks.py      a run's challenges: masked file, hint, paper, solution
texts.py      text from anywhere, as it may stand in a page; code, diffs, Markdown
markup.py     templates and how they are filled
pages.py      what each page shows
guard.py      who may ask, and what a browser may do with the answer
app.py        addresses, and the server
charts.py     charts of some runs, by Altair; drawn.py: as SVG, PNG, PDF
document.py   a report or a comparison as one file
"""
