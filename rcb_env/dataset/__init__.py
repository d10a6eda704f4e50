"""Papers and their challenges: what is read, and from where.

papers.py     `Paper`, `Challenge`, `Dataset`: what everything else asks; regions.py: a paper's challenges; unknown_names.py: errors
holes.py      several missing parts as one answer; parts.py: what is told of each
scopes.py     the names of the scopes; joint.py: the challenges of a file or a paper
variants.py   the same paper with other choices made; knobs.py: its file of choices; variant_names.py: ids
loading.py    reads a folder of papers/, or of the public benchmark, into them: `load_dataset`
sections.py   a paper in parts, ranked by what they say about a missing part
markers.py    tags, masks, and code spliced into a region, byte for byte
layout.py     which lines of Python begin a statement, and which stand inside a string
flow.py       which names later code can still read
interface.py  what later code reads from a region: `Challenge.defines`
metadata.py   checks YAML
certified.py  what the record of `rcb check` says of a paper
imports.py    what Python files import
selection.py  which challenges are meant, and which of them an episode draws
splits.py     papers to train on, to choose by, and to report; difficulty.py: how hard a challenge is
bundled.py    where the papers and images that come with the package are
published.py  data sets of others, by name
pull.py       gets them: `rcb pull`
"""
