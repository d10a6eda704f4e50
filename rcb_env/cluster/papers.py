"""Papers on their way to nodes: each is put into the object store once, and a node reads it once.

A paper is known by the hash of its content, so a node that joins, or starts anew, asks for it and nobody else does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import ray

from rcb_env.dataset.papers import Challenge, Dataset, Paper


@dataclass(frozen=True)
class Sent:
    """A paper in the object store.

    Attributes:
        content_hash: of the paper, with its challenges.
        refs: holds the object; in a list, so that Ray does not fetch it before somebody wants it.
    """

    content_hash: str
    refs: list[Any]


class Sender:
    """Puts papers into the object store, each once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[str, Sent] = {}

    def paper(self, challenge: Challenge) -> Sent:
        """The paper of a challenge."""
        paper = challenge.paper
        key = _key(paper)
        with self._lock:
            if key not in self._sent:
                self._sent[key] = Sent(key, [ray.put(Dataset(paper.id, (paper,)))])
            return self._sent[key]


class Received:
    """The papers that a node has read. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._papers: dict[str, Dataset] = {}

    def of(self, sent: Sent) -> Dataset:
        """A data set of this paper alone."""
        with self._lock:
            if sent.content_hash not in self._papers:
                self._papers[sent.content_hash] = ray.get(sent.refs[0])
            return self._papers[sent.content_hash]


def _key(paper: Paper) -> str:
    # Two scopes of a paper have the same content and other challenges.
    first = paper.challenges[0].id if paper.challenges else ""
    return f"{paper.content_hash} {first} {len(paper.challenges)}"
