"""The two ends that Schedule-Free SGD lies between: Polyak-Ruppert averaging (beta = 0) and primal averaging (beta = 1).

Plain numpy on one vector. As in `online_to_batch`, the average starts with z_1: T steps make z_1 .. z_{T+1}, which the
averages give the weights w_1 .. w_{T+1}.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


def polyak_ruppert(
    gradient: Callable[[Vector], Vector], start: ArrayLike, lrs: ArrayLike, weights: ArrayLike
) -> Vector:
    """SGD with its running weighted mean: gradients are taken at z. Returns x_1 .. x_{T+1} as (T+1, d)."""
    z = np.array(start, dtype=np.float64)
    iterates = [z]
    for lr in np.asarray(lrs, dtype=np.float64):
        z = z - lr * gradient(z)
        iterates.append(z)
    w = np.asarray(weights, dtype=np.float64)[:, None]
    return np.cumsum(w * np.stack(iterates), axis=0) / np.cumsum(w, axis=0)


def primal_averaging(
    gradient: Callable[[Vector], Vector], start: ArrayLike, lrs: ArrayLike, weights: ArrayLike
) -> Vector:
    """Primal averaging without its z: gradients are taken at the average, which moves with heavy-ball momentum.

    Args:
        gradient: maps a (d,) point to the (d,) gradient there; called once per step.
        start: (d,) first point x_1 = z_1.
        lrs: (T,) step sizes.
        weights: (T+1,) averaging weights.

    Returns:
        x_1 .. x_{T+1} as (T+1, d).

    Raises:
        ValueError: not one weight more than step sizes, or a weight that is not positive.
    """
    # <paper2code name="primal averaging as heavy-ball momentum">
    lr, w = np.asarray(lrs), np.asarray(weights, dtype=np.float64)
    if w.size != lr.size + 1 or w.min() <= 0:
        raise ValueError("give one positive weight more than step sizes")
    c = w / np.cumsum(w)  # c[0] = 1: the average starts at z_1
    points = [np.array(start, dtype=np.float64)]
    for t in range(lr.size):
        momentum = c[t + 1] * (1 - c[t]) / c[t]  # 0 in the first step, which has no point before it
        push = momentum * (points[t] - points[t - 1])
        points.append(points[t] + push - c[t + 1] * lr[t] * gradient(points[t]))
    return np.stack(points)
    # </paper2code name="primal averaging as heavy-ball momentum">
