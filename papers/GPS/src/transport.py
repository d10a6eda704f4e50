"""The earth mover's distance with entropy, which GPS is compared with."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from distances import pairwise_distances


class Transport(NamedTuple):
    """A transport between two sets.

    Attributes:
        cost: (B,).
        plan: (B, N, M).
        iterations: how many were run.
    """

    cost: Tensor
    plan: Tensor
    iterations: int


def sinkhorn_distance(
    x: Tensor, y: Tensor, epsilon: float = 0.1, iterations: int = 50, tolerance: float = 0.0
) -> Transport:
    """Transport cost between two sets with uniform masses, in the log domain.

    Args:
        x: (B, N, D).
        y: (B, M, D).
        epsilon: weight of the entropy, positive.
        iterations: at most so many, at least 1.
        tolerance: the potentials are good enough when they change by less than this.

    Raises:
        ValueError: ``epsilon`` is not positive and finite, or ``iterations`` is less than 1.
    """
    # <paper2code name="sinkhorn distance">
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, not {epsilon}")
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    cost = pairwise_distances(x, y)
    kernel = -cost / epsilon  # (B, N, M)
    rows, columns = cost.shape[1:]
    g = torch.zeros_like(cost[:, :1])  # (B, 1, M)
    for count in range(1, iterations + 1):
        before = g
        # <paper2code name="update of the potentials">
        f = -math.log(rows) - (kernel + g).logsumexp(dim=2, keepdim=True)
        g = -math.log(columns) - (kernel + f).logsumexp(dim=1, keepdim=True)
        # </paper2code name="update of the potentials">
        if (g - before).abs().max() < tolerance:
            break
    plan = (kernel + f + g).exp()
    return Transport(torch.einsum("bnm,bnm->b", plan, cost), plan, count)
    # </paper2code name="sinkhorn distance">
