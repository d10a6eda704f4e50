"""The Gymnasium environment: a tool call in, an observation and a reward out.

environment.py  `ResearchCodeEnv`: reset, step, budgets, snapshots and forks
actions.py      the tools, their schemas, the spaces
workspace.py    an episode's files, in memory; only the region may change
edits.py        replacing text and lines
patches.py      applying a unified diff
feedback.py     a test run in words, by the level of feedback
rewards.py      what a step earns
vector.py       many environments, stepped in threads
"""
