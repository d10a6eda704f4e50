"""LEN, the lazy extra Newton method: an extragradient method whose half step is a Newton step with an old Jacobian."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from problems import Array, MinMaxProblem
from subproblem import Snapshot, regularized_step


class Run(NamedTuple):
    """What a run of LEN found; S is the number of iterations that were finished.

    Attributes:
        solution: (d,): the answer: the weighted average, or the last iterate if the run converged.
        last: (d,): the last iterate.
        half_points: (S, d): the points after the half steps.
        shifts: (S,): the shifts of the half steps.
        jacobians: how many Jacobians were evaluated.
        converged: whether the run stopped because the operator was small.
    """

    solution: Array
    last: Array
    half_points: Array
    shifts: Array
    jacobians: int
    converged: bool


def lazy_extra_newton(
    problem: MinMaxProblem,
    start: Array,
    iterations: int,
    period: int,
    strength: float,
    tolerance: float = 0.0,
) -> Run:
    """Run LEN.

    Args:
        problem: gives the operator and its Jacobian.
        start: (d,); it is not changed in place.
        iterations: T, at least 1.
        period: m, at least 1: the Jacobian is evaluated anew at every m-th iteration.
        strength: M, the regularization.
        tolerance: stop when the norm of the operator at an iterate is at most this; at least 0.

    Raises:
        ValueError: a number is out of its range; NaN is in no range.
    """
    # <paper2code name="lazy extra Newton method">
    if iterations < 1 or period < 1:
        raise ValueError("iterations and period must be at least 1")
    if not (tolerance >= 0 and 0 < strength < math.inf):
        raise ValueError("tolerance must be at least 0, and strength positive and finite")
    z = np.array(start, dtype=np.float64)
    weighted, weight = np.zeros_like(z), 0.0
    halves, shifts = [], []
    jacobians, converged = 0, False
    for t in range(iterations):
        force = problem.operator(z)
        if np.linalg.norm(force) <= tolerance:
            converged = True
            break
        # <paper2code name="lazy Jacobian">
        if t % period == 0:
            snapshot = Snapshot(problem.jacobian(z))
            jacobians += 1
        # </paper2code name="lazy Jacobian">
        step, shift = regularized_step(snapshot, force, strength)
        half = z + step
        # <paper2code name="extra step and running average">
        z = z - problem.operator(half) / shift
        weighted += half / shift
        weight += 1 / shift
        # </paper2code name="extra step and running average">
        halves.append(half)
        shifts.append(shift)
    solution = z if converged else weighted / weight
    halves = np.reshape(halves, (len(shifts), len(z)))
    return Run(solution, z, halves, np.array(shifts), jacobians, converged)
    # </paper2code name="lazy extra Newton method">
