"""LEN-restart: for strongly monotone operators, LEN is run again and again from its own answer."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lazy_newton import lazy_extra_newton
from problems import Array, MinMaxProblem


class Restarts(NamedTuple):
    """What LEN-restart found; E is the number of epochs that were run.

    Attributes:
        solution: (d,).
        residuals: (E + 1,): norms of the operator at the starts of the epochs, and at the solution.
        lengths: (E,), int64: iterations that the epochs were allowed.
        iterations: iterations that all epochs have finished.
        jacobians: Jacobians that all epochs have evaluated.
    """

    solution: Array
    residuals: Array
    lengths: Array
    iterations: int
    jacobians: int


def lazy_extra_newton_restart(
    problem: MinMaxProblem,
    start: Array,
    epochs: int,
    period: int,
    strength: float,
    radius: float,
    mu: float,
    shrink: bool = False,
    tolerance: float = 0.0,
) -> Restarts:
    """Run LEN-restart.

    Args:
        problem: its operator is strongly monotone with constant ``mu``.
        start: (d,).
        epochs: how many epochs are run at most; 0 is allowed.
        period: m.
        strength: M.
        radius: R, a bound of the distance from ``start`` to the saddle point.
        mu: constant of strong monotonicity.
        shrink: whether epochs become shorter with the distance that is left.
        tolerance: the tolerance of every epoch.

    Raises:
        ValueError: ``epochs`` is negative, ``strength``, ``radius`` or ``mu`` is not positive and
            finite, or LEN refuses its settings.
    """
    # <paper2code name="restarted method">
    if epochs < 0 or not all(0 < value < math.inf for value in (strength, radius, mu)):
        raise ValueError("epochs must not be negative, the constants positive and finite")
    z = np.array(start, dtype=np.float64)
    residuals = [np.linalg.norm(problem.operator(z))]
    lengths = []
    iterations = jacobians = 0
    for epoch in range(epochs):
        # <paper2code name="length of an epoch">
        left = radius / 2**epoch if shrink else radius
        length = math.ceil((2 * strength * left / mu) ** (2 / 3))
        # </paper2code name="length of an epoch">
        run = lazy_extra_newton(problem, z, length, period, strength, tolerance)
        z = run.solution
        residuals.append(np.linalg.norm(problem.operator(z)))
        lengths.append(length)
        iterations += len(run.shifts)
        jacobians += run.jacobians
        if run.converged:
            break
    counts = np.array(lengths, dtype=np.int64)
    return Restarts(z, np.array(residuals), counts, iterations, jacobians)
    # </paper2code name="restarted method">
