"""Min-max problems min_x max_y f(x, y), seen as operators on z = (x, y).

Every problem offers ``operator(z)`` and ``jacobian(z)``: the field F(z), whose zero is the saddle
point, and its matrix of derivatives. All arrays are float64; z has shape (d,), x comes first.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def expit(t: Array) -> Array:
    """The logistic function 1 / (1 + exp(-t)), element by element, without overflow."""
    decay = np.exp(-np.abs(t))
    return np.where(t >= 0, 1.0, decay) / (1 + decay)


class MinMaxProblem(Protocol):
    """What the solvers need to know of a problem."""

    dim: int

    def operator(self, z: Array) -> Array:
        """F(z), shape (d,)."""

    def jacobian(self, z: Array) -> Array:
        """The derivative of F at z, shape (d, d)."""


def difference_matrix(n: int) -> Array:
    """(n, n): ones on the diagonal, minus ones just above it, zeros elsewhere."""
    return np.eye(n) - np.eye(n, k=1)


class CubicBilinear:
    """The bilinear game with a cubic regularizer on x.

    Attributes:
        rho: weight of the regularizer, the Lipschitz constant of the Jacobian; positive.
        matrix: (n, n), invertible.
        offset: (n,).
        dim: 2n.
    """

    def __init__(self, rho: float, matrix: Array, offset: Array) -> None:
        self.rho = rho
        self.matrix = matrix
        self.offset = offset
        self.dim = 2 * len(offset)

    def split(self, z: Array) -> tuple[Array, Array]:
        """x and y, each of shape (n,)."""
        n = len(self.offset)
        return z[:n], z[n:]

    def operator(self, z: Array) -> Array:
        """F(z), shape (2n,)."""
        # <paper2code name="cubic bilinear operator">
        x, y = self.split(z)
        along_x = self.rho / 2 * np.linalg.norm(x) * x + self.matrix.T @ y
        return np.concatenate([along_x, self.offset - self.matrix @ x])
        # </paper2code name="cubic bilinear operator">

    def jacobian(self, z: Array) -> Array:
        """The derivative of F at z, shape (2n, 2n)."""
        # <paper2code name="cubic bilinear jacobian">
        x, _ = self.split(z)
        n = len(x)
        size = np.linalg.norm(x)
        curvature = size * np.eye(n)
        if size > 0:
            curvature += np.outer(x, x) / size
        result = np.zeros((self.dim, self.dim))
        result[:n, :n] = self.rho / 2 * curvature
        result[:n, n:] = self.matrix.T
        result[n:, :n] = -self.matrix
        return result
        # </paper2code name="cubic bilinear jacobian">

    def saddle_point(self) -> Array:
        """The only z with F(z) = 0, in closed form, shape (2n,)."""
        # <paper2code name="saddle point in closed form">
        x = np.linalg.solve(self.matrix, self.offset)
        y = np.linalg.solve(self.matrix.T, -self.rho / 2 * np.linalg.norm(x) * x)
        return np.concatenate([x, y])
        # </paper2code name="saddle point in closed form">


class FairClassification:
    """Logistic regression against an adversary that guesses a protected attribute.

    Attributes:
        features: (N, n).
        labels: (N,), each -1 or 1.
        protected: (N,), each -1 or 1.
        beta: weight of the adversary.
        lam: weight of the regularizer on x.
        gamma: weight of the regularizer on the adversary's only number y.
        dim: n + 1.
    """

    def __init__(
        self,
        features: Array,
        labels: Array,
        protected: Array,
        beta: float = 0.5,
        lam: float = 1e-4,
        gamma: float = 1e-4,
    ) -> None:
        self.features = features
        self.labels = labels
        self.protected = protected
        self.beta = beta
        self.lam = lam
        self.gamma = gamma
        self.dim = features.shape[1] + 1

    def operator(self, z: Array) -> Array:
        """F(z), shape (n + 1,)."""
        # <paper2code name="fairness operator">
        x, y = z[:-1], z[-1]
        count = len(self.labels)
        scores = self.features @ x  # (N,)
        miss = expit(-self.labels * scores)  # (N,)
        leak = self.beta * self.protected * expit(-self.protected * y * scores)  # (N,)
        along_x = self.features.T @ (y * leak - self.labels * miss) / count + 2 * self.lam * x
        along_y = scores @ leak / count - 2 * self.gamma * y
        return np.append(along_x, -along_y)
        # </paper2code name="fairness operator">

    def jacobian(self, z: Array) -> Array:
        """The derivative of F at z, shape (n + 1, n + 1)."""
        # <paper2code name="fairness jacobian">
        x, y = z[:-1], z[-1]
        n, count = len(x), len(self.labels)
        scores = self.features @ x  # (N,)
        miss = expit(-self.labels * scores)
        hit = expit(-self.protected * y * scores)
        bend = self.beta * hit * (1 - hit)  # (N,)
        weights = miss * (1 - miss) - y**2 * bend  # (N,)
        result = np.empty((n + 1, n + 1))
        result[:n, :n] = self.features.T @ (weights[:, None] * self.features) / count
        result[:n, :n] += 2 * self.lam * np.eye(n)
        # <paper2code name="coupling of classifier and adversary">
        pull = self.beta * self.protected * hit - y * scores * bend
        mixed = self.features.T @ pull / count
        # </paper2code name="coupling of classifier and adversary">
        result[:n, n] = mixed
        result[n, :n] = -mixed
        result[n, n] = bend @ scores**2 / count + 2 * self.gamma
        return result
        # </paper2code name="fairness jacobian">
