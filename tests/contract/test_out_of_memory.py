"""A whole container that the kernel ends for memory, seen by whoever asked for a grade."""

from __future__ import annotations

from typing import Any

import pytest

from rcb_env.dataset.papers import Dataset
from rcb_env.grading.grader import Grader
from rcb_env.sandbox.box import MIB, BoxSettings


def test_code_that_ends_its_container_for_memory_twice_is_out_of_memory(
    docker_only: str, small_papers: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C025: it is the code's failure, neither a plain one nor one of the infrastructure."""
    challenge = small_papers.challenge("small/scale")
    with Grader(docker_only) as grader:
        grader.outputs(challenge, final=True)  # the box of the judge starts with its usual memory
        monkeypatch.setattr("rcb_env.sandbox.docker.BOX_MEMORY_BYTES", 100 * MIB)
        start, started = grader._fleet.maker.start, []

        def counted(settings: BoxSettings) -> Any:
            started.append(settings)
            return start(settings)

        monkeypatch.setattr(grader._fleet.maker, "start", counted)
        large = challenge.reference + "    # " + "x" * 120 * MIB + "\n"  # its runner has to hold it
        verdict = grader.grade(challenge, large, final=True)
        assert (verdict.status, verdict.error_class) == ("out_of_memory", "memory")
        assert verdict.message == "the tests used more memory than they may"
        # Twice for the code, and once to see that a box works without it.
        assert len(started) == 3
        assert grader.grade(challenge, challenge.reference, final=True).passed
