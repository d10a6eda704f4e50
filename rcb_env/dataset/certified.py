"""What a data set's own record says of a paper, for those who play it and do not check it.

`rcb check --full` writes the record (`rcb_env.certify`); of a paper that has changed since it says nothing.
Not covered: what is in the record of a challenge.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rcb_env.dataset.knobs import FILE as KNOBS
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.dataset.scopes import scope_of

CERTIFICATE = "CERTIFICATE.json"
"""The record's name, in the folder of the data set."""
SURVIVORS = "tests/survivors.yaml"
"""Why a paper's tests need not notice some faults, in the folder of the paper."""
ANSWERS = "tests/answers.yaml"
"""Answers other than the reference, in the folder of the paper."""


def content_of(paper: Paper) -> str:
    """Hash of everything a certificate is about: text, code, tags, tests, limits, reasons, other answers."""
    state = hashlib.sha256(paper.content_hash.encode())
    for challenge in paper.challenges:
        state.update(f"{challenge.id} {challenge.content_hash}\n".encode())
    for name in (SURVIVORS, ANSWERS):
        beside = paper.root / name
        state.update(beside.read_bytes() if beside.is_file() else b"")
    return state.hexdigest()


def content_of_variants(paper: Paper) -> str:
    """The same of what a certificate of a paper's variants is about: with its file of knobs."""
    path = paper.root / KNOBS
    knobs = path.read_bytes() if path.is_file() else b""
    return hashlib.sha256(content_of(paper).encode() + knobs).hexdigest()


def record_of(challenge: Challenge) -> Mapping[str, Any] | None:
    """What is on record of a challenge; None: nothing, or not as it is now."""
    if challenge.paper.layout != "native":
        return None
    found = _challenges(challenge.paper).get(challenge.id)
    return found if isinstance(found, Mapping) else None


@functools.lru_cache(maxsize=64)
def _challenges(paper: Paper) -> Mapping[str, Any]:
    scope = scope_of(paper.challenges[0].id)
    try:
        record = json.loads((paper.root.parent / CERTIFICATE).read_bytes())["papers"][paper.id]
        record = record if scope == "region" else record["scopes"][scope]
        return dict(record["regions"]) if record["content"] == content_of(paper) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
