"""Optimal stepsize distillation: the best few steps, found by dynamic programming."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from solvers import State, advance
from velocity import Velocity


class Distilled(NamedTuple):
    """What the search found, for M steps on a grid of N intervals.

    Attributes:
        schedule: M + 1 rising positions in the grid, from 0 to N.
        costs: (M + 1, N + 1): least cost of each position after each number of steps, inf where
            there is no way, or the last position could not be reached in the steps that are left.
        parents: (M + 1, N + 1), int64: position before; -1 where there is none.
        final: (B, D): where the student ends.
    """

    schedule: list[int]
    costs: Tensor
    parents: Tensor
    final: Tensor


def trace_back(parents: Tensor) -> list[int]:
    """The schedule that ends at the last position after the last step: M + 1 rising positions.

    Args:
        parents: (M + 1, N + 1), int64: row m holds the positions before the m-th step.
    """
    # <paper2code name="backtracking">
    _, count = parents.shape
    position = count - 1
    schedule = [position]
    for row in parents[1:].flip(0):
        position = row[position].item()
        schedule.append(position)
    return schedule[::-1]
    # </paper2code name="backtracking">


@torch.no_grad()
def distill(
    velocity: Velocity, teacher: Tensor, grid: Tensor, steps: int, order: int = 1
) -> Distilled:
    """Distill a schedule of few steps from a trajectory of many.

    Args:
        velocity: the field.
        teacher: (N + 1, B, D): the teacher's trajectory.
        grid: (N + 1,): the teacher's falling times.
        steps: M.
        order: of the student's solver.

    Raises:
        ValueError: not 1 <= M <= N, or trajectory and grid differ in length.
    """
    # <paper2code name="optimal stepsize search">
    intervals = len(grid) - 1
    if len(teacher) != len(grid) or not 1 <= steps <= intervals:
        raise ValueError(f"{steps} steps on a grid of {intervals} intervals")
    times = grid.tolist()
    costs = torch.full((steps + 1, intervals + 1), float("inf"), dtype=torch.float64)
    parents = torch.full((steps + 1, intervals + 1), -1)
    costs[0, 0] = 0.0
    states = {0: State(teacher[0], times[0])}
    for step in range(1, steps + 1):
        # <paper2code name="all positions after one more step">
        arrived: dict[int, State] = {}
        furthest = intervals - (steps - step)
        for start, state in states.items():
            slope = velocity(state.x, state.time)
            for end in range(start + 1, furthest + 1):
                candidate = advance(state, slope, times[end], order)
                # <paper2code name="cost and best predecessor">
                cost = (candidate.x - teacher[end]).double().square().mean().item()
                if cost < costs[step, end]:
                    costs[step, end] = cost
                    parents[step, end] = start
                    arrived[end] = candidate
                # </paper2code name="cost and best predecessor">
        states = arrived
        # </paper2code name="all positions after one more step">
    return Distilled(trace_back(parents), costs, parents, states[intervals].x)
    # </paper2code name="optimal stepsize search">
