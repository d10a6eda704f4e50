"""What people and scripts read of a run.

scoring.py     one run: rates, their bounds, pass@k
pairing.py     two runs, paired by challenge: differences and a test
intervals.py   confidence intervals over papers
hierarchical.py  challenges within papers, by a mixed linear model
power.py       how large a gap two runs can show, and what it would take to see one
summary.py     one run in numbers
comparison.py  runs side by side: what else differs, and rates by effort
recall.py      how much more a run solves of published papers than of their variants
open_scores.py  the scores of open challenges, and their curve over test runs, tokens and money
items.py       challenges as the items of a test: difficulty, discrimination
item_sources.py  what they are computed from: run folders, a table of published results
public_results.py  the published results of 32 models, in data/; leaderboard.py: these and runs in one table,
               board_sheets.py: as sheets
ranks.py       ranks with their uncertainty
contamination.py  knowledge cutoffs against the days on which papers and code became public
probes.py      traces of memory in single answers
model_facts.py  price and cutoff of a run's model
disagreements.py  equal answers that two runs judged differently
error_classes.py  why answers were wrong, and what feedback mends
paper_impact.py  what the paper is worth: runs with and without it
paper_use.py   which sections of a paper an agent opened, and whether it helped
parity.py      the public benchmark's verdicts beside ours
kinds.py       what kind of challenge each of a run is; slices.py: rates of parts of a run, kind_sheets.py: as sheets
sheets.py      reports as plain tables of text; sheet.py: a table, and what Markdown and LaTeX make of it
tables.py      runs as tables in a terminal; pair_tables.py: two of them; item_tables.py: challenges as items
export.py      numbers as JSON and CSV
training.py    episodes as rows to train on: `rcb export`
stored_challenges.py  which challenges of a run are meant, and what their cases are worth
turns.py       the steps of a stored episode, with what its model said
prompts.py     what agents asked their models, as rows; tokens.py: rows in the tokens of one model
rows.py        files of rows: JSON Lines and Parquet
trajectory.py  one episode, step by step, as text
printable.py   text from anywhere, made harmless for a terminal
"""
