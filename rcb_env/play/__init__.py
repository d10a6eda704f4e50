"""An agent plays an episode.

agent.py       what an agent is and what it is given: `Task`, `Turn`, `Usage`
registry.py    agents by name, or as ``module:Class``
episode.py     the one loop
record.py      what comes of it: `Episode`, `Step`
meter.py       what an episode has used, and whether that is too much
extraction.py  the code in a model's reply; joint_extraction.py: that of several regions
reasoning.py   what of a reply is no answer: its reasoning, the tokens around its turn
fences.py      the line that opens or closes a block of code
echoes.py      what of that code merely repeats the lines around the region
"""
