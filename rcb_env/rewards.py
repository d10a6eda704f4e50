"""Reward functions: pure, so that the reward of a stored episode can be computed again.

Not covered: when a reward is paid (`rcb_env.env`: once, with the step that ends the episode).
"""

from __future__ import annotations


def sparse(status: str) -> float:
    """1.0 for a solved challenge, 0.0 for everything else.

    Args:
        status: of the final verdict. An ``infra_error`` says nothing about the agent and also gets
            0.0; leave such episodes out of training.
    """
    return 1.0 if status == "passed" else 0.0
