"""Sampling along a schedule, and how far a short schedule strays from a long one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from solvers import State, advance
from velocity import Velocity


def sample_trajectory(
    velocity: Velocity, noise: Tensor, times: Sequence[float], order: int = 1, corrected: bool = False
) -> Tensor:
    """Solve the ODE along falling times.

    Args:
        velocity: called once per step, or twice where steps are corrected.
        noise: (B, D): x at ``times[0]``.
        times: N + 1 falling times.
        order: of the solver.
        corrected: follow each step by a trapezoidal correction, except for a step to time 0.

    Returns:
        (N + 1, B, D): x at all times.

    Raises:
        ValueError: fewer than two times, times that do not fall, or times outside of [0, 1].
    """
    # <paper2code name="trajectory along a schedule">
    if len(times) < 2:
        raise ValueError("a trajectory has at least two times")
    if not all(0 <= time <= 1 for time in times):
        raise ValueError("times lie between 0 (data) and 1 (noise)")
    visited = [State(noise, times[0])]
    for end in times[1:]:
        begin = visited[-1]
        slope = velocity(begin.x, begin.time)
        landed = advance(begin, slope, end, order)
        if corrected and end > 0:
            after = velocity(landed.x, end)
            better = begin.x + landed.length * (slope + after) / 2
            landed = landed._replace(x=better)
        visited.append(landed)
    return torch.stack([state.x for state in visited])
    # </paper2code name="trajectory along a schedule">


def schedule_errors(
    velocity: Velocity, teacher: Tensor, grid: Tensor, schedule: Sequence[int], order: int = 1
) -> Tensor:
    """How far a student is from its teacher.

    Args:
        velocity: the field.
        teacher: (N + 1, B, D): the teacher's trajectory.
        grid: (N + 1,): the teacher's times.
        schedule: rising positions in the grid, from 0 to N.
        order: of the student's solver.

    Returns:
        (len(schedule),): relative error at each position of the schedule, mean over the batch.

    Raises:
        ValueError: the schedule does not start at 0, end at N, and rise.
    """
    # <paper2code name="error of a student along its schedule">
    stops = list(schedule)
    if stops[:1] != [0] or stops[-1:] != [len(grid) - 1]:
        raise ValueError("a schedule covers the whole grid")
    if any(early >= late for early, late in pairwise(stops)):
        raise ValueError("the positions of a schedule rise")
    target = teacher[stops]
    student = sample_trajectory(velocity, target[0], grid[stops].tolist(), order)
    distance = torch.linalg.vector_norm(student - target, dim=-1)
    relative = distance / torch.linalg.vector_norm(target, dim=-1)  # (M + 1, B)
    return relative.T.mean(dim=0)
    # </paper2code name="error of a student along its schedule">
