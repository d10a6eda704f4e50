"""The regularized Newton step: a linear system whose shift depends on the length of its solution."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from problems import Array


class Step(NamedTuple):
    """A regularized Newton step.

    Attributes:
        step: (d,).
        shift: the number that was added to the diagonal.
    """

    step: Array
    shift: float


class Snapshot:
    """A Jacobian that was taken apart once, to be solved with at many shifts.

    Attributes:
        triangular: (d, d), complex, upper triangular.
        unitary: (d, d), complex; ``unitary @ triangular @ unitary.conj().T`` is the Jacobian.
        norm: the Frobenius norm of the Jacobian.
    """

    def __init__(self, jacobian: Array) -> None:
        _, vectors = np.linalg.eig(jacobian.astype(np.complex128))
        self.unitary = np.linalg.qr(vectors).Q
        self.triangular = np.triu(self.unitary.conj().T @ jacobian @ self.unitary)
        self.norm = float(np.linalg.norm(jacobian))

    def solve(self, shift: float, right: Array) -> Array:
        """The real solution s, shape (d,), of (Jacobian + shift * identity) s = right."""
        # <paper2code name="shifted triangular solve">
        rotated = self.unitary.conj().T @ right
        found = np.zeros_like(rotated)
        for i in reversed(range(len(right))):
            known = self.triangular[i] @ found  # of what is found so far
            found[i] = (rotated[i] - known) / (self.triangular[i, i] + shift)
        return (self.unitary @ found).real
        # </paper2code name="shifted triangular solve">


def regularized_step(
    snapshot: Snapshot, force: Array, strength: float, tolerance: float = 1e-10
) -> Step:
    """Solve (J + shift * I) step = -force with shift = strength * |step|, by bisection for the shift.

    Args:
        snapshot: the Jacobian J, whose symmetric part is positive semidefinite.
        force: (d,): the operator at the current point.
        strength: M, positive and finite.
        tolerance: relative width of the bracket at which the bisection stops.

    Raises:
        ValueError: ``strength`` is not positive and finite, or ``tolerance`` not in [1e-14, 1).
    """
    # <paper2code name="step by bisection for the shift">
    if not 0 < strength < math.inf:
        raise ValueError(f"strength must be positive and finite, not {strength}")
    if not 1e-14 <= tolerance < 1:
        raise ValueError(f"tolerance must be in [1e-14, 1), not {tolerance}")
    push = strength * float(np.linalg.norm(force))
    if push == 0:
        return Step(np.zeros_like(force), 0.0)
    # <paper2code name="bracket of the shift">
    high = math.sqrt(push)
    low = 2 * push / (snapshot.norm + math.sqrt(snapshot.norm**2 + 4 * push))
    # </paper2code name="bracket of the shift">
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if middle > strength * np.linalg.norm(snapshot.solve(middle, force)):
            high = middle
        else:
            low = middle
    shift = (low + high) / 2
    return Step(snapshot.solve(shift, -force), shift)
    # </paper2code name="step by bisection for the shift">
