"""The Gymnasium environment: a tool call in, an observation and a reward out.

environment.py  `ResearchCodeEnv`: reset, step, budgets, snapshots and forks
settings.py     what an agent is shown and the rules it plays by: every setting of an episode
state.py        where an episode stands, and what an action did
words.py        the assignment, and what `render` shows
acting.py       what an action does
actions.py      the tools and their schemas
spaces.py       the Gymnasium spaces
drawing.py      which challenge an episode is about
workspace.py    an episode's files, in memory; only the region may change
writable.py     what of them may change: one region, or several
edits.py        replacing text and lines
patches.py      applying a unified diff
feedback.py     a test run in words, by the level of feedback
rewards.py      what a step earns
verdicts.py     which grader says whether an answer passes
curriculum.py   a sampler of challenges that follows the policy's success
vector.py       many environments, stepped in threads
"""
