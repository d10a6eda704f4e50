"""GPS: how likely the nearest-neighbour distances of two sets are under Gumbel priors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from distances import nearest_distances
from gumbel import log_density


def directed_similarity(
    x: Tensor, y: Tensor, alphas: Sequence[float], betas: Sequence[float], delta: float = 0.0
) -> Tensor:
    """Mean log-likelihood of the items of x, seen from y.

    Args:
        x: (B, N, D).
        y: (B, M, D).
        alphas, betas: K numbers each, all positive: number k belongs to the k-th nearest neighbour.
        delta: is added to all distances.

    Returns:
        (B,).

    Raises:
        ValueError: not as many alphas as betas, none at all, one of them not positive (NaN is
            not), or more of them than items of y.
    """
    # <paper2code name="directed similarity">
    if len(alphas) != len(betas):
        raise ValueError("there must be as many alphas as betas")
    if not all(value > 0 for value in (*alphas, *betas)):
        raise ValueError("alphas and betas must be positive")
    alpha = torch.as_tensor(alphas, dtype=x.dtype)
    beta = torch.as_tensor(betas, dtype=x.dtype)
    distances = nearest_distances(x, y, len(alphas)) + delta  # (B, N, K)
    # <paper2code name="log-likelihood of an item">
    terms = log_density(distances, alpha, beta)
    items = terms.logsumexp(dim=-1) - math.log(len(alphas))
    # </paper2code name="log-likelihood of an item">
    return items.mean(dim=-1)
    # </paper2code name="directed similarity">


def gps_loss(
    x: Tensor, y: Tensor, alphas: Sequence[float], betas: Sequence[float], delta: float = 0.0
) -> Tensor:
    """The symmetric loss for training, a tensor without dimensions."""
    # <paper2code name="symmetric loss">
    there = directed_similarity(x, y, alphas, betas, delta)
    back = directed_similarity(y, x, alphas, betas, delta)
    return -(there + back).mean() / 2
    # </paper2code name="symmetric loss">
