"""The fixed points of x -> tanh(a x), on which the initialization is built."""

from __future__ import annotations

import torch
from torch import Tensor


def positive_fixed_point(a: Tensor, halvings: int = 60) -> Tensor:
    """The largest fixed point of x -> tanh(a x) for each slope; 0 where there is none above 0.

    Args:
        a: slopes, any shape, a floating-point dtype; all positive.
        halvings: how often the bracket is halved, at least 0.

    Raises:
        ValueError: a slope is not positive (NaN is not), or ``halvings`` is negative.
    """
    # <paper2code name="fixed point by bisection">
    if not bool((a > 0).all()):
        raise ValueError("slopes must be positive")
    if halvings < 0:
        raise ValueError(f"halvings must not be negative, but is {halvings}")
    low = torch.zeros_like(a)
    high = torch.ones_like(a)
    for _ in range(halvings):
        # <paper2code name="halved bracket">
        middle = (low + high) / 2
        below = middle < torch.tanh(a * middle)
        low = torch.where(below, middle, low)
        high = torch.where(below, high, middle)
        # </paper2code name="halved bracket">
    middle = (low + high) / 2
    return torch.where(a > 1, middle, torch.zeros_like(a))
    # </paper2code name="fixed point by bisection">


def contraction_rate(a: Tensor) -> Tensor:
    """The derivative of x -> tanh(a x) at its largest fixed point, same shape as ``a``."""
    # <paper2code name="rate at the fixed point">
    xi = positive_fixed_point(a)
    return a * (1 - xi**2)
    # </paper2code name="rate at the fixed point">


def iterate_slopes(x: Tensor, slopes: Tensor) -> Tensor:
    """Follow activations through scalar layers: every layer multiplies by its slope and takes tanh.

    Args:
        x: (...): where to begin.
        slopes: (L, ...) with the trailing shape of ``x``, or (L,) and the same for all of ``x``.

    Returns:
        (L + 1, ...): the start, and what comes out of every layer.
    """
    # <paper2code name="activations through scalar layers">
    path = [x]
    for slope in slopes:
        path.append(torch.tanh(slope * path[-1]))
    return torch.stack(path)
    # </paper2code name="activations through scalar layers">
