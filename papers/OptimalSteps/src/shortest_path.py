"""A rival: choose steps by the errors of single jumps that start on the teacher's trajectory."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from velocity import Velocity


def jump_costs(velocity: Velocity, teacher: Tensor, grid: Tensor) -> Tensor:
    """The error of one Euler step between any two points of the teacher.

    Args:
        velocity: called once per position but the last, in rising order.
        teacher: (N + 1, B, D).
        grid: (N + 1,), falling.

    Returns:
        (N + 1, N + 1), double precision: entry (j, i) for the jump from position j to i > j; inf
        elsewhere.
    """
    # <paper2code name="errors of single jumps">
    count = len(grid)
    costs = torch.full((count, count), math.inf, dtype=torch.float64)
    for j in range(count - 1):
        slope = velocity(teacher[j], grid[j].item())
        lengths = (grid[j + 1 :] - grid[j]).to(teacher.dtype)
        landed = teacher[j] + lengths[:, None, None] * slope  # (N - j, B, D)
        missed = (landed - teacher[j + 1 :]).double()
        costs[j, j + 1 :] = missed.square().mean(dim=(1, 2))
    return costs
    # </paper2code name="errors of single jumps">


def cheapest_path(costs: Tensor, steps: int) -> tuple[list[int], float]:
    """The path of exactly ``steps`` jumps from the first to the last position with least total cost.

    Args:
        costs: (N + 1, N + 1): entry (j, i) for the jump from j to i; inf where there is none.
        steps: M.

    Returns:
        M + 1 positions, and their total cost.

    Raises:
        ValueError: the costs are not square, or there is no such path of finite cost.
    """
    # <paper2code name="cheapest path of exactly M jumps">
    if costs.shape != (len(costs),) * 2:
        raise ValueError("the costs of jumps are a square matrix")
    if steps < 1:
        raise ValueError("a path has at least one jump")
    totals = torch.full((len(costs),), math.inf, dtype=torch.float64)
    totals[0] = 0
    origins = []
    for _ in range(steps):
        # <paper2code name="paths with one more jump">
        totals, origin = (totals[:, None] + costs).min(dim=0)
        # </paper2code name="paths with one more jump">
        origins.append(origin.tolist())
    cost = totals[-1].item()
    if math.isinf(cost):
        raise ValueError(f"no path of {steps} jumps reaches the last position")
    path = [len(costs) - 1]
    while origins:
        path.insert(0, origins.pop()[path[0]])
    return path, cost
    # </paper2code name="cheapest path of exactly M jumps">
