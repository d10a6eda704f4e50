"""Path planning in the space of codes: no coordinates are needed to get closer to a goal."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


@torch.no_grad()
def plan(
    motion: Callable[[Tensor, Tensor], Tensor],
    start: Tensor,
    goal: Tensor,
    step: float,
    headings: int,
    max_steps: int,
    tolerance: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Walk greedily towards the goal, each time in the heading whose predicted code is nearest.

    Args:
        motion: codes (N, d) and displacements (N, 2) to codes (N, d).
        start, goal: (d,): codes of two places.
        step: the length of every step.
        headings: how many equally spaced headings are tried, from angle 0 on.
        max_steps: the longest plan.
        tolerance: a code this close to the goal, or closer, has arrived.

    Returns:
        The headings taken (S,) as int64 numbers from 0 to ``headings`` - 1, and the codes
        (S + 1, d) from the start on, S <= ``max_steps``.

    Raises:
        ValueError: ``headings`` is less than 1 or ``max_steps`` is negative.
    """
    # <paper2code name="greedy planning with codes">
    if headings < 1 or max_steps < 0:
        raise ValueError("at least one heading and no negative number of steps")
    angles = torch.arange(headings, dtype=start.dtype) * (2 * math.pi / headings)
    moves = step * torch.stack([angles.cos(), angles.sin()], dim=-1)  # (N, 2)
    codes, taken = [start], []
    distance = torch.linalg.vector_norm(goal - start)
    while len(taken) < max_steps and distance > tolerance:
        options = motion(codes[-1].expand(headings, -1), moves)  # (N, d)
        distances = torch.linalg.vector_norm(options - goal, dim=-1)
        best = int(distances.argmin())
        if distances[best] >= distance:
            break
        distance = distances[best]
        taken.append(best)
        codes.append(options[best])
    return torch.tensor(taken, dtype=torch.long), torch.stack(codes)
    # </paper2code name="greedy planning with codes">
