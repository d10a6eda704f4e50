"""What the machinery costs, always beside the plain way of doing the same, in one run.

    python -m benchmarks --quick

measure.py   samples of jobs that take turns, and what is said of them
instead.py   steps of an environment against containers that are asked for each: docker exec, mini-swe-agent, swe-rex
envs.py      steps per second against the number of environments; graded completions per second
summary.py   tables and one chart of a run
plain.py     the plain way: an interpreter of its own, fresh or already warm, that runs a paper's cases
grading.py   one warm grading against a fresh interpreter
actions.py   steps of an environment against `docker exec`, `docker run` and a fresh interpreter
folders.py   graded completions of the public data set's folders against the public harness's way
memory.py    what a warm box takes, and sixteen of them at once (a command of its own)
steps.py     file actions per second
leaks.py     what many steps leave behind: memory, descriptors, threads, processes

Two measure numbers of reports, in simulated runs, and are commands of their own:

intervals.py how often intervals hold the truth
power.py     whether a gap is seen as often as is said

Nothing here decides whether a test passes: times depend on the machine and on what else it does.
"""
