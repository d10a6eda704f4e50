"""The same runs and gradings on the nodes of a Ray cluster; nothing here is imported without it.

node.py        the one actor of a node: its boxes, and the episodes that are played there
papers.py      papers, sent to a node once
members.py     the nodes of a cluster as a driver sees them: those that join, leave, or cannot run code
episodes.py    where a run's episodes are played: `rcb run --cluster`
grader.py      a grader whose boxes are those of nodes: `rcb grade|check --cluster`, and `sandbox="ray"`
connecting.py  from `auto`, an address or `local:N` to a cluster

Ray schedules, transports and watches; this folder says what goes where. Not covered: how a cluster is started
(docs/clusters.md).
"""
