"""A candidate's code in, a verdict out. The code of this folder decides every score.

grader.py    `Grader`: owns the boxes, chooses the mode by the paper's layout
isolated.py  native papers: candidate and reference in two boxes, outputs compared
guarded.py   public folders: suite, candidate and reference in one process, watched by canaries
canaries.py  faults in hidden code that a suite must notice
code.py      which code that is, as one hash
verdict.py   `Verdict`: what is said of a candidate
shared.py    the graders that all environments of a process use
"""
