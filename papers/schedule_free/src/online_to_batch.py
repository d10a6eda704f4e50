"""The online-to-batch view: x and y as fixed linear maps of the z sequence and of the gradients.

Here the average starts with z_1, so x_t is the mean of z_1 .. z_t with weights w_1 .. w_t. Arrays are float64, rows are
the times t = 1 .. T of the average, columns the times of what it is made of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]


def averaging_matrices(weights: ArrayLike, betas: ArrayLike) -> tuple[Matrix, Matrix]:
    """The matrices X and Y with x_t = sum_i X[t, i] z_i and y_t = sum_i Y[t, i] z_i.

    Args:
        weights: (T,) averaging weights.
        betas: share of x in y, one number or (T,).

    Returns:
        X and Y, both (T, T).

    Raises:
        ValueError: weights that are not a non-empty vector of non-negative numbers with a positive first one, or a
            beta outside [0, 1].
    """
    # <paper2code name="x and y as weighted means of the z sequence">
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 1 or not w.size:
        raise ValueError("weights must be a vector of at least one number")
    if w.min() < 0 or w[0] == 0:
        raise ValueError("weights must not be negative, and the first must be positive")
    beta = np.broadcast_to(np.asarray(betas, dtype=np.float64), w.shape)
    if beta.min() < 0 or beta.max() > 1:
        raise ValueError("beta must lie in [0, 1]")
    x = np.zeros((w.size, w.size))
    total = 0.0
    # <paper2code name="add one z after the other to the mean">
    for t, weight in enumerate(w):
        total += weight
        c = weight / total
        x[t, :t] = (1 - c) * x[t - 1, :t]
        x[t, t] = c
    # </paper2code name="add one z after the other to the mean">
    y = beta[:, None] * x
    y[np.diag_indices(w.size)] += 1 - beta
    return x, y
    # </paper2code name="x and y as weighted means of the z sequence">


def gradient_response(matrix: Matrix, lrs: ArrayLike) -> Matrix:
    """How far each gradient has moved each point, for z_{t+1} = z_t - lr_t g_t.

    Args:
        matrix: (T, T) lower triangular, a point at each time as a mean of z_1 .. z_T (rows sum to one).
        lrs: (T,) step sizes.

    Returns:
        (T, T) matrix R with point_t = z_1 - sum_s R[t, s] g_s.
    """
    # <paper2code name="share of every gradient in the points">
    later = np.tril(np.ones_like(matrix), -1)  # [i, s] = 1 where g_s is part of z_i
    return matrix @ later * np.asarray(lrs)
    # </paper2code name="share of every gradient in the points">
