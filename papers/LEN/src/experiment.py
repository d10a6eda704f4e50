"""The paper's synthetic experiment in small: how the period of the lazy Jacobian trades off."""

from __future__ import annotations

import numpy as np

from gap import restricted_gap
from lazy_newton import lazy_extra_newton
from problems import CubicBilinear, difference_matrix


def compare_periods(n: int, iterations: int, periods: list[int], seed: int = 0) -> list[dict]:
    """Run LEN on one random cubic bilinear game with several periods."""
    rng = np.random.default_rng(seed)
    problem = CubicBilinear(1 / (20 * n), difference_matrix(n), rng.normal(size=n))
    radius = 2 * float(np.linalg.norm(problem.saddle_point()))
    rows = []
    for period in periods:
        run = lazy_extra_newton(problem, np.zeros(2 * n), iterations, period, 3 * problem.rho)
        gap = restricted_gap(problem, run.solution, radius)
        rows.append({"period": period, "jacobians": run.jacobians, "gap": gap})
    return rows


if __name__ == "__main__":
    for row in compare_periods(n=20, iterations=100, periods=[1, 10, 40]):
        print(row)
