"""The three points of a Schedule-Free method: z takes the steps, x is the average, gradients are taken at y.

Any two of the three determine the third, so an optimiser needs to keep only two of them.
"""

from __future__ import annotations

from torch import Tensor


def gradient_point(x: Tensor, z: Tensor, beta: float) -> Tensor:
    """The point y between z (beta = 0) and x (beta = 1). All tensors have the parameter's shape."""
    return (1 - beta) * z + beta * x


def average_point(y: Tensor, z: Tensor, beta: float) -> Tensor:
    """The average x that belongs to y and z, for 0 < beta <= 1. Changes neither argument."""
    # <paper2code name="recover the average x from y and z">
    return z + (y - z) / beta
    # </paper2code name="recover the average x from y and z">
