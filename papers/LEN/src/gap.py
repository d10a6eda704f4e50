"""How far a point is from being a saddle point, and what a run costs."""

from __future__ import annotations

import math

import numpy as np

from problems import Array, CubicBilinear


def restricted_gap(problem: CubicBilinear, z: Array, radius: float) -> float:
    """The duality gap of z when both players are confined to balls around the origin.

    Raises:
        ValueError: ``radius`` is not positive and finite.
    """
    # <paper2code name="restricted duality gap">
    if not 0 < radius < math.inf:
        raise ValueError(f"radius must be positive and finite, not {radius}")
    x, y = problem.split(z)
    miss = np.linalg.norm(problem.matrix @ x - problem.offset)
    best_of_y = problem.rho / 6 * np.linalg.norm(x) ** 3 + radius * miss
    slope = np.linalg.norm(problem.matrix.T @ y)
    reach = min(radius, math.sqrt(2 * slope / problem.rho))
    best_of_x = problem.rho / 6 * reach**3 - reach * slope - y @ problem.offset
    return float(best_of_y - best_of_x)
    # </paper2code name="restricted duality gap">


def cheapest_period(dim: int, first_order: float, base: float) -> int:
    """The period between 1 and ``dim`` at which a run of LEN costs least.

    Args:
        dim: d, at least 1.
        first_order: N, the cost of one evaluation of the operator.
        base: iterations that are needed with a period of 1.
    """
    # <paper2code name="cheapest period">
    def cost(period: int) -> float:
        iterations = math.ceil(base * period ** (2 / 3))
        snapshots = math.ceil(iterations / period)
        return iterations * (2 * first_order + dim**2) + snapshots * (dim * first_order + dim**3)

    return min(range(1, dim + 1), key=cost)
    # </paper2code name="cheapest period">
