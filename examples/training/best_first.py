"""Best-first search over edits, with `fork`: repairs faulty code by trying small changes.

    python examples/training/best_first.py DyT/forward

A node is a forked environment, so every branch has its own files, history and budgets, and a fork
costs microseconds. The search takes the node whose tests passed most, tries the changes that
`rcb_env.mutants` makes of its code, and stops at the first that passes all; that one is submitted.
No model is asked: a language model would propose edits where this one enumerates them.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
from dataclasses import dataclass

import rcb_env


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    solved: bool
    tested: int
    """Codes that were run."""
    forks: int
    status: str
    """Of the final verdict."""


def passed_part(env: rcb_env.ResearchCodeEnv, code: str) -> float:
    """The part of the tests that pass with this code in the region."""
    env.step({"tool": "write_region", "arguments": {"code": code}})
    _, _, _, truncated, info = env.step({"tool": "run_tests"})
    tests = info["tests"]
    if truncated or not tests:
        return 0.0
    if tests["status"] == "passed":
        return 1.0
    return float(tests["passed"]) / tests["total"] if tests["total"] else 0.0


def search(challenge: str, start: str, *, most_tests: int) -> Found:
    """Repair ``start`` by changes of one place at a time.

    Args:
        challenge: its id.
        start: the code to begin with.
        most_tests: codes to run before giving up.
    """
    root = rcb_env.ResearchCodeEnv(
        challenge, max_steps=4 * most_tests + 4, max_test_runs=most_tests + 1, feedback="counts"
    )
    root.reset(seed=0)
    order = itertools.count()
    best = passed_part(root, start)
    frontier = [(-best, next(order), root)]
    seen, tested, forks = {start}, 1, 0
    while frontier:
        _, _, node = heapq.heappop(frontier)
        for mutant in rcb_env.mutants(node.code):
            if mutant.code in seen:
                continue
            if tested == most_tests:
                _, _, _, _, info = node.step({"tool": "submit"})
                return Found(False, tested, forks, info["verdict"]["status"])
            seen.add(mutant.code)
            child = node.fork()
            forks += 1
            tested += 1
            part = passed_part(child, mutant.code)
            if part == 1.0:
                _, _, _, _, info = child.step({"tool": "submit"})
                return Found(info["verdict"]["status"] == "passed", tested, forks, "passed")
            heapq.heappush(frontier, (-part, next(order), child))
    return Found(False, tested, forks, "failed")


def main() -> None:
    """Break the reference in some places, and search."""
    parser = argparse.ArgumentParser(description="Best-first search over edits.")
    parser.add_argument("challenge", nargs="?", default="DyT/forward")
    parser.add_argument("--faults", type=int, default=1, help="how often the code is broken")
    parser.add_argument("--tests", type=int, default=400, help="codes to run at most")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    code = rcb_env.load_dataset().challenge(chosen.challenge).reference
    drawn = random.Random(chosen.seed)
    for _ in range(chosen.faults):
        fault = drawn.choice(rcb_env.mutants(code))
        code = fault.code
        print(f"fault: {fault.description}")
    found = search(chosen.challenge, code, most_tests=chosen.tests)
    told = "solved" if found.solved else f"not solved ({found.status})"
    print(f"{told} after {found.tested} codes in {found.forks} forks")


if __name__ == "__main__":
    main()
