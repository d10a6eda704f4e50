"""A candidate's code in, a verdict out. The code of this folder decides every score.

grader.py    `Grader`: owns the boxes, chooses the mode by the paper's layout
isolated.py  native papers: candidate and reference in two boxes, outputs compared
measured.py  open challenges: a conversation between two boxes, and a score against the paper's own method
exchange.py  the conversation of one problem, message by message
public.py    public folders: split where a suite can be, else guarded
split.py     the suite in two boxes, what it compares held side by side; nothing is believed
comparison.py  how it is held side by side
copies.py    a suite in two copies, one of them without the answer; rewriting.py: how they are written;
             kinds.py: where its values come from
official.py  the public benchmark's own verdict, beside ours
evidence.py  which regions can be graded split, found out by trying
guarded.py   suite, candidate and reference in one process, watched by canaries
canaries.py  which faults in hidden code a suite notices; faults.py: what faults there are;
             disguise.py: hidden code looks new in every run
reports.py   what one run of a suite reported
causes.py    the class of an error, from the exception's type
outcome.py   how a run ended, in one verdict, for all ways
looks.py     whether code looks around in its process
worth.py     what cases are worth as partial credit; nulls.py: the answers that make a case free
code.py      which code that is, as one hash
verdict.py   `Verdict`: what is said of a candidate
shared.py    the graders that all environments of a process use
"""
