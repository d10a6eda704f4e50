"""Distances between the items of two sets, and to the nearest ones."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances of all items of x to all items of y.

    Args:
        x: (B, N, D).
        y: (B, M, D).

    Returns:
        (B, N, M); exactly 0 for equal items, with a gradient of exactly 0 there.
    """
    # <paper2code name="distances with a safe gradient">
    squares = (x[:, :, None] - y[:, None]).square().sum(dim=-1)  # (B, N, M)
    same = squares == 0
    roots = squares.masked_fill(same, 1.0).sqrt()
    return roots.masked_fill(same, 0.0)
    # </paper2code name="distances with a safe gradient">


def nearest_distances(x: Tensor, y: Tensor, k: int) -> Tensor:
    """Distances of each item of x to its k nearest items in y, the nearest first.

    Args:
        x: (B, N, D).
        y: (B, M, D).
        k: from 1 to M.

    Returns:
        (B, N, k).

    Raises:
        ValueError: ``k`` is out of its range.
    """
    # <paper2code name="nearest neighbour distances">
    if not 1 <= k <= y.shape[1]:
        raise ValueError(f"k must be from 1 to {y.shape[1]}, not {k}")
    return pairwise_distances(x, y).topk(k, largest=False).values
    # </paper2code name="nearest neighbour distances">
