"""What people and scripts read of a run.

scoring.py     rates, intervals, comparisons: the statistics
summary.py     one run in numbers
comparison.py  runs side by side, paired by challenge
tables.py      both as tables in a terminal
export.py      numbers as JSON and CSV
training.py    episodes as rows to train on: `rcb export`
trajectory.py  one episode, step by step, as text
"""
